"""What a service turned down, told beside the form."""

from django import forms

from arena.services.refusals import Refused


def blame(form: forms.BaseForm, refused: Refused) -> None:
    """Put a service's sentence on the field that it is about, else above the form."""
    form.add_error(refused.field if refused.field in form.fields else None, refused.sentence)
