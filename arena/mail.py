"""Sends mail by the server that operators set in the browser; without one, prints it."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.core.mail.backends.console import EmailBackend as Console
from django.core.mail.backends.smtp import EmailBackend as Smtp

from arena.encryption import MAIL_PASSWORD, KeyChangedError, decrypt
from arena.models.site import SiteSettings
from arena.site import mail_server

UNREADABLE = (
    "The password of the mail server cannot be read because SECRET_KEY has changed. Enter it again."
)


class StoredServer(BaseEmailBackend):
    """Django's mail backend for a site without EMAIL_URL."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Send by the stored server, from its address. Raises OSError or SMTPException."""
        server = mail_server()
        if server is None:
            return int(Console(fail_silently=self.fail_silently).send_messages(email_messages) or 0)
        for message in email_messages:
            if server.mail_from and message.from_email == settings.DEFAULT_FROM_EMAIL:
                message.from_email = server.mail_from
        return int(connection_to(server).send_messages(email_messages) or 0)


def connection_to(server: SiteSettings) -> Smtp:
    """Return a connection, not yet open. Raises OSError if its password cannot be read."""
    options: dict[str, Any] = {
        "use_tls": server.mail_security == server.MailSecurity.STARTTLS,
        "use_ssl": server.mail_security == server.MailSecurity.TLS,
    }
    return Smtp(
        host=server.mail_host,
        port=server.mail_port,
        username=server.mail_user,
        password=password_of(server),
        timeout=settings.EMAIL_TIMEOUT,
        **options,
    )


def password_of(server: SiteSettings) -> str:
    if not server.encrypted_mail_password:
        return ""
    try:
        return decrypt(server.encrypted_mail_password, MAIL_PASSWORD)
    except KeyChangedError:
        raise OSError(UNREADABLE) from None
