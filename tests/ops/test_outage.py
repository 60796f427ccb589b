"""While the database or the broker is down, each failed request is one line in the log."""

import http.client
import os
import re
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from benchmarks.serving import Web, free_port
from tests.environment import REPOSITORY
from tests.ops.running import children, eventually, manage, migrated_database, settings_for

PASSWORD, SECRET = "sesame-of-the-database", "secret-of-an-invitation"
LONGEST_CONNECT = 5.0  # seconds that a page waits for a connection
SIGNED_IN = {"Cookie": "sessionid=0123456789abcdefghijklmnopqrstuv; signed_in=1"}
REQUESTS = [
    ("/", {}, "/"),
    ("/a/support/", {}, "/a/support/"),
    ("/a/support/vote/?page=2", {}, "/a/support/vote/"),
    (f"/invitations/{SECRET}/", {}, "/invitations/***"),
    (f"/a/support/vote/invited/{SECRET}/", {}, "/a/support/vote/invited/***"),
    ("/teams/", SIGNED_IN, "/teams/"),
    ("/api/v1/arenas/", {}, "/api/v1/arenas/"),
    ("/api/v1/arenas/", {"Authorization": "Bearer rs_unknown"}, "/api/v1/arenas/"),
]


@contextmanager
def serving(home: Path, **settings: str) -> Iterator[tuple[int, Path]]:
    """A web server in processes of its own: its port, and the file that it logs to."""
    port = free_port()
    settings |= {"HOST": "127.0.0.1", "PORT": str(port), "WEB_PROCESSES": "1"}
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "serve"],
            cwd=REPOSITORY,
            env=settings_for(home, **settings),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(lambda: Web(process, ("127.0.0.1", port)).answers())
            yield port, home / "log"
        finally:
            process.terminate()
            process.wait(60)


