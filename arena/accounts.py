"""django-allauth's adapters: permission to sign up, redirects after sign-in, and emails; and its
forms with our labels, without placeholders.

The session holds the id of the invitation that this browser opened last, not the link's secret:
sessions are stored in the database, and the secret must not be.
"""

import hashlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from allauth.account import forms as allauth
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.hashers import make_password
from django.core.validators import MaxLengthValidator
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.http import HttpRequest
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy

from arena.models import Invitation
from arena.services import teams
from arena.services.notices import absolute_url
from arena.services.rate_limits import allow, client_address
from arena.services.teams import InvitationError

GMAIL = ("gmail.com", "googlemail.com")  # one mailbox, with dots anywhere or nowhere
USUAL_ADDRESS = re.compile(r'[^"\\@]+@[A-Za-z0-9.-]+')
LONGEST_ADDRESS = 254  # as in the account tables; user names are shorter
MINUTES, HOUR = timedelta(minutes=5), timedelta(hours=1)


@dataclass(frozen=True)
class Limit:
    """Attempts within `window`: per address, per account and address, and per account.

    One address alone must not use up `per_account`, or it could lock the owner out.
    """

    per_address: int
    per_account_here: int
    per_account: int
    window: timedelta


LIMITS = {
    "sign-in": Limit(20, 10, 500, MINUTES),
    # Each of these attempts sends an email.
    "sign-up": Limit(60, 5, 10, HOUR),
    "forgotten-password": Limit(20, 5, 10, HOUR),
    "new-email": Limit(20, 5, 10, HOUR),
    "new-password": Limit(20, 20, 20, MINUTES),
    "invitation": Limit(60, 60, 60, MINUTES),
}
WAIT = {
    MINUTES: gettext_lazy("Wait five minutes, then try again."),
    HOUR: gettext_lazy("Wait an hour, then try again."),
}
FROM_ADDRESS = gettext_lazy("Too many attempts from your network address.")
FOR_ACCOUNT_FROM_ADDRESS = gettext_lazy(
    "Too many attempts with this user name or email address from your network address."
)
FOR_ACCOUNT = gettext_lazy(
    "Too many attempts with this user name or email address, including from other networks."
)


def too_many(request: HttpRequest, action: str, name: str = "") -> str:
    """Count an attempt at `action`, for the account `name` if there is one.

    Return '' if it is allowed, else a message that says how long to wait.
    """
    limit, now = LIMITS[action], timezone.now()
    # An attempt that exceeds one limit is not counted against the next. The address comes first,
    # before any account is looked up, so that attempts are counted whatever the name.
    for key, attempts, message in _counters(action, limit, client_address(request), name.strip()):
        if not allow(key=key, limit=attempts, window=limit.window, now=now):
            return f"{message} {WAIT[limit.window]}"
    return ""


def _counters(action: str, limit: Limit, address: str, name: str) -> Iterator[tuple[str, int, Any]]:
    """Yield, in order, the key, the limit and the message of each counter."""
    yield f"{action}:{address}", limit.per_address, FROM_ADDRESS
    if not name:
        return
    account = _account_key(name)
    here = _digest(f"{account} {address}")
    yield f"{action}:here:{here}", limit.per_account_here, FOR_ACCOUNT_FROM_ADDRESS
    yield f"{action}:{account}", limit.per_account, FOR_ACCOUNT


def _account_key(name: str) -> str:
    """Return one key for all names of a mailbox or an account, and a digest for an unknown name.

    So unknown names are counted too, without storing addresses in the table of limits, and nobody
    sends one mailbox many emails by writing its address in many ways.
    """
    # PostgreSQL rejects some unprintable characters, SQLite very long texts.
    if name.isprintable() and len(name) <= LONGEST_ADDRESS:
        named = Q(username__iexact=name) | Q(email__iexact=name)
        users = get_user_model().objects.filter(named | Q(emailaddress__email__iexact=name))
        if user := users.order_by("pk").first():
            if not user.email:
                return f"account:{user.pk}"
            name = user.email
    name = name.upper().casefold()
    return f"name:{_digest(mailbox(name) if '@' in name else name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# -- Limits on attempts ----------------------------------------------------------------------------

