"""While the database or the broker is down, each failed request is one line in the log."""

import http.client
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.environment import REPOSITORY
from tests.ops.running import children, eventually, manage, migrated_database, settings_for

PASSWORD, SECRET = "sesame-of-the-database", "secret-of-an-invitation"
SIGNED_IN = {"Cookie": "sessionid=0123456789abcdefghijklmnopqrstuv; signed_in=1"}
REQUESTS = [
    ("/", {}, "/"),
    ("/a/support/", {}, "/a/support/"),
    ("/a/support/vote/?page=2", {}, "/a/support/vote/"),
    (f"/invitations/{SECRET}/", {}, "/invitations/***"),
    ("/teams/", SIGNED_IN, "/teams/"),
    ("/api/v1/arenas/", {}, "/api/v1/arenas/"),
    ("/api/v1/arenas/", {"Authorization": "Bearer rs_unknown"}, "/api/v1/arenas/"),
]


@contextmanager
def serving(home: Path, **settings: str) -> Iterator[tuple[int, Path]]:
    """A web server in a process of its own: its port, and the file that it logs to."""
    lifeline, held = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener, (home / "log").open("w") as log:
        files = [lifeline, listener.fileno()]
        process = subprocess.Popen(
            [sys.executable, "-m", "arena.server", "web", *map(str, files)],
            cwd=REPOSITORY,
            env=settings_for(home, **settings),
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=files,
        )
        try:
            yield listener.getsockname()[1], home / "log"
        finally:
            process.terminate()
            process.wait(60)
            os.close(lifeline)
            os.close(held)


def get(port: int, path: str, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("sqlite:////nowhere/at/all.sqlite3", "unable to open database file"),
        pytest.param(
            f"postgres://u:{PASSWORD}@127.0.0.1:1/x",
            "couldn't get a connection after 5.00 sec",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["sqlite", "postgres"],
)
def test_without_a_database_each_failed_request_is_one_line(
    tmp_path: Path, url: str, reason: str
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
        lines = eventually(
            lambda: (found := log.read_text().splitlines())[len(REQUESTS) - 1 :] and found, 5
        )
    assert isinstance(lines, list)
    assert [status for status, _ in answers] == [503] * len(REQUESTS)
    assert all("database is busy or unavailable" in " ".join(body.split()) for _, body in answers)
    why = f"the database is not reachable (OperationalError: {reason})"
    said = sorted(line.partition("]: ")[2] for line in lines)
    assert said == sorted(f"503 GET {path}: {why}" for _, _, path in REQUESTS), lines
    assert all(re.search(r" ERROR django\.request \[[0-9a-f]{32}\]: ", line) for line in lines)
    assert PASSWORD not in log.read_text()
    assert SECRET not in log.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
def test_pages_are_served_while_the_disk_is_full(tmp_path: Path) -> None:
    """A limit of file sizes stands for the disk: no file can be made or grow."""
    shutil.copy(migrated_database(), tmp_path)
    with serving(tmp_path) as (port, _):
        assert get(port, "/", {})[0] == get(port, "/readyz", {})[0] == 200
        [server] = [pid for pid, of in children(os.getpid()).items() if "arena.server" in of]
        usual = resource.prlimit(server, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        assert get(port, "/", {})[0] == get(port, "/readyz", {})[0] == 200
        resource.prlimit(server, resource.RLIMIT_FSIZE, usual)
    assert not (tmp_path / "ringside.sqlite3-wal").exists()


def test_without_a_broker_a_vote_that_cannot_be_announced_is_one_line(tmp_path: Path) -> None:
    code = "from ranking.signals import schedule_refresh; schedule_refresh(7)"
    broker = f"redis://u:{PASSWORD}@127.0.0.1:1/0"
    done = manage("shell", "-c", code, home=tmp_path, CELERY_BROKER_URL=broker)
    [line] = done.stderr.splitlines()
    assert "The refresh of arena 7 could not be queued: the broker is not reachable (" in line
    assert PASSWORD not in line
