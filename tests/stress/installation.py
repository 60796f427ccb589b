"""A Ringside with its own PostgreSQL, Redis and model, all of which a test may break."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from django.db import connections
from psycopg import sql

from arena.endpoints import Endpoint, ModelPrice
from benchmarks.services import OwnRedis
from benchmarks.serving import Web, free_port, serving
from tests.environment import REPOSITORY
from tests.judges.fake_server import MODEL, FakeServer
from tests.ops.running import eventually, is_alive

MIGRATED = "ringside"
# Dollars per million tokens; the server bills 100 tokens in and 20 out for every answer.
PRICE = {"input": 2, "output": 5}
BILLED = 100 * 2_000 + 20 * 5_000  # nano-dollars
CELERY = [sys.executable, "-m", "celery", "-A", "arena.celery"]
QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=INFO"]


class OwnPostgres:
    """A separate PostgreSQL, with Ringside's tables in one database to copy from."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.port, self._programs, self._folder = free_port(), programs, folder
        if os.getuid() == 0:  # it refuses to run as root
            shutil.chown(folder, "postgres")
        shared = Path(os.environ["RINGSIDE_TESTS_SHARE"], "postgres")
        with shared.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not shared.exists():
                self._initialise()
                copy_owned(folder / "data", shared)
        if not (folder / "data").exists():
            copy_owned(shared, folder / "data")
        self._control("start")

    def _initialise(self) -> None:
        """Make the tables, which takes a quarter of a minute: other processes copy the files."""
        self._run("initdb", "--username=postgres", "--auth=trust")
        self._control("start")
        self.create(MIGRATED, template="template1")
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
        url = {"DATABASE_URL": self.url(MIGRATED), "DJANGO_SETTINGS_MODULE": "arena.settings"}
        subprocess.run(migrate, cwd=REPOSITORY, env=os.environ | url, check=True)
        self._control("stop")

    def url(self, database: str) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def create(self, database: str, template: str = MIGRATED) -> None:
        # A test that is tried again finds the database of its first try.
        gone, made = (
            sql.SQL("DROP DATABASE IF EXISTS {}"),
            sql.SQL("CREATE DATABASE {} TEMPLATE {}"),
        )
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(gone.format(sql.Identifier(database)))
            connection.execute(made.format(sql.Identifier(database), sql.Identifier(template)))

    def crash(self) -> None:
        """End all sessions at once, as a power cut would, and start again."""
        self._control("stop", "--mode=immediate")
        self._control("start")

    def stop(self) -> None:
        self._control("stop", "--mode=immediate")

    def _control(self, *command: str) -> None:
        options = f"-k {self._folder} -p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off"
        log = self._folder / "log"
        self._run("pg_ctl", f"--log={log}", "--wait", f"--options={options}", *command)

    def _run(self, program: str, *arguments: str) -> None:
        as_postgres = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        data = f"--pgdata={self._folder / 'data'}"
        command = [*as_postgres, str(self._programs / program), data, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)


def copy_owned(data: Path, copy: Path) -> None:
    """Copy a stopped server's files, which stay its user's."""
    subprocess.run(["cp", "-a", str(data), str(copy)], check=True)


def postgres_programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`, which are not always on the PATH."""
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def working_on(url: str) -> Iterator[None]:
    """Store this process's models in the PostgreSQL database at `url`."""
    host, _, rest = url.rpartition("@")[2].partition(":")
    port, _, name = rest.partition("/")
    before = connections.settings["default"]
    connections["default"].close()
    engine = {"ENGINE": "django.db.backends.postgresql", "USER": "postgres", "PASSWORD": ""}
    there = engine | {"NAME": name, "HOST": host, "PORT": port, "OPTIONS": {}}
    connections.settings["default"] = before | there
    own = connections["default"]
    del connections["default"]
    try:
        yield
    finally:
        connections["default"].close()
        connections.settings["default"] = before
        connections["default"] = own


@dataclass(frozen=True)
class Forked:
    """A worker that is a fork of another process."""

    pid: int

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: not is_alive(self.pid))


@dataclass
class Installation:
    """Processes that work on this test's own database and broker, and the model they ask."""

    home: Path
    postgres: OwnPostgres
    redis: OwnRedis
    server: FakeServer
    environment: dict[str, str]
    stack: ExitStack = field(default_factory=ExitStack)

    def start(self, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        """Run a program until the test ends, or kills it."""
        out = self.stack.enter_context((self.home / "output.txt").open("ab"))
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=self.environment | settings, stdout=out, stderr=out
        )
        self.stack.callback(process.wait, 120)
        self.stack.callback(process.send_signal, signal.SIGTERM)
        return process

    def beat(self) -> None:
        self.start(*CELERY, "beat", f"--schedule={self.home / 'schedule'}", "--pidfile=")

    def worker(
        self, calls: int = 8, queues: str = "calls", **settings: str
    ) -> subprocess.Popen[bytes]:
        """Start a worker for so many calls of an endpoint at once; wait until it listens."""
        with self._one_more_ready():
            return self.start(*CELERY, *self._options(calls, queues), **settings)

    @contextmanager
    def workers_to_kill(self) -> Iterator[Callable[[], "Forked"]]:
        """A function that starts workers for eight calls at a time."""
        command = [sys.executable, "-m", "tests.stress.forked_workers"]
        pipe, out = subprocess.PIPE, (self.home / "output.txt").open("ab")
        with (
            out,
            subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=self.environment,
                stdin=pipe,
                stdout=pipe,
                stderr=out,
                text=True,
            ) as forking,
        ):
            assert forking.stdin
            assert forking.stdout

            def start() -> Forked:
                with self._one_more_ready():
                    print(*self._options(8, "calls"), file=forking.stdin, flush=True)
                    return Forked(int(forking.stdout.readline()))

            yield start
            forking.stdin.close()

    def _options(self, calls: int, queues: str) -> list[str]:
        pool = ["--pool=threads", f"--concurrency={2 * calls + 4}", f"--queues={queues}"]
        return ["worker", *pool, *QUIET]

    @contextmanager
    def _one_more_ready(self) -> Iterator[None]:
        ready = self.log().count(" ready.")
        yield
        eventually(lambda: self.log().count(" ready.") > ready)

    @contextmanager
    def web(self) -> Iterator[Web]:
        with serving(self.environment, processes=1, threads=4) as web:
            yield web

    def log(self) -> str:
        path = self.home / "output.txt"
        return path.read_text() if path.exists() else ""


def endpoint_of(server: FakeServer, timeout: float) -> dict[str, Any]:
    """The server as configured in an operator's MODEL_ENDPOINTS."""
    prices = {MODEL: PRICE}
    address = {"provider": "openai", "base_url": server.base_url, "concurrency": 16}
    return {"local": address | {"timeout": timeout, "prices": prices}}


def as_setting(server: FakeServer, timeout: float) -> Endpoint:
    """The same, for this process."""
    price = ModelPrice(PRICE["input"] * 10**9, PRICE["output"] * 10**9)
    return Endpoint("local", "openai", server.base_url, timeout=timeout, prices={MODEL: price})


def environment_for(home: Path, database: str, broker: str, endpoints: Any) -> dict[str, str]:
    settings = {
        "RINGSIDE_HOME": str(home),
        "DATABASE_URL": database,
        "CELERY_BROKER_URL": broker,
        "DJANGO_SETTINGS_MODULE": "arena.settings",
        "MODEL_ENDPOINTS": json.dumps(endpoints),
        "VOTES_PER_MINUTE": "1000000",
    }
    return os.environ | settings
