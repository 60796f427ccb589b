"""Changes to the settings of this site, and mail that tests them."""

import logging
from collections.abc import Mapping
from email.utils import parseaddr
from smtplib import SMTPAuthenticationError, SMTPException, SMTPRecipientsRefused
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import transaction
from django.http.request import validate_host

from arena.actors import Actor
from arena.conf import checked_site_url
from arena.encryption import MAIL_PASSWORD, encrypt
from arena.errors import ServiceError
from arena.mail import password_of
from arena.models import SiteSettings
from arena.site import is_given, mail_server

# The fields of each setting of the environment.
FIELDS = {
    "SITE_URL": ("site_url",),
    "SIGN_UP": ("sign_up",),
    "TEAM_BUDGET": ("team_budget",),
    "EMAIL_URL": ("mail_host", "mail_port", "mail_security", "mail_user", "mail_from"),
}
log = logging.getLogger(__name__)


class SiteSettingsError(ServiceError):
    """Settings that cannot be saved, or mail that cannot be sent."""


@transaction.atomic
def save_settings(*, values: Mapping[str, Any], password: str | None, by: Actor) -> SiteSettings:
    """Save what the environment does not set. Without a `password`, the stored one is kept.

    A password is only sent to the server for which it was entered. Raises SiteSettingsError.
    """
    SiteSettings.objects.get_or_create(pk=1)
    row = SiteSettings.objects.select_for_update().get(pk=1)
    server = _server_of(row)
    for name, fields in FIELDS.items():
        for field in fields:
            if not is_given(name):
                setattr(row, field, values[field])
    row.site_url = _clean_site_url(row.site_url)
    if not is_given("EMAIL_URL"):
        _check_mail(row)
        if password is not None:
            row.encrypted_mail_password = encrypt(password, MAIL_PASSWORD) if password else ""
        elif not row.mail_host:
            row.encrypted_mail_password = ""
        elif row.encrypted_mail_password and _server_of(row) != server:
            raise SiteSettingsError(
                "The server has changed. Enter the password again, or remove it.", field="password"
            )
    row.save()
    log.info("%s changed the settings of the site.", by.name)
    return row


def _server_of(row: SiteSettings) -> tuple[Any, ...]:
    """Whom a password is entered for, and how it travels there."""
    return row.mail_host, row.mail_port, row.mail_security, row.mail_user


def _clean_site_url(url: str) -> str:
    if not url:
        return ""
    try:
        url = checked_site_url(url.rstrip("/"))
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.path or parts.fragment:
            raise ValueError("an address without a path is wanted")
    except (ImproperlyConfigured, ValueError):
        raise SiteSettingsError(
            "Enter the address of this site, as in https://ringside.example.org.", field="site_url"
        ) from None
    if not validate_host(f"[{host}]" if ":" in host else host, settings.ALLOWED_HOSTS):
        raise SiteSettingsError(
            f"The server does not answer for {host} yet. Start it with ALLOWED_HOSTS={host} in the"
            " environment (under compose, in .env), then save this again.",
            field="site_url",
        )
    return url


def _check_mail(row: SiteSettings) -> None:
    if not row.mail_host:
        return
    if "/" in row.mail_host or ":" in row.mail_host or not row.mail_host.isprintable():
        raise SiteSettingsError("Enter a host name, such as smtp.example.org.", field="mail_host")
    try:
        validate_email(parseaddr(row.mail_from)[1] if row.mail_from.isprintable() else "")
    except ValidationError:
        raise SiteSettingsError(
            "Enter the address that mail comes from, as in Arena <arena@example.org>.",
            field="mail_from",
        ) from None


def send_test_mail(*, to: str, by: Actor) -> None:
    """Send one email. Raises SiteSettingsError with the reason why it was not taken."""
    message = EmailMessage(
        "Test from Ringside", f"{by.name} tested the mail of this site. It works.", to=[to]
    )
    try:
        message.send()
    except SMTPAuthenticationError:
        raise SiteSettingsError("The mail server refused the user name or password.") from None
    except SMTPRecipientsRefused:
        raise SiteSettingsError(f"The mail server does not take mail for {to}.") from None
    except (SMTPException, OSError, ValueError) as error:
        raise SiteSettingsError(f"The mail was not sent. {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What a mail server or the network said, without the password, which some servers quote."""
    said, server = str(error) or type(error).__name__, mail_server()
    secrets = [settings.EMAIL_HOST_PASSWORD]
    try:
        secrets += [password_of(server)] if server else []
    except OSError:
        return said
    for secret in filter(None, secrets):
        said = said.replace(secret, "[password]")
    return said[:300]
