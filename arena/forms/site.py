"""The operators' form for the settings of this site."""

from typing import Any

from django import forms
from django.conf import settings

from arena.forms.base import DollarsField
from arena.models import SiteSettings
from arena.services.site import FIELDS
from arena.site import is_given
from arena.validation import in_dollars


class SiteForm(forms.Form):
    """What the environment sets is shown and cannot be changed."""

    site_url = forms.CharField(label="Address", required=False, max_length=200)
    sign_up = forms.ChoiceField(
        label="Who may create an account", required=False, choices=SiteSettings.SignUp.choices
    )
    team_budget = DollarsField(
        label="Budget of a person’s first team, in dollars",
        required=False,
        help_text="Who may create many accounts has many budgets: let only invited people in, or"
        " set a mail server, which confirms addresses.",
    )
    mail_host = forms.CharField(
        label="Server", required=False, max_length=200, help_text="Leave empty to send no mail."
    )
    mail_port = forms.IntegerField(label="Port", min_value=1, max_value=65535)
    mail_security = forms.ChoiceField(label="Encryption", choices=SiteSettings.MailSecurity.choices)
    mail_user = forms.CharField(label="User", required=False, max_length=200)
    password = forms.CharField(
        label="Password",
        required=False,
        max_length=500,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    no_password = forms.BooleanField(label="Remove the password", required=False)
    mail_from = forms.CharField(
        label="From", required=False, max_length=200, help_text="As in Arena <arena@example.org>."
    )

    def __init__(self, *args: Any, row: SiteSettings | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = row or SiteSettings()
        self.has_password = bool(row.encrypted_mail_password)
        for name, fields in FIELDS.items():
            for field in (*fields, *(("password", "no_password") * (name == "EMAIL_URL"))):
                self.fields[field].disabled = is_given(name)
        own = {name: getattr(row, name) for names in FIELDS.values() for name in names}
        given = {
            "site_url": settings.SITE_URL,
            "sign_up": settings.SIGN_UP,
            "team_budget": settings.TEAM_BUDGET,
        }
        for name, value in given.items():
            if self.fields[name].disabled or own[name] in (None, ""):
                own[name] = value
        own["team_budget"] = in_dollars(own["team_budget"])
        self.initial.update(own)
        if self.has_password:
            self.fields["password"].help_text = "Stored. Leave empty to keep it."

    @property
    def values(self) -> dict[str, Any]:
        """What differs from the settings is stored: the rest follows them."""
        clean = dict(self.cleaned_data)
        if clean["site_url"].rstrip("/") == settings.SITE_URL:
            clean["site_url"] = ""
        return clean

    @property
    def password_entered(self) -> str | None:
        """The new password, '' to remove it, None to keep it."""
        if self.cleaned_data["password"]:
            return str(self.cleaned_data["password"])
        return "" if self.cleaned_data["no_password"] else None


class TryMailForm(forms.Form):
    to = forms.EmailField(label="Send a test mail to")