def get(port: int, path: str, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "reason", "cause"),
    [
        (
            "sqlite:////nowhere/at/all.sqlite3",
            "unable to open database file",
            "unable to open database file",
        ),
        (
            f"postgres://u:{PASSWORD}@127.0.0.1:1/x",
            "couldn't get a connection after 5.00 sec",
            "Connection refused",
        ),
    ],
    ids=["sqlite", "postgres"],
)
def test_without_a_database_each_failed_request_is_one_line(
    tmp_path: Path, url: str, reason: str, cause: str
) -> None:
    answers: list[tuple[int, str]] = []
    with serving(tmp_path, DATABASE_URL=url, WEB_THREADS="4") as (port, log):
        threads = [
            threading.Thread(target=lambda p=path, h=headers: answers.append(get(port, p, h)))
            for path, headers, _ in REQUESTS
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eventually(lambda: log.read_text().count(" django.request ") >= len(REQUESTS))
    lines = [line for line in log.read_text().splitlines() if " django.request " in line]
    assert [status for status, _ in answers] == [503] * len(REQUESTS)
    assert all("database is busy or unavailable" in " ".join(body.split()) for _, body in answers)
    why = f"the database is not reachable (OperationalError: {reason})"
    said = sorted(line.partition("]: ")[2] for line in lines)
    assert said == sorted(f"503 GET {path}: {why}" for _, _, path in REQUESTS), lines
    assert all(re.search(r" ERROR django\.request \[[0-9a-f]{32}\]: ", line) for line in lines)
    assert cause in log.read_text()
    assert PASSWORD not in log.read_text()
    assert SECRET not in log.read_text()


class Proxy:
    """Stands before a server; `refuse` is the server stopped, `hang` one that never answers."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server, self._goes_on = server, threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.work()

    def work(self) -> None:
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(("127.0.0.1", self.port))
        self._goes_on.set()
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def hang(self) -> None:
        self._goes_on.clear()

    def refuse(self) -> None:
        with suppress(OSError):  # it has refused before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._goes_on.set()
        for ends in self._pairs:
            for end in ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._server)
                self._pairs.append((near, far))
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=[source, target], daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with source, suppress(OSError):
            while data := source.recv(65536):
                self._goes_on.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def proxy(new_database: Any) -> Iterator[tuple[Proxy, str]]:
    """A proxy before PostgreSQL, and the address of a database of its own behind it."""
    url = urlsplit(new_database(is_migrated=True))
    proxy = Proxy((url.hostname or "", url.port or 5432))
    yield proxy, url._replace(netloc=f"{url.username}@127.0.0.1:{proxy.port}").geturl()
    proxy.refuse()


def timed(port: int, path: str) -> tuple[int, float]:
    began = time.monotonic()
    return get(port, path, {})[0], time.monotonic() - began


@pytest.mark.slow
def test_while_postgresql_refuses_connections_pages_say_so(
    proxy: tuple[Proxy, str], tmp_path: Path
) -> None:
    """Whoever waits for the database does so for five seconds; /healthz does not."""
    server, url = proxy
    with (
        serving(tmp_path, DATABASE_URL=url, WEB_THREADS="32") as (port, _),
        ThreadPoolExecutor(16) as readers,
    ):
        assert [timed(port, "/")[0] for _ in range(2)] == [200, 200]
        server.refuse()
        pages = [readers.submit(timed, port, "/") for _ in range(16)]
        for _ in range(8):
            status, seconds = timed(port, "/healthz")
            assert (status, seconds < 2.5) == (200, True)
            time.sleep(0.5)
        assert {page.result()[0] for page in pages} == {503}
        assert max(page.result()[1] for page in pages) < 20
        assert timed(port, "/readyz")[0] == 503
        server.work()
        began = time.monotonic()
        eventually(lambda: timed(port, "/readyz")[0] == 200)
        assert time.monotonic() - began < 5
        assert {timed(port, "/")[0] for _ in range(20)} == {200}


@pytest.mark.slow
def test_while_postgresql_does_not_answer_everybody_waits_and_nobody_is_refused(
    proxy: tuple[Proxy, str], tmp_path: Path
) -> None:
    server, url = proxy
    with (
        serving(tmp_path, DATABASE_URL=url, WEB_THREADS="32") as (port, _),
        ThreadPoolExecutor(8) as readers,
    ):
        assert {status for status, _ in readers.map(lambda _: timed(port, "/"), range(8))} == {200}
        server.hang()
        pages = [readers.submit(timed, port, "/") for _ in range(8)]
        time.sleep(3)
        assert not any(page.done() for page in pages)
        assert timed(port, "/healthz")[0] == 200
        server.work()
        assert {page.result()[0] for page in pages} == {200}


@pytest.mark.slow
def test_connections_that_the_server_has_ended_fail_no_page(
    new_database: Any, tmp_path: Path
) -> None:
    url = new_database(is_migrated=True)
    sessions = "FROM pg_stat_activity WHERE datname = %s AND backend_start < %s"
    with serving(tmp_path, DATABASE_URL=url) as (port, _), ThreadPoolExecutor(8) as readers:
        assert {status for status, _ in readers.map(lambda _: timed(port, "/"), range(8))} == {200}
        with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as server:
            before = [url.rpartition("/")[2], datetime.now(UTC)]
            assert server.execute(f"SELECT pg_terminate_backend(pid) {sessions}", before).fetchone()
            eventually(lambda: not server.execute(f"SELECT 1 {sessions}", before).fetchone())
        assert {status for status, _ in readers.map(lambda _: timed(port, "/"), range(8))} == {200}


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["judge", "sample", "--judges", "scripted"],
        ["export_arena", "sample", "everything"],
        ["verify_log"],
    ],
    ids=lambda command: command[0],
)
def test_without_a_database_a_command_ends_with_a_sentence(
    command: list[str], tmp_path: Path
) -> None:
    url = f"postgres://u:{PASSWORD}@127.0.0.1:1/x"
    done = manage(*command, home=tmp_path, DATABASE_URL=url)
    assert done.returncode == os.EX_TEMPFAIL, done.stderr
    # The pool says why it has no connection, at every try and in two lines each.
    of_pool = re.compile(r"\t|.* WARNING psycopg\.pool ")
    lines = [line for line in done.stderr.splitlines() if not of_pool.match(line)]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("Stopped: the database is not reachable (")
    assert "Run the command again" in done.stderr
    assert PASSWORD not in done.stderr


@pytest.mark.slow
def test_a_run_whose_command_lost_the_database_is_neither_lost_nor_doubled(
    new_database: Any, tmp_path: Path
) -> None:
    url = new_database(is_migrated=True)
    assert manage("load_sample", home=tmp_path, DATABASE_URL=url).returncode == 0
    base, _, name = url.rpartition("/")
    order = ["manage.py", "judge", "sample", "--judges", "scripted", "--per-pair", "1"]
    with (
        psycopg.connect(f"{base}/postgres", autocommit=True) as server,
        psycopg.connect(url, autocommit=True) as database,
        subprocess.Popen(
            [sys.executable, *order],
            cwd=REPOSITORY,
            env=settings_for(tmp_path, DATABASE_URL=url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as judging,
    ):
        runs = "SELECT count(*) FROM arena_run WHERE state = 'open'"
        eventually(lambda: database.execute(runs).fetchone() == (1,))
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND pid <> %s"
        )
        mine = database.info.backend_pid
        eventually(lambda: server.execute(end, [name, mine]) and judging.poll() is not None)
        _, said = judging.communicate(timeout=60)
        assert database.execute(runs).fetchone() == (1,)
    assert judging.returncode in (1, os.EX_TEMPFAIL), said
    assert "Traceback" not in said


@pytest.mark.slow
def test_operators_learn_that_another_program_locks_sqlite(tmp_path: Path) -> None:
    shutil.copy(migrated_database(), tmp_path)
    token = {"Authorization": f"Bearer {SECRET}"}
    with serving(tmp_path, METRICS_TOKEN=SECRET) as (port, _):
        assert "can be written" not in get(port, "/healthz?full", token)[1]
        with closing(sqlite3.connect(tmp_path / "ringside.sqlite3")) as other:
            other.execute("BEGIN IMMEDIATE")
            status, body = get(port, "/healthz?full", token)
        assert status == 503
        assert "Nothing can be written to the database (database is locked)." in body


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
def test_pages_are_served_while_the_disk_is_full(tmp_path: Path) -> None:
    """A limit of file sizes stands for the disk: no file can be made or grow."""
    shutil.copy(migrated_database(), tmp_path)
    token = {"Authorization": f"Bearer {SECRET}"}
    with serving(tmp_path, METRICS_TOKEN=SECRET) as (port, _):
        assert get(port, "/", {})[0] == get(port, "/readyz", {})[0] == 200
        [parent] = [pid for pid, of in children(os.getpid()).items() if "manage.py serve" in of]
        [server] = children(parent)
        usual = resource.prlimit(server, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        assert get(port, "/", {})[0] == get(port, "/readyz", {})[0] == 200
        assert "Nothing can be written" in get(port, "/healthz?full", token)[1]
        resource.prlimit(server, resource.RLIMIT_FSIZE, usual)


def test_without_a_broker_a_vote_that_cannot_be_announced_is_one_line(tmp_path: Path) -> None:
    code = "from ranking.signals import schedule_refresh; schedule_refresh(7)"
    broker = f"redis://u:{PASSWORD}@127.0.0.1:1/0"
    done = manage("shell", "-c", code, home=tmp_path, CELERY_BROKER_URL=broker)
    [line] = done.stderr.splitlines()
    assert "The refresh of arena 7 could not be queued: the broker is not reachable (" in line
    assert PASSWORD not in line
