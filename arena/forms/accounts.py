"""django-allauth's forms with our labels, without placeholders."""

from typing import Any

from allauth.account import forms as allauth
from django import forms
from django.contrib.auth.forms import PasswordChangeForm
from django.core.validators import MaxLengthValidator
from django.utils.translation import gettext_lazy

from arena.mailboxes import LONGEST_ADDRESS


class PlainForm(forms.Form):
    """Sets labels and help texts, and limits the length of addresses."""

    labels: dict[str, Any] = {}
    hints: dict[str, Any] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.widget.attrs.pop("placeholder", None)
            field.label = self.labels.get(name, field.label)
            field.help_text = self.hints.get(name, "")
        for name in self.fields.keys() & {"email", "login"}:
            self.fields[name].validators.append(MaxLengthValidator(LONGEST_ADDRESS))


SIGN_IN_AGAIN = gettext_lazy(
    "Sign out and back in first: you can do this only within five minutes of signing in."
)
RULES = gettext_lazy("At least eight characters, and not a common password.")


class SignInForm(PlainForm, allauth.LoginForm):
    labels = {
        "login": gettext_lazy("User name or email address"),
        "password": gettext_lazy("Password"),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Password managers look for this name.
        self.fields["login"].widget.attrs |= {"autocomplete": "username", "autocapitalize": "none"}

    def user_credentials(self) -> dict[str, str]:
        """Pass the login under one key only: with a second key, a known address would be checked
        twice, and the extra time would reveal that the address is known."""
        return {
            "username": self.cleaned_data["login"],
            "password": self.cleaned_data["password"],
        }


class SignUpForm(PlainForm, allauth.SignupForm):
    labels = {"email": gettext_lazy("Email address"), "password1": gettext_lazy("Password")}
    hints = {
        "email": gettext_lazy("Your user name will be the part before the @."),
        "password1": RULES,
    }


class ForgottenPasswordForm(PlainForm, allauth.ResetPasswordForm):
    labels = {"email": gettext_lazy("Email address")}


class ChangePasswordForm(PlainForm, PasswordChangeForm):
    labels = {
        "old_password": gettext_lazy("Current password"),
        "new_password1": gettext_lazy("New password"),
        "new_password2": gettext_lazy("New password, again"),
    }
    hints = {"new_password1": RULES}
    error_messages = PasswordChangeForm.error_messages | {
        "password_incorrect": gettext_lazy("Wrong password.")
    }


class NewPasswordForm(PlainForm, allauth.ResetPasswordKeyForm):
    labels = {"password1": gettext_lazy("New password")}
    hints = {"password1": RULES}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["password2"]


class ConfirmedForm(allauth.UserForm):
    """Asks for the password; people who sign in elsewhere must have done so just now."""

    def __init__(self, *args: Any, is_fresh: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        has_password = self.user.has_usable_password()
        self.sign_in_again = "" if has_password or is_fresh else SIGN_IN_AGAIN
        if has_password:
            self.fields["password"] = forms.CharField(
                strip=False,
                widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
            )

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        if not self.user.check_password(password):
            raise forms.ValidationError(gettext_lazy("Wrong password."))
        return password

    def clean(self) -> Any:
        data = super().clean()
        if self.sign_in_again:
            raise forms.ValidationError(self.sign_in_again)
        return data


class ChangeEmailForm(ConfirmedForm, PlainForm, allauth.AddEmailForm):
    labels = {"email": gettext_lazy("New email address")}


class CloseAccountForm(ConfirmedForm):
    """Also asks for the user name if people sign in elsewhere."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "password" not in self.fields:
            self.fields["user_name"] = forms.CharField(
                label=f"Type {self.user.get_username()} to confirm",
                widget=forms.TextInput(attrs={"autocomplete": "off"}),
            )

    def clean_user_name(self) -> str:
        name: str = self.cleaned_data["user_name"]
        if name != self.user.get_username():
            raise forms.ValidationError(gettext_lazy("This is not your user name."))
        return name
