"""django-allauth's adapters: permission to sign up, redirects after sign-in, and emails; and its
forms with our labels, without placeholders.

The session holds the id of the invitation that this browser opened last, not the link's secret:
sessions are stored in the database, and the secret must not be.
"""

import logging
import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy

from arena.calls.models import Call
from arena.endpoints import all_endpoints
from arena.mailboxes import mailbox_pattern
from arena.models import Invitation
from arena.services import invitations
from arena.services.invitations import InvitationError
from arena.services.rate_limits import client_address
from arena.site import absolute_url, sign_up_rule, site_url

USUAL_ADDRESS = re.compile(r'[^"\\@]+@[A-Za-z0-9.-]+')
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
    return bool(key) and invitations.can_create_account(invitation_id=key, now=timezone.now())


def is_first_day() -> bool:
    """Whether this site has no model yet, and has never asked one, not even a scripted one."""
    return all_endpoints().keys() <= {"scripted"} and not Call.objects.exists()


def _invitation_id(request: HttpRequest) -> int:
    return int(request.session.get(SESSION_KEY, 0))


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
        if sign_up_rule() == "invited":
            return can_sign_up(request)
        return sign_up_rule() == "open"

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Return to the invitation, if there is one; show operators an empty site's first steps."""
        if is_invited(request):
            return reverse("open_invitation")
        return reverse("operators" if request.user.is_staff and is_first_day() else "index")

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
        site = SimpleNamespace(domain=urlsplit(site_url()).netloc)
        try:
            super().send_mail(template_prefix, email, context | {"current_site": site})
        except OSError as error:
            log.error("Cannot send email (%s): %s", template_prefix, type(error).__name__)
            page = render(self.request, "account/email_failed.html", status=503)
            raise ImmediateHttpResponse(page) from None


def use_up_invitation(request: HttpRequest, user: Any) -> None:
    """Record the account that the invitation created, if sign-up requires an invitation.

    If somebody else has used the link since the form was opened, the account is not created.
    """
    if sign_up_rule() != "invited":
        return
    try:
        invitations.record_account(
            invitation_id=_invitation_id(request), user=user, now=timezone.now()
        )
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
