"""Start `manage.py up` like a person, and inspect its processes."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from benchmarks.serving import free_port, serving
from benchmarks.slow_clients import Address, status
from tests.environment import POSTGRES_URL, REPOSITORY, everything_required

PATIENCE = 120.0


def settings_for(home: Path, **settings: str) -> dict[str, str]:
    """The environment of a fresh installation in `home`, on any free port."""
    theirs = ("DATABASE_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE", "DJANGO_ALLOW_ASYNC_UNSAFE")
    inherited = {name: value for name, value in os.environ.items() if name not in theirs}
    return inherited | {"RINGSIDE_HOME": str(home), "PORT": "0", **settings}


def manage(*command: str, home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run one command of manage.py to its end."""
    return subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=REPOSITORY,
        env=settings_for(home, **settings),
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )


def eventually(what: Callable[[], object], patience: float = PATIENCE) -> object:
    """Wait until `what()` is true and return it."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if result := what():
            return result
        time.sleep(0.05)
    pytest.fail(f"waited {patience:g} s in vain")


def children(pid: int) -> dict[int, str]:
    """Command lines of the processes that `pid` started, by process id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs. (A zombie does not.)"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Up:
    """A running `manage.py up`."""

    process: subprocess.Popen[str]
    output: Path

    def said(self) -> str:
        return self.output.read_text()

    def url(self) -> str:
        """The address that it printed, once it has."""
        found = re.search(r"running at (http://\S+)", self.said())
        return found[1] if found else ""

    def child(self, module: str) -> int:
        """The process id of the child that runs `module`; 0 when there is none."""
        running = children(self.process.pid).items()
        return next((pid for pid, command in running if module in command), 0)

    def family(self) -> list[int]:
        """Its children and grandchildren."""
        ours = list(children(self.process.pid))
        return ours + [pid for child in ours for pid in children(child)]


@cache
def migrated_database() -> Path:
    """A database with empty tables, shared by a test run: creating them takes most of a start."""
    folder = _share("migrated")
    folder.mkdir(exist_ok=True)
    path = folder / "ringside.sqlite3"
    with (folder / "lock").open("w") as lock, tempfile.TemporaryDirectory() as home:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            migrated = manage("migrate", home=Path(home))
            assert migrated.returncode == 0, migrated.stderr
            shutil.move(Path(home) / "ringside.sqlite3", path)
    return path


@cache
def migrated_template(server: str) -> str:
    """The name of a PostgreSQL database with empty tables, to copy; shared like the one above."""
    import psycopg

    made = _share("template")
    name = made.parent.name.replace("-", "_")
    with made.with_suffix(".lock").open("w") as lock, tempfile.TemporaryDirectory() as home:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            url = f"{server.rpartition('/')[0]}/{name}"
            migrated = manage("migrate", home=Path(home), DATABASE_URL=url)
            assert migrated.returncode == 0, migrated.stderr
            made.touch()
    return name


def drop_migrated_template() -> None:
    """Drop it, if this test run made one."""
    import psycopg

    if _share("template.lock").exists():
        name = _share("template").parent.name.replace("-", "_")
        with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _share(name: str) -> Path:
    return Path(os.environ["RINGSIDE_TESTS_SHARE"], name)


@contextmanager
def up(home: Path, *, is_migrated: bool = False, **settings: str) -> Iterator[Up]:
    """Start everything, wait for the line with the URL, and leave nothing behind.

    `is_migrated`: in a new home, the tables are there already.
    """
    if is_migrated and not (home / "ringside.sqlite3").exists():
        shutil.copy(migrated_database(), home)
    output = home / "output.txt"
    with output.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, str(REPOSITORY / "manage.py"), "up"],
            env=settings_for(home, **settings),
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
    running = Up(process, output)
    try:
        eventually(lambda: running.url() or process.poll() is not None)
        assert process.poll() is None, running.said()
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


@contextmanager
def caddy_in_front(home: Path, **settings: str) -> Iterator[Address]:
    """Two web processes behind the project's Caddyfile, as in compose.yaml."""
    if shutil.which("caddy") is None:
        (pytest.fail if everything_required() else pytest.skip)("needs caddy")
    shutil.copy(migrated_database(), home)
    port = free_port()
    with serving(settings_for(home, TRUSTED_PROXIES="1", **settings), threads=32) as web:
        site = {"SITE": f"http://localhost:{port}", "PORT": str(web.address[1]), "HOME": str(home)}
        caddy = subprocess.Popen(
            ["caddy", "run", "--config", str(REPOSITORY / "Caddyfile"), "--adapter", "caddyfile"],
            env=os.environ | site,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: status(("127.0.0.1", port))[0] == 200)
            yield "127.0.0.1", port
        finally:
            caddy.send_signal(signal.SIGTERM)
            caddy.wait(60)
