"""`manage.py up`: web server, worker and beat under one foreground command."""

import os
import secrets
import socket
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import Error, connections
from filelock import FileLock, Timeout

from arena.embedded import supervisor
from arena.models import Arena

ADMIN = "admin"


class Command(BaseCommand):
    help = "Run everything on this machine: web server, worker and beat. Ctrl-C ends all of them."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with _alone(), _listener() as listener:
                if not settings.PORT:  # any free one: the children's links are to name it
                    os.environ.setdefault("SITE_URL", supervisor.address(listener))
                self._prepare()
                crew = supervisor.Supervisor(
                    folder=settings.BASE_DIR, listener=listener, site=_site()
                )
                crew.run(on_ready=partial(self._announce, listener))
        except KeyboardInterrupt:
            self.stdout.write("Stopped.")

    def _prepare(self) -> None:
        """Bring the database up to date; give a new one its sample arena."""
        try:
            call_command("migrate", verbosity=0, interactive=False)
            if not Arena.objects.exists():
                self.stdout.write("First start: loading the sample arena.")
                call_command("load_sample")
        except Error as error:
            raise SystemExit(f"Ringside cannot start: the database said: {error}") from None
        finally:
            _disconnect()

    def _announce(self, listener: socket.socket) -> None:
        """Print the one line that a person who starts Ringside waits for."""
        url = supervisor.address(listener)
        self.stdout.write(f"Ringside is running at {url} ({_sign_in()}). Ctrl-C stops it.")
        self.stdout.flush()
        _disconnect()


def _alone() -> AbstractContextManager[Any]:
    """Take the folder's lock until the end, or say that somebody has it."""
    try:
        return FileLock(settings.HOME / "up.lock").acquire(blocking=False)
    except Timeout:
        raise SystemExit(
            f"Ringside is already running on {settings.HOME}."
            " Stop it first, or set RINGSIDE_HOME to another folder."
        ) from None


def _listener() -> socket.socket:
    try:
        return supervisor.listen(settings.HOST, settings.PORT)
    except OSError as error:
        raise SystemExit(
            f"Ringside cannot listen on {settings.HOST}:{settings.PORT} ({error.strerror})."
            " Stop the other program, or set PORT to a free one: make run PORT=8001"
        ) from None


def _site() -> str:
    """A name that ALLOWED_HOSTS lets through."""
    return str(settings.ALLOWED_HOSTS[0]).strip("*.") or "localhost"


def _sign_in() -> str:
    """Say how to sign in as the operator; make one with a random password if there is none."""
    users = get_user_model().objects
    operator = users.filter(is_superuser=True).order_by("pk").first()
    if operator is not None:
        return f"sign in as {operator.get_username()}"
    password = secrets.token_urlsafe(12)
    users.create_superuser(username=ADMIN, password=password)
    return f"sign in as {ADMIN} with password {password}, which is shown only this once"


def _disconnect() -> None:
    """Keep no connection while supervising: the children have their own."""
    for connection in connections.all():
        connection.close()
        if hasattr(connection, "close_pool"):
            connection.close_pool()
