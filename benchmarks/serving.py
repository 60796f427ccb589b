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
    """The web server: its supervisor, whose children end with it."""

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
        """Signal the whole group and wait until it has ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
        self.process.wait(PATIENCE)


def start_web(
    listener: socket.socket,
    environment: Mapping[str, str],
    *,
    processes: int = 2,
    threads: int = 4,
) -> Web:
    """Start the product's server on the caller's socket, which outlives it."""
    number = listener.fileno()
    process = subprocess.Popen(
        [sys.executable, "arena/supervisor.py", "--listener", str(number)],
        cwd=REPOSITORY,
        env={**environment, "WEB_PROCESSES": str(processes), "WEB_THREADS": str(threads)},
        pass_fds=[number],
        start_new_session=True,
    )
    return Web(process, listener.getsockname()[:2])


@contextmanager
def serving(
    environment: Mapping[str, str], *, processes: int = 2, threads: int = 4
) -> Iterator[Web]:
    """Run the server on a free port of this machine; yield it once it answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        web = start_web(listener, environment, processes=processes, threads=threads)
        try:
            web.await_start()
            yield web
        finally:
            web.end()
