"""`manage.py up`: run web server, worker and beat in the foreground."""

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
    help = "Run web server, worker and beat on this machine. Ctrl-C stops all of them."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with _lock_home(), _listen() as listener:
                if not settings.PORT:  # any free port; the children need its address for links
                    os.environ.setdefault("SITE_URL", supervisor.address(listener))
                self._prepare()
                processes = supervisor.Supervisor(
                    folder=settings.BASE_DIR, listener=listener, site=_host_name()
                )
                processes.run(on_ready=partial(self._announce, listener))
        except KeyboardInterrupt:
            self.stdout.write("Stopped.")

    def _prepare(self) -> None:
        """Migrate the database; load the sample arena into a new one."""
        try:
            call_command("migrate", verbosity=0, interactive=False)
            if not Arena.objects.exists():
                self.stdout.write("First start: loading the sample arena.")
                call_command("load_sample")
        except Error as error:
            raise SystemExit(f"Ringside cannot start. Database error: {error}") from None
        finally:
            _disconnect()

    def _announce(self, listener: socket.socket) -> None:
        url = supervisor.address(listener)
        self.stdout.write(f"Ringside is running at {url} ({_sign_in()}). Ctrl-C stops it.")
        self.stdout.flush()
        _disconnect()


def _lock_home() -> AbstractContextManager[Any]:
    """Allow only one Ringside per folder."""
    try:
        return FileLock(settings.HOME / "up.lock").acquire(blocking=False)
    except Timeout:
        raise SystemExit(
            f"Ringside is already running in {settings.HOME}."
            " Stop it first, or set RINGSIDE_HOME to another folder."
        ) from None


def _listen() -> socket.socket:
    try:
        return supervisor.listen(settings.HOST, settings.PORT)
    except OSError as error:
        raise SystemExit(
            f"Ringside cannot listen on {settings.HOST}:{settings.PORT} ({error.strerror})."
            " Stop the other program, or choose a free port: make run PORT=8001"
        ) from None


def _host_name() -> str:
    """Return a host name that ALLOWED_HOSTS allows."""
    return str(settings.ALLOWED_HOSTS[0]).strip("*.") or "localhost"


def _sign_in() -> str:
    """Say how to sign in as administrator; create one with a random password if needed."""
    users = get_user_model().objects
    administrator = users.filter(is_superuser=True).order_by("pk").first()
    if administrator is not None:
        return f"sign in as {administrator.get_username()}"
    password = secrets.token_urlsafe(12)
    users.create_superuser(username=ADMIN, password=password)
    return f"sign in as {ADMIN} with password {password}, which is shown only this once"


def _disconnect() -> None:
    """Close the supervisor's connections: its child processes open their own."""
    for connection in connections.all():
        connection.close()
        if hasattr(connection, "close_pool"):
            connection.close_pool()
