"""What is filled in about webhooks."""

from django import forms


class WebhookForm(forms.Form):
    # No URLField: what an address may be is said by one place, in one set of sentences.
    url = forms.CharField(
        label="Address",
        max_length=2000,
        widget=forms.URLInput(attrs={"placeholder": "https://hooks.example.com/ringside"}),
        error_messages={"required": "Enter the address that notices are to be sent to."},
    )
