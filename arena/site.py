"""What operators may set in the browser for this site; the environment goes first."""

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError

from arena.db.recent import Recent

if TYPE_CHECKING:
    from arena.models.site import SiteSettings

STORED_MAIL = "arena.mail.StoredServer"
CONSOLE = "django.core.mail.backends.console.EmailBackend"


def _read() -> "SiteSettings | None":
    row: SiteSettings | None = apps.get_model("arena", "SiteSettings")._default_manager.first()
    return row


stored_settings = Recent(_read, "arena.SiteSettings")


def is_given(name: str) -> bool:
    """Whether the environment sets `name`, so that the browser cannot."""
    return name in settings.SET_IN_ENVIRONMENT


def site_url() -> str:
    """Return the address of this site, without a slash at its end."""
    return str(_chosen("SITE_URL", "site_url"))


def sign_up_rule() -> str:
    """Return who may create an account: "open", "invited" or "closed"."""
    return str(_chosen("SIGN_UP", "sign_up"))


def team_budget() -> int:
    """Return what a new team may spend, in nano-dollars."""
    return int(_chosen("TEAM_BUDGET", "team_budget"))


def _chosen(name: str, field: str) -> Any:
    stored = None if is_given(name) else stored_settings.get()
    chosen = getattr(stored, field, None)
    return getattr(settings, name) if chosen in (None, "") else chosen


def mail_server() -> "SiteSettings | None":
    """Return the mail server that was set in the browser, if it is the one to use."""
    stored = None if is_given("EMAIL_URL") else stored_settings.get()
    return stored if stored and stored.mail_host else None


def delivers_mail() -> bool:
    """Whether there is a mail server; otherwise mail is printed by the server process."""
    return "smtp" in settings.EMAIL_BACKEND or (
        settings.EMAIL_BACKEND == STORED_MAIL and mail_server() is not None
    )


def prints_mail() -> bool:
    return settings.EMAIL_BACKEND in (CONSOLE, STORED_MAIL) and not delivers_mail()


def allauth_setting(name: str, default: Any) -> Any:
    """Return a setting of django-allauth. Addresses are proven as soon as mail is delivered."""
    if settings.EMAIL_BACKEND == STORED_MAIL and name in PROOF:
        try:
            if mail_server():
                return PROOF[name]
        except DatabaseError:
            pass  # it is checked before the first migration, too
    return getattr(settings, name, default)


PROOF = {"ACCOUNT_EMAIL_VERIFICATION": "mandatory", "ACCOUNT_PREVENT_ENUMERATION": True}


def absolute_url(path: str) -> str:
    """Return the full address of a page of this site."""
    return f"{site_url()}{path}"
