"""allauth's forms with our words, and without the texts that stand in for labels."""

from typing import Any

from allauth.account import forms as allauth
from django import forms
from django.core.validators import MaxLengthValidator

from arena.accounts.limits import LONGEST_ADDRESS


class Plain(forms.Form):
    """Fields named by their labels alone; `hints` are read out with their fields."""

    labels: dict[str, str] = {}
    hints: dict[str, str] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.widget.attrs.pop("placeholder", None)
            field.label = self.labels.get(name, field.label)
            field.help_text = self.hints.get(name, "")
        for name in self.fields.keys() & {"email", "login"}:
            self.fields[name].validators.append(MaxLengthValidator(LONGEST_ADDRESS))


RULES = "At least eight characters, and none of the passwords that everybody uses."


class SignInForm(Plain, allauth.LoginForm):
    labels = {"login": "User name or e-mail address", "password": "Password"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Password managers keep the pair under this name.
        self.fields["login"].widget.attrs |= {"autocomplete": "username", "autocapitalize": "none"}

    def user_credentials(self) -> dict[str, str]:
        """Name the account once, by name or address: under both keys a known address would be
        checked twice, and the time that takes would tell that it is known."""
        given = self.cleaned_data
        return {"username": given["login"], "password": given["password"]}


class SignUpForm(Plain, allauth.SignupForm):
    labels = {"email": "E-mail address", "password1": "Password"}
    hints = {
        "email": "Your user name is made of what stands before the @.",
        "password1": RULES,
    }


class ForgottenPasswordForm(Plain, allauth.ResetPasswordForm):
    labels = {"email": "E-mail address"}


class NewPasswordForm(Plain, allauth.ResetPasswordKeyForm):
    labels = {"password1": "New password"}
    hints = {"password1": RULES}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["password2"]
