"""Signing up, signing in and forgotten passwords, no faster than a person types."""

import logging
from http import HTTPStatus
from typing import Any

from allauth.account import views as allauth
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.contrib.auth.mixins import LoginRequiredMixin
from django.contrib.auth.views import PasswordChangeView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse_lazy
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST
from requests import RequestException

from arena.accounts.limits import too_many
from arena.conf.accounts import OIDC

log = logging.getLogger(__name__)


class Limited:
    """A form that is tried only so often from one address, and with one account."""

    action: str
    name_field: str

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        name = request.POST.get(self.name_field, "")
        if why := too_many(request, self.action, name):
            return self._too_many(name, why)
        return super().post(request, *args, **kwargs)  # type: ignore[misc]

    def _too_many(self, name: str, why: str) -> HttpResponse:
        """Show the form again with the name in it, and nothing of it looked at."""
        view: Any = self
        wanted = view.get_form_kwargs()
        fresh = {key: value for key, value in wanted.items() if key not in ("data", "files")}
        form = view.get_form_class()(**fresh | {"initial": {self.name_field: name}})
        context = view.get_context_data(form=form, too_many=why)
        return render(
            view.request, view.template_name, context, status=HTTPStatus.TOO_MANY_REQUESTS
        )


class SignIn(Limited, allauth.LoginView):
    """Whoever is signed in is told so, and may sign out: boards lead here without knowing who
    reads them."""

    template_name = "arena/sign_in.html"
    action, name_field = "sign-in", "login"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        user, server = self.request.user, settings.OIDC_NAME
        connected = bool(server and user.is_authenticated) and SocialAccount.objects.filter(
            user=user
        )
        more = {
            "next": self.get_next_url() or "",
            "oidc_name": server,
            "is_connected": connected and connected.exists(),
            "may_sign_up": settings.SIGN_UP == "open",
        }
        return super().get_context_data(**kwargs) | more


class SignUp(Limited, allauth.SignupView):
    action, name_field = "sign-up", "email"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        more = {"next": self.get_next_url() or "", "oidc_name": settings.OIDC_NAME}
        return super().get_context_data(**kwargs) | more


class ForgottenPassword(Limited, allauth.PasswordResetView):
    action, name_field = "forgotten-password", "email"


class NewPassword(Limited, allauth.PasswordResetFromKeyView):
    """Where the link of the mail leads."""

    action, name_field = "new-password", ""


class ChangePassword(LoginRequiredMixin, Limited, PasswordChangeView):
    template_name = "account/password_change.html"
    success_url = reverse_lazy("sign_in")
    action, name_field = "new-password", ""


@never_cache
@require_POST
def sign_in_elsewhere(request: HttpRequest) -> HttpResponse:
    """Lead to the operator's OpenID Connect server, or connect one's account there."""
    going_on = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(going_on, allowed_hosts={request.get_host()})
    signed_in = request.user.is_authenticated
    try:
        return (
            get_adapter()
            .get_provider(request, OIDC)
            .redirect(
                request,
                AuthProcess.CONNECT if signed_in else AuthProcess.LOGIN,
                next_url=going_on if is_ours else None,
            )
        )
    except RequestException as error:
        log.error("%s does not answer: %s", settings.OIDC_NAME, type(error).__name__)
        context = {"oidc_name": settings.OIDC_NAME}
        return render(request, "socialaccount/authentication_error.html", context, status=503)
