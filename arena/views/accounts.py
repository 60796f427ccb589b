"""Sign-in, sign-up and password pages (django-allauth's, with a limit on attempts), and closing an
account."""

import logging
import time
from http import HTTPStatus
from typing import Any

from allauth.account import app_settings as account_settings
from allauth.account import views as allauth
from allauth.account.authentication import get_authentication_records
from allauth.account.models import EmailAddress
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.auth.views import PasswordChangeView
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import FormView
from requests import RequestException

from arena.attempts import too_many
from arena.conf import OIDC
from arena.forms.accounts import ChangeEmailForm, ChangePasswordForm, CloseAccountForm
from arena.forms.base import add_service_error
from arena.services.privacy import AccountError, close_account, personal_data, reason_to_stay
from arena.site import sign_up_rule

log = logging.getLogger(__name__)


class Limited:
    """Limits the attempts from one network address and for one account."""

    action: str
    name_field: str

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        name = request.POST.get(self.name_field, "")
        if why := too_many(request, self.action, name):
            return self._too_many(name, why)
        return super().post(request, *args, **kwargs)  # type: ignore[misc]

    def _too_many(self, name: str, why: str) -> HttpResponse:
        """Show the form again with the name filled in, without validating the input."""
        view: Any = self
        kwargs = view.get_form_kwargs()
        unbound = {key: value for key, value in kwargs.items() if key not in ("data", "files")}
        form = view.get_form_class()(**unbound | {"initial": {self.name_field: name}})
        context = view.get_context_data(form=form, too_many=why)
        return render(
            view.request, view.template_name, context, status=HTTPStatus.TOO_MANY_REQUESTS
        )


class SignIn(Limited, allauth.LoginView):
    """Signing in; signed-in people get the account page, because stored leaderboards link here."""

    action, name_field = "sign-in", "login"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        user = self.request.user
        is_connected = (
            bool(settings.OIDC_NAME and user.is_authenticated)
            and SocialAccount.objects.filter(user=user).exists()
        )
        return super().get_context_data(**kwargs) | {
            "next": self.get_next_url() or "",
            "oidc_name": settings.OIDC_NAME,
            "is_connected": is_connected,
            "can_sign_up": sign_up_rule() == "open",
        }


class SignUp(Limited, allauth.SignupView):
    action, name_field = "sign-up", "email"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = {"next": self.get_next_url() or "", "oidc_name": settings.OIDC_NAME}
        return super().get_context_data(**kwargs) | context


class ForgottenPassword(Limited, allauth.PasswordResetView):
    action, name_field = "forgotten-password", "email"


class NewPassword(Limited, allauth.PasswordResetFromKeyView):
    """The page that the emailed link opens."""

    action, name_field = "new-password", ""


class ChangePassword(LoginRequiredMixin, Limited, PasswordChangeView):
    template_name = "account/password_change.html"
    form_class = ChangePasswordForm
    success_url = reverse_lazy("sign_in")
    action, name_field = "new-password", ""


class Confirmed(LoginRequiredMixin, Limited, FormView):
    """A change for which a stolen session is not enough."""

    def get_form_kwargs(self) -> dict[str, Any]:
        user: Any = self.request.user
        signed_in = get_authentication_records(self.request, user)
        since = time.time() - account_settings.REAUTHENTICATION_TIMEOUT
        is_fresh = any(record["at"] >= since for record in signed_in)
        return super().get_form_kwargs() | {"user": user, "is_fresh": is_fresh}


class ChangeEmail(Confirmed):
    """A new address takes effect once the link sent to it was opened; without mail, at once."""

    template_name = "account/email_change.html"
    form_class = ChangeEmailForm
    success_url = reverse_lazy("sign_in")
    action, name_field = "new-email", "email"

    def form_valid(self, form: Any) -> HttpResponse:
        addresses, user = EmailAddress.objects, self.request.user
        email = form.cleaned_data["email"]
        delivers = account_settings.EMAIL_VERIFICATION == "mandatory"
        address = addresses.add_new_email(self.request, user, email, send_verification=delivers)
        if delivers:
            messages.success(
                self.request,
                gettext(
                    "We have sent a link to {email}. Your address changes once you open it."
                ).format(email=email),
            )
        else:
            address.set_as_primary()
            addresses.filter(user=user).exclude(pk=address.pk).delete()
            messages.success(
                self.request, gettext("Your email address is now {email}.").format(email=email)
            )
        return super().form_valid(form)


class CloseAccount(Confirmed):
    template_name = "account/close.html"
    form_class = CloseAccountForm
    success_url = reverse_lazy("index")
    action, name_field = "new-password", ""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        user: Any = self.request.user
        return super().get_context_data(**kwargs) | {"why_not": reason_to_stay(user)}

    def form_valid(self, form: Any) -> HttpResponse:
        user: Any = self.request.user
        try:
            close_account(user=user, now=timezone.now())
        except AccountError as error:
            add_service_error(form, error)
            return self.form_invalid(form)
        logout(self.request)
        messages.success(
            self.request, gettext("Your account is closed. Your votes stay, without your name.")
        )
        return redirect("sign_in")


@never_cache
@login_required
@require_safe
def download_data(request: HttpRequest) -> HttpResponse:
    """Send everything that is stored about the signed-in person."""
    user: Any = request.user
    response = JsonResponse(personal_data(user=user), json_dumps_params={"indent": 1})
    response.headers["Content-Disposition"] = 'attachment; filename="ringside-data.json"'
    return response


@never_cache
@require_POST
def sign_in_elsewhere(request: HttpRequest) -> HttpResponse:
    """Redirect to the site's OpenID Connect server, to sign in or to connect the account."""
    next_url = request.POST.get("next", "")
    is_local = url_has_allowed_host_and_scheme(next_url, allowed_hosts={request.get_host()})
    process = AuthProcess.CONNECT if request.user.is_authenticated else AuthProcess.LOGIN
    provider = get_adapter().get_provider(request, OIDC)
    try:
        return provider.redirect(request, process, next_url=next_url if is_local else None)
    except RequestException as error:
        log.error("%s does not answer: %s", settings.OIDC_NAME, type(error).__name__)
        return render(request, "socialaccount/authentication_error.html", status=503)