log = logging.getLogger(__name__)

SESSION_KEY = "invitation"
NAME_ATTEMPTS = 3
TAKEN = gettext_lazy(
    "An account with your email address already exists. Sign in with its password, then connect "
    "{name} to it on this page."
)
WELCOME = gettext_lazy(
    "Your account has been created, and you are signed in. To compare your own prompts, create a"
    " team: it holds your arenas, and you can invite others to it."
)
UNUSUAL = gettext_lazy(
    "Enter an address such as name@example.org, without quotes. Write international domains in"
    " their xn-- form."
)
NO_ADDRESS = gettext_lazy(
    "{name} did not share your email address, so no account could be created."
)


# -- The invitation that this browser opened -------------------------------------------------------


def remember_invitation(request: HttpRequest, invitation: Invitation | None) -> None:
    """Store the invitation's id in the session; 0 if the link has no invitation."""
    request.session[SESSION_KEY] = invitation.pk if invitation else 0


def forget_invitation(request: HttpRequest) -> None:
    request.session.pop(SESSION_KEY, None)


def current_invitation(request: HttpRequest) -> Invitation | None:
    """Return this browser's invitation, whether or not it can still be used."""
    invitations = Invitation.objects.select_related("team", "created_by")
    return invitations.filter(pk=_invitation_id(request)).first()


def is_invited(request: HttpRequest) -> bool:
    """Whether the invitation can still be used."""
    key = _invitation_id(request)
    return bool(key) and Invitation.objects.open(timezone.now()).filter(pk=key).exists()


def can_sign_up(request: HttpRequest) -> bool:
    """Whether the invitation can still create an account."""
    key = _invitation_id(request)
    return bool(key) and teams.can_create_account(invitation_id=key, now=timezone.now())


def _invitation_id(request: HttpRequest) -> int:
    return int(request.session.get(SESSION_KEY, 0))


# -- Accounts --------------------------------------------------------------------------------------


class ProveAddress(EmailVerificationStage):
    """Requires people who signed up to confirm their address.

    Accounts created by an administrator are exempt, even while they change their address, because
    it may belong to nobody.
    """

    def handle(self) -> Any:
        user = self.login.user
        if user and not EmailAddress.objects.filter(user=user, primary=True).exists():
            return None, True
        return super().handle()


