"""Accounts: what django-allauth reverses by its own names is here under ours too."""

from allauth.account import views as allauth
from allauth.socialaccount.providers.openid_connect.views import callback
from django.conf import settings
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, path, re_path
from django.views.generic import RedirectView

from arena.views import accounts

sign_in = accounts.SignIn.as_view()
urlpatterns = [
    path("sign-in/", sign_in, name="sign_in"),
    path("sign-in/", sign_in, name="account_login"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("sign-up/", accounts.SignUp.as_view(), name="sign_up"),
    path("sign-up/", accounts.SignUp.as_view(), name="account_signup"),
    path(
        "sign-up/sent/",
        allauth.EmailVerificationSentView.as_view(),
        name="account_email_verification_sent",
    ),
    path(
        "sign-up/address/<str:key>/",
        allauth.ConfirmEmailView.as_view(),
        name="account_confirm_email",
    ),
    path(
        "sign-in/inactive/",
        allauth.AccountInactiveView.as_view(),
        name="account_inactive",
    ),
    path("password/", accounts.ChangePassword.as_view(), name="change_password"),
    path(
        "password/forgotten/", accounts.ForgottenPassword.as_view(), name="account_reset_password"
    ),
    path(
        "password/forgotten/sent/",
        allauth.PasswordResetDoneView.as_view(),
        name="account_reset_password_done",
    ),
    re_path(
        r"^password/new/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$",
        accounts.NewPassword.as_view(),
        name="account_reset_password_from_key",
    ),
    path(
        "password/new/done/",
        allauth.PasswordResetFromKeyDoneView.as_view(),
        name="account_reset_password_from_key_done",
    ),
]


def oidc_urls() -> list[URLPattern]:
    """The way to the operator's OpenID Connect server and back."""
    return [
        path("sign-in/elsewhere/", accounts.sign_in_elsewhere, name="sign_in_elsewhere"),
        path("sign-in/<str:provider_id>/callback/", callback, name="openid_connect_callback"),
        path(
            "sign-in/elsewhere/cancelled/",
            RedirectView.as_view(pattern_name="sign_in"),
            name="socialaccount_login_cancelled",
        ),
    ]


if settings.OIDC_NAME:
    urlpatterns += oidc_urls()
