"""A fresh database and the web server on a free port, both removed at the end."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

REPOSITORY = Path(__file__).resolve().parent.parent
PATIENCE = 60.0


@contextmanager
def fresh_database(server: str, name: str) -> Iterator[str]:
    """Create a database on the PostgreSQL server at URL `server`; drop it at the end."""
    quoted = sql.Identifier(name)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(quoted))
    try:
        yield f"{server.rpartition('/')[0]}/{name}"
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(quoted))


@dataclass
class Web:
    """The web server: granian, whose workers end with it."""

    process: subprocess.Popen[bytes]
    address: tuple[str, int]

    def answers(self) -> bool:
        connection = http.client.HTTPConnection(*self.address, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def await_start(self) -> None:
        """Wait until it answers requests; raises RuntimeError if it ends or takes too long."""
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the web server did not start; its last words are above.")
            time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Signal it and wait until it has ended; SIGKILL goes to its workers, too."""
        if self.process.poll() is None:
            (os.killpg if number == signal.SIGKILL else os.kill)(self.process.pid, number)
        self.process.wait(PATIENCE)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def start_web(
    port: int, environment: Mapping[str, str], *, processes: int = 2, threads: int = 4
) -> Web:
    """Start the product's web server at a port of this machine."""
    settings = {"WEB_PROCESSES": str(processes), "WEB_THREADS": str(threads)}
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve"],
        cwd=REPOSITORY,
        env={**environment, **settings, "HOST": "127.0.0.1", "PORT": str(port)},
        start_new_session=True,
    )
    return Web(process, ("127.0.0.1", port))


@contextmanager
def serving(
    environment: Mapping[str, str], *, processes: int = 2, threads: int = 4
) -> Iterator[Web]:
    """Run the server at a free port of this machine; yield it once it answers."""
    web = start_web(free_port(), environment, processes=processes, threads=threads)
    try:
        web.await_start()
        yield web
    finally:
        web.end()
