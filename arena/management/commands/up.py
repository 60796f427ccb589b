"""`manage.py up`: run web server, worker and beat in the foreground."""

import fcntl
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from time import monotonic
from typing import IO, Any

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error

from arena.accounts import Accounts
from arena.conf import local_url
from arena.models import Arena
from arena.processes import end_with_parent

ADMIN = "admin"
PROGRAMS = {
    "The web server": ["manage.py", "serve"],
    "The worker": [
        # As root, as in a container where somebody tries this, it would warn at each start.
        *("-W", "ignore:You're running the worker with superuser", "-m"),
        *("celery", "-A", "arena", "--quiet", "worker", "--pool=threads", "--concurrency=36"),
        *("--queues=fits,calls", "--beat", "--scheduler=arena.celery:Scheduler"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"),
    ],
}
LOOK_EVERY = 1.0
PATIENCE = 6.0  # seconds to finish what is under way; then all is killed
Running = subprocess.Popen[bytes]


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
        with suppress(KeyboardInterrupt), take_home() as lock:
            port = find_port()
            url = f"{local_url(settings.HOST, port)}/"
            if not settings.PORT:  # any free port; the server needs its address for links
                os.environ |= {"PORT": str(port), "SITE_URL": os.environ.get("SITE_URL", url)}
            self._prepare()
            self._run((settings.HOST, port), lock, f"{url} ({describe_sign_in()})")
        self.stdout.write("Stopped.")

    def _prepare(self) -> None:
        """Migrate the database; load the sample arena into a new one; drop messages left over."""
        try:
            call_command("migrate", verbosity=0, interactive=False)
            if not Arena.objects.exists():
                self.stdout.write("First start: loading the sample arena.")
                call_command("load_sample")
        except Error as error:
            raise SystemExit(f"Ringside cannot start. Database error: {error}") from None
        for message in (settings.HOME / "queue").glob("*.msg"):  # sweeps find the work again
            message.unlink(missing_ok=True)

    def _run(self, address: tuple[str, int], lock: IO[str], site: str) -> None:
        """Run all programs until a signal; start again what has ended."""
        stopping = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stopping.set())
        running: dict[str, Running] = {}
        is_greeted = False
        try:
            while not stopping.is_set():
                for name, program in PROGRAMS.items():
                    if name in running and running[name].poll() is None:
                        continue
                    if name in running:
                        code = running[name].returncode
                        self.stderr.write(f"{name} ended (status {code}). Starting it again.")
                        end([running[name]])
                    running[name] = start(program, lock)
                note_groups(lock, running.values())
                if not is_greeted and is_listening(address):
                    is_greeted = True
                    self.stdout.write(f"Ringside is running at {site}. Ctrl-C stops it.")
                    self.stdout.flush()
                stopping.wait(LOOK_EVERY)
        finally:
            end(running.values())


@contextmanager
def take_home() -> Iterator[IO[str]]:
    """Allow only one Ringside per folder, and end what an earlier one left.

    Yields the file that all processes keep open: while it is locked, some of those that it lists
    still run, although the first lock is free.
    """
    with (
        (settings.HOME / "up.lock").open("w") as lock,
        (settings.HOME / "up.pids").open("a+") as pids,
    ):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(
                f"Ringside is already running in {settings.HOME}."
                " Stop it first, or set RINGSIDE_HOME to another folder."
            ) from None
        try:
            fcntl.flock(pids, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pids.seek(0)
            for group in pids.read().split():
                with suppress(ProcessLookupError):
                    os.killpg(int(group), signal.SIGKILL)
            fcntl.flock(pids, fcntl.LOCK_EX)
        yield pids


def find_port() -> int:
    """Return PORT if nobody listens there, or a free one if it is 0."""
    family = socket.AF_INET6 if ":" in settings.HOST else socket.AF_INET
    try:
        with socket.create_server((settings.HOST, settings.PORT), family=family) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise SystemExit(
            f"Ringside cannot listen on {settings.HOST}:{settings.PORT} ({error.strerror})."
            " Stop the other program, or choose a free port: make run PORT=8001"
        ) from None


def start(program: list[str], lock: IO[str]) -> Running:
    return subprocess.Popen(  # noqa: S603  (our own programs, no shell)
        [sys.executable, *program],
        cwd=settings.BASE_DIR,
        # With more arenas, threads that fit boards leave memory behind in each of them.
        env={"MALLOC_ARENA_MAX": "2"} | os.environ,
        pass_fds=[lock.fileno()],
        preexec_fn=end_with_parent,
        start_new_session=True,  # the terminal's Ctrl-C must reach this process only
    )


def end(running: Iterable[Running]) -> None:
    """Let processes finish what is under way; after PATIENCE kill them and theirs."""
    deadline = monotonic() + PATIENCE
    for process in running:
        process.terminate()
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - monotonic()))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def note_groups(pids: IO[str], running: Iterable[Running]) -> None:
    pids.seek(0)
    pids.truncate()
    pids.write(" ".join(str(process.pid) for process in running))
    pids.flush()


def is_listening(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address, timeout=LOOK_EVERY):
        return True
    return False


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
