"""Accounts: who may sign up, how mail is sent, and signing in with an OpenID Connect server.

No sentence in here repeats a value that might hold a password.
"""

from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from environs import Env
from marshmallow.validate import OneOf

from arena.conf import text_of_file

MAIL_SCHEMES = ("console", "smtp", "submission")
SECONDS_FOR_MAIL = 10
OIDC = "oidc"
# Names that would pass for somebody who runs the site.
KEPT_NAMES = ["admin", "administrator", "operator", "ringside", "root", "staff", "support"]


def read_accounts(env: Env) -> dict[str, Any]:
    """Return the settings of accounts, by name."""
    mail = _mail(env)
    delivers = "smtp" in mail["EMAIL_BACKEND"]
    return {
        **mail,
        **_oidc(env),
        "SIGN_UP": env.str("SIGN_UP", "open", validate=OneOf(["open", "invited", "closed"])),
        "ACCOUNT_ADAPTER": "arena.accounts.adapters.Accounts",
        "ACCOUNT_FORMS": {
            "login": "arena.accounts.forms.SignInForm",
            "signup": "arena.accounts.forms.SignUpForm",
            "reset_password": "arena.accounts.forms.ForgottenPasswordForm",
            "reset_password_from_key": "arena.accounts.forms.NewPasswordForm",
        },
        "ACCOUNT_LOGIN_METHODS": {"email", "username"},
        "ACCOUNT_SIGNUP_FIELDS": ["email*", "password1*"],
        "ACCOUNT_USERNAME_BLACKLIST": KEPT_NAMES,
        # Where no mail goes out, nobody could open the link that proves an address.
        "ACCOUNT_EMAIL_VERIFICATION": "mandatory" if delivers else "none",
        "ACCOUNT_EMAIL_SUBJECT_PREFIX": "",
        "ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION": True,
        "ACCOUNT_AUTHENTICATED_LOGIN_REDIRECTS": False,
        "ACCOUNT_SESSION_REMEMBER": True,
        # Ours are atomic and are kept in the database: arena.accounts.limits.
        "ACCOUNT_RATE_LIMITS": False,
    }


def _mail(env: Env) -> dict[str, Any]:
    """Return Django's settings of mail from EMAIL_URL; without it mail is printed."""
    if env.str("EMAIL_URL", "console:").partition(":")[0] not in MAIL_SCHEMES:
        raise ImproperlyConfigured(
            "EMAIL_URL must begin with smtp://, submission:// (with TLS) or console:."
        )
    try:
        mail: dict[str, Any] = env.dj_email_url("EMAIL_URL", "console:")
    except ValueError:
        raise ImproperlyConfigured(
            "EMAIL_URL must look like smtp://user:password@host:port; special characters of the"
            " password are written as %40."
        ) from None
    mail["EMAIL_TIMEOUT"] = mail["EMAIL_TIMEOUT"] or SECONDS_FOR_MAIL
    mail["DEFAULT_FROM_EMAIL"] = env.str("DEFAULT_FROM_EMAIL", "Ringside <ringside@localhost>")
    return mail


def _oidc(env: Env) -> dict[str, Any]:
    """Return the settings of one OpenID Connect server; of none without OIDC_SERVER_URL."""
    server = env.str("OIDC_SERVER_URL", "")
    name = env.str("OIDC_NAME", "OpenID Connect")
    shared = {
        "SOCIALACCOUNT_ADAPTER": "arena.accounts.adapters.SignInServers",
        # The operator chose the server: it vouches for the addresses of its people.
        "SOCIALACCOUNT_EMAIL_VERIFICATION": "none",
        "SOCIALACCOUNT_REQUESTS_TIMEOUT": SECONDS_FOR_MAIL,
    }
    if not server:
        return shared | {"OIDC_NAME": "", "OIDC_ORIGIN": "", "SOCIALACCOUNT_PROVIDERS": {}}
    app = {
        "provider_id": OIDC,
        "name": name,
        "client_id": env.str("OIDC_CLIENT_ID", ""),
        "secret": env.str("OIDC_CLIENT_SECRET", "") or text_of_file(env, "OIDC_CLIENT_SECRET_FILE"),
        "settings": {"server_url": server.rstrip("/"), "oauth_pkce_enabled": True},
    }
    if not (app["client_id"] and app["secret"]):
        raise ImproperlyConfigured(
            "OIDC_SERVER_URL needs OIDC_CLIENT_ID and OIDC_CLIENT_SECRET"
            " (or OIDC_CLIENT_SECRET_FILE) beside it."
        )
    return shared | {
        "OIDC_NAME": name,
        "OIDC_ORIGIN": _origin(server),
        "SOCIALACCOUNT_PROVIDERS": {"openid_connect": {"APPS": [app]}},
    }


def _origin(server: str) -> str:
    """Return scheme, host and port of an address, as a Content-Security-Policy names them."""
    try:
        parts = urlsplit(server)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.username or parts.password:
        raise ImproperlyConfigured("OIDC_SERVER_URL must be an http(s) address without a password.")
    return f"{parts.scheme}://{parts.netloc}"