class Accounts(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        if settings.SIGN_UP == "invited":
            return can_sign_up(request)
        return bool(settings.SIGN_UP == "open")

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Return to the invitation, if there is one."""
        return reverse("open_invitation") if is_invited(request) else reverse("index")

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        """Return to the invitation if there is one, else go to the teams page."""
        return reverse("open_invitation") if is_invited(request) else reverse("teams")

    def post_login(self, request: HttpRequest, user: Any, **kwargs: Any) -> Any:
        """Greet new users, unless they are redirected to a page they had asked for."""
        response = super().post_login(request, user, **kwargs)
        if kwargs["signup"] and response.get("Location") == reverse("teams"):
            messages.success(request, WELCOME)
        return response

    def get_login_stages(self) -> list[str]:
        return [f"{__name__}.{ProveAddress.__name__}"]

    def is_safe_url(self, url: str) -> bool:
        """Allow redirects to this host only."""
        request = self.request
        return url_has_allowed_host_and_scheme(
            url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
        )

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    def is_ajax(self, request: HttpRequest) -> bool:
        """Always answer with pages, never with JSON."""
        return False

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Show only the messages about connecting accounts; the pages say the rest."""
        if message_template and message_template.startswith("socialaccount/"):
            super().add_message(request, level, message_template, *args, **kwargs)

    def save_user(self, request: HttpRequest, user: Any, form: Any, commit: bool = True) -> Any:
        """Save a new account; try another user name if this one was taken in the meantime."""
        for _ in range(NAME_ATTEMPTS):
            try:
                with transaction.atomic():
                    saved = super().save_user(request, user, form, commit)
                    use_up_invitation(request, saved)
                    return saved
            except IntegrityError as error:
                last_error = error
        raise last_error

    def clean_email(self, email: str) -> str:
        """Refuse quoted names and hosts in brackets: one mailbox has any number of them."""
        if not USUAL_ADDRESS.fullmatch(email):
            raise forms.ValidationError(UNUSUAL)
        return str(super().clean_email(email))

    # Emails must use SITE_URL: the sender of the request chooses the Host header.

    def get_reset_password_from_key_url(self, key: str) -> str:
        account, _, secret = key.partition("-")
        return absolute_url(reverse("account_reset_password_from_key", args=[account, secret]))

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        return absolute_url(reverse("account_confirm_email", args=[emailconfirmation.key]))

    @transaction.atomic
    def confirm_email(self, request: HttpRequest, email_address: EmailAddress) -> bool:
        """Let one mailbox prove one account: leaderboards of verified people count it once."""
        same = EmailAddress.objects.filter(email__iregex=mailbox_pattern(email_address.email))
        # Unproven ones are locked too, or all that are confirmed at the same moment would be.
        locked = same.select_for_update().order_by("pk")
        if any(each.verified and each.user_id != email_address.user_id for each in locked):
            context = {"confirmation": True, "can_confirm": False}
            raise ImmediateHttpResponse(render(request, "account/email_confirm.html", context))
        return super().confirm_email(request, email_address)

    def send_account_already_exists_mail(self, email: str) -> None:
        make_password(email)  # takes as long as it does for a new account
        links = {
            "sign_in_url": absolute_url(reverse("sign_in")),
            "password_reset_url": absolute_url(reverse("account_reset_password")),
        }
        self.send_mail("account/email/account_already_exists", email, links)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Show an error page if the email cannot be sent."""
        site = SimpleNamespace(domain=urlsplit(settings.SITE_URL).netloc)
        try:
            super().send_mail(template_prefix, email, context | {"current_site": site})
        except OSError as error:
            log.error("Cannot send email (%s): %s", template_prefix, type(error).__name__)
            page = render(self.request, "account/email_failed.html", status=503)
            raise ImmediateHttpResponse(page) from None


def mailbox(email: str) -> str:
    """Return the shortest address of the mailbox where mail to this one arrives."""
    name, _, host = email.lower().rpartition("@")
    name = name.partition("+")[0]
    return f"{name.replace('.', '')}@{GMAIL[0]}" if host in GMAIL else f"{name}@{host}"


def mailbox_pattern(email: str) -> str:
    """Return a regular expression for the addresses whose mail arrives in the same mailbox."""
    name, _, host = mailbox(email).rpartition("@")
    hosts, dots = (GMAIL, r"\.?") if host in GMAIL else ((host,), "")
    letters = dots.join(map(re.escape, name))
    return rf"^{letters}(\+[^@]*)?@({'|'.join(map(re.escape, hosts))})$"


def use_up_invitation(request: HttpRequest, user: Any) -> None:
    """Record the account that the invitation created, if sign-up requires an invitation.

    If somebody else has used the link since the form was opened, the account is not created.
    """
    if settings.SIGN_UP != "invited":
        return
    try:
        teams.record_account(invitation_id=_invitation_id(request), user=user, now=timezone.now())
    except InvitationError:
        page = render(request, "account/signup_closed.html")
        raise ImmediateHttpResponse(page) from None


class SignInServers(DefaultSocialAccountAdapter):
    """Signing in with the site's OpenID Connect server.

    An email address alone never takes over an existing account: its owner can connect it after
    signing in with the password.
    """

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        if sociallogin.is_existing or sociallogin.state.get("process") == "connect":
            return
        addresses = [address.email for address in sociallogin.email_addresses]
        if not addresses:
            self._refuse(request, NO_ADDRESS)
        if get_user_model().objects.filter(email__iexact=addresses[0]).exists():
            self._refuse(request, TAKEN)

    @transaction.atomic
    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        """Save a new account; if there is a form, `Accounts.save_user` uses up the invitation."""
        user = super().save_user(request, sociallogin, form)
        if form is None:
            use_up_invitation(request, user)
        return user

    def _refuse(self, request: HttpRequest, message: Any) -> None:
        messages.error(request, message.format(name=settings.OIDC_NAME))
        raise ImmediateHttpResponse(redirect("sign_in"))

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("sign_in")


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


# -- Forms -----------------------------------------------------------------------------------------

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
