"""`manage.py up`: run web server, worker and beat in the foreground."""

import fcntl
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, count
from typing import IO, Any, NoReturn

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error, connection

from arena import processes
from arena.accounts import Accounts
from arena.conf import local_url
from arena.models import Arena

ADMIN = "admin"


class Command(BaseCommand):
    help = "Run the web server, the worker and beat on this machine. Ctrl-C stops all of them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--prepare",
            action="store_true",
            help="only migrate the database, and print a link for the first administrator",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["prepare"]:
            call_command("migrate", interactive=False)
            self.stdout.write(invite_first_administrator())
            return
        # As a container's first process it would get no SIGTERM otherwise.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            locks, port = take_home(), find_port()
            url = f"{local_url(settings.HOST, port)}/"
            os.environ |= {"HOST": settings.HOST, "PORT": str(port)}
            if not settings.PORT:  # any free port; the server needs its address for links
                os.environ.setdefault("SITE_URL", url)
            try:
                call_command("migrate", verbosity=0, interactive=False)
                if not Arena.objects.exists():
                    self.stdout.write("First start: loading the sample arena.")
                    call_command("load_sample")
            except Error as error:
                raise SystemExit(f"Ringside cannot start. Database error: {error}") from None
            for message in (settings.HOME / "queue").glob("*.msg"):  # sweeps find the work again
                message.unlink(missing_ok=True)
            sign_in = describe_sign_in()
            become_starter(
                locks,
                f"Ringside is running at {url} ({sign_in}). Ctrl-C stops it."
                f"\nEverything is kept in {settings.HOME}.",
            )
        except KeyboardInterrupt:
            self.stdout.write("Stopped.")


def take_home() -> tuple[IO[str], IO[str]]:
    """Allow only one Ringside per folder, and end what an earlier one left.

    Returns two locked files. The starter has the first. All of its processes have the second, and
    their groups are written in it: while that is locked and the first is not, some are left.
    """
    lock, groups = (settings.HOME / "up.lock").open("w"), (settings.HOME / "up.groups").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(
            f"Ringside is already running in {settings.HOME}."
            " Stop it first, or set RINGSIDE_HOME to another folder."
        ) from None
    try:
        fcntl.flock(groups, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        groups.seek(0)
        for group in groups.read().split():
            with suppress(ProcessLookupError):
                os.killpg(int(group), signal.SIGKILL)
        fcntl.flock(groups, fcntl.LOCK_EX)
    return lock, groups


def find_port() -> int:
    """Return PORT if nobody listens there, or a free one if it is 0."""
    family = socket.AF_INET6 if ":" in settings.HOST else socket.AF_INET
    try:
        with socket.create_server((settings.HOST, settings.PORT), family=family) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise SystemExit(
            f"Ringside cannot listen on {settings.HOST}:{settings.PORT} ({error.strerror})."
            " Stop the other program, or choose a free port, as in PORT=8001."
        ) from None


def become_starter(locks: Iterable[IO[str]], greeting: str) -> NoReturn:
    """Become the small program that keeps the others running, without Django's memory.

    The greeting may hold a password, which an argument would show to others.
    """
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        pipe.write(greeting)
    database = str(connection.settings_dict["NAME"]) if connection.vendor == "sqlite" else ""
    numbers = [*(lock.fileno() for lock in locks), reading]
    for number in numbers:
        os.set_inheritable(number, True)
    sys.stdout.flush()
    os.chdir(settings.BASE_DIR)
    os.execv(  # noqa: S606  (our own file, no shell)
        sys.executable, [sys.executable, processes.__file__, *map(str, numbers), database]
    )


def describe_sign_in() -> str:
    """Say how to sign in as administrator; create one with a random password if needed.

    Until the first sign-in each start sets a new password: the last one is stored nowhere and may
    be lost.
    """
    administrator, is_new = first_administrator()
    name = administrator.get_username()
    is_ours = bool(re.fullmatch(rf"{ADMIN}(-\d+)?", name)) and not administrator.email
    if not is_new and (administrator.last_login or not is_ours):
        return f"sign in as {name}"
    password = secrets.token_urlsafe(12)
    administrator.set_password(password)
    administrator.save(update_fields=["password"])
    return f"sign in as {name} with password {password}, which changes at each start until used"


def first_administrator() -> tuple[Any, bool]:
    """Return the first administrator, and whether this call created it.

    An ordinary account may have the name; nothing makes it an administrator.
    """
    users = get_user_model().objects
    administrator = users.filter(is_superuser=True).order_by("pk").first()
    if administrator is not None:
        return administrator, False
    names = chain([ADMIN], (f"{ADMIN}-{number}" for number in count(2)))
    free = next(name for name in names if not users.filter(username__iexact=name).exists())
    return users.create_superuser(username=free), True


def invite_first_administrator() -> str:
    """Return a line with a link to choose the administrator's password; '' if there is one.

    Logs are kept, so a site on the internet prints no password: the link works once and expires,
    and each start until then replaces it.
    """
    administrator, is_new = first_administrator()
    if not is_new and (administrator.last_login or administrator.has_usable_password()):
        return ""
    administrator.set_unusable_password()  # a new one, which makes the previous link invalid
    administrator.save(update_fields=["password"])
    account, secret = user_pk_to_url_str(administrator), default_token_generator.make_token
    link = Accounts().get_reset_password_from_key_url(f"{account}-{secret(administrator)}")
    return (
        "To sign in for the first time, choose a password for"
        f" {administrator.get_username()}: {link}\n"
        f"The link works once, for {settings.PASSWORD_RESET_TIMEOUT // 3600} hours."
        " The next start prints another."
    )
