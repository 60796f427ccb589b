"""Where allauth asks how this site wants it: who may sign up, where to go next, mail, limits."""

import logging
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from arena.accounts.invited import is_invited, may_sign_up, note_account
from arena.services.deliveries import absolute
from arena.services.invitations import InvitationRefused
from arena.views.visitors import client_address

log = logging.getLogger(__name__)
TRIES_FOR_A_NAME = 3
TAKEN = (
    "There is an account with your address already. Sign in to it with its password; then it can be"
    " connected to {name} on this page."
)
WELCOME = (
    "Your account is made, and you are signed in. Make a team to compare your own prompts: it holds"
    " your arenas, and you can invite others to it."
)
NO_ADDRESS = "{name} did not tell us your e-mail address, so no account can be made of it."


class ProveAddress(EmailVerificationStage):
    """Whoever signed up opens a link in a mail first; whose account an operator made need not.

    Their address may be nobody's, and they were let in before there was any sign-up.
    """

    def handle(self) -> Any:
        user = self.login.user
        if user and not EmailAddress.objects.filter(user=user).exists():
            return None, True
        return super().handle()


class Accounts(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        "email_taken": "There is an account with this address already. Sign in, or say that you"
        " have forgotten your password.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        if settings.SIGN_UP == "invited":
            return may_sign_up(request)
        return bool(settings.SIGN_UP == "open")

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Lead whoever came by an invitation back to it."""
        return reverse("open_invitation") if is_invited(request) else reverse("index")

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        """Lead whoever is new to the teams, where everything of their own begins."""
        return reverse("open_invitation") if is_invited(request) else reverse("teams")

    def post_login(self, request: HttpRequest, user: Any, **kwargs: Any) -> Any:
        """Tell whoever is new, and was not on the way to some page, what to do first."""
        response = super().post_login(request, user, **kwargs)
        if kwargs["signup"] and response.get("Location") == reverse("teams"):
            messages.success(request, WELCOME)
        return response

    def get_login_stages(self) -> list[str]:
        return [f"{__name__}.{ProveAddress.__name__}"]

    def is_safe_url(self, url: str) -> bool:
        """Only this host is led to."""
        request = self.request
        return url_has_allowed_host_and_scheme(
            url, allowed_hosts={request.get_host()}, require_https=request.is_secure()
        )

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_address(request)

    def is_ajax(self, request: HttpRequest) -> bool:
        """Pages answer with pages."""
        return False

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Keep the messages of connecting accounts; of all else the pages themselves tell."""
        if message_template and message_template.startswith("socialaccount/"):
            super().add_message(request, level, message_template, *args, **kwargs)

    def save_user(self, request: HttpRequest, user: Any, form: Any, commit: bool = True) -> Any:
        """Save a new account; a name that somebody else took a moment ago is made anew."""
        for _ in range(TRIES_FOR_A_NAME):
            try:
                with transaction.atomic():
                    saved = super().save_user(request, user, form, commit)
                    use_link_up(request, saved)
                    return saved
            except IntegrityError as error:
                taken = error
        raise taken

    # Whoever asks for a mail chooses the Host header: what is mailed names the site as we know it.

    def get_reset_password_from_key_url(self, key: str) -> str:
        account, _, secret = key.partition("-")
        return absolute(reverse("account_reset_password_from_key", args=[account, secret]))

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        return absolute(reverse("account_confirm_email", args=[emailconfirmation.key]))

    def send_account_already_exists_mail(self, email: str) -> None:
        url = absolute(reverse("account_reset_password"))
        self.send_mail("account/email/account_already_exists", email, {"password_reset_url": url})

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send one mail, or say on a page that it could not be sent."""
        here = SimpleNamespace(domain=urlsplit(settings.SITE_URL).netloc)
        try:
            super().send_mail(template_prefix, email, context | {"current_site": here})
        except OSError as error:
            log.error("No mail could be sent (%s): %s", template_prefix, type(error).__name__)
            page = render(self.request, "account/mail_trouble.html", status=503)
            raise ImmediateHttpResponse(page) from None


def use_link_up(request: HttpRequest, user: Any) -> None:
    """Note whose account the link made, where one is needed; what is noted fails with the account.

    The link was looked at before the form was, so somebody else may have been faster.
    """
    if settings.SIGN_UP != "invited":
        return
    try:
        note_account(request, user)
    except InvitationRefused:
        page = render(request, "account/signup_closed.html")
        raise ImmediateHttpResponse(page) from None


class SignInServers(DefaultSocialAccountAdapter):
    """Signing in with the operator's OpenID Connect server.

    An account that is there already is never taken over by an address alone: whoever has its
    password connects it.
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
        """Save a new account; a form would have had it noted already."""
        user = super().save_user(request, sociallogin, form)
        if form is None:
            use_link_up(request, user)
        return user

    def _refuse(self, request: HttpRequest, sentence: str) -> None:
        messages.error(request, sentence.format(name=settings.OIDC_NAME))
        raise ImmediateHttpResponse(redirect("sign_in"))

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("sign_in")
