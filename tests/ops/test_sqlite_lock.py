"""SQLite under many writers: nobody is refused, and no write is lost."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.environment import REPOSITORY
from tests.ops.running import eventually, manage, settings_for

ROUNDS = 50


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An installation whose database holds one number.

    `migrate` has switched it to WAL. SQLite refuses one of several connections that switch at once.
    """
    with closing(sqlite3.connect(tmp_path / "ringside.sqlite3")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE counter (n INTEGER)")
        database.execute("INSERT INTO counter VALUES (0)")
        database.commit()
    return tmp_path


def start_counting(home: Path, *, threads: int, rounds: int = ROUNDS) -> subprocess.Popen[bytes]:
    """A process whose threads count up."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.ops.test_sqlite_lock", str(threads), str(rounds)],
        cwd=REPOSITORY,
        env=settings_for(home, DJANGO_SETTINGS_MODULE="arena.settings"),
    )


def total(home: Path) -> int:
    with closing(sqlite3.connect(home / "ringside.sqlite3")) as database:
        return int(database.execute("SELECT n FROM counter").fetchone()[0])


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_no_thread_is_refused_and_no_count_is_lost(home: Path, processes: int) -> None:
    counting = [start_counting(home, threads=8) for _ in range(processes)]
    assert [process.wait(120) for process in counting] == [0] * processes
    assert total(home) == processes * 8 * ROUNDS


@pytest.mark.slow
def test_a_busy_process_does_not_shut_another_one_out(home: Path) -> None:
    """Twenty small writes are made while another process never stops writing."""
    busy = start_counting(home, threads=4, rounds=1_000_000)
    try:
        eventually(lambda: total(home) > 100)
        began = time.monotonic()
        assert start_counting(home, threads=1, rounds=20).wait(120) == 0
        assert time.monotonic() - began < 20
        assert busy.poll() is None
    finally:
        busy.kill()
        busy.wait()


def test_readers_do_not_wait_for_a_writer(home: Path) -> None:
    code = "from django.db import connection as c; print(c.cursor().execute('{}').fetchone())"
    read = ["shell", "-c", code.format("SELECT n FROM counter")]
    assert "(0,)" in manage(*read, home=home).stdout
    with closing(sqlite3.connect(home / "ringside.sqlite3", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE counter SET n = 7")
        assert "(0,)" in manage(*read, home=home).stdout


def test_a_missing_folder_is_an_error_that_names_the_cause(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'missing' / 'ringside.sqlite3'}"
    done = manage("migrate", home=tmp_path, DATABASE_URL=url)
    assert "unable to open database file" in done.stderr


def count_up(rounds: int) -> None:
    """Read, then write what was read plus one: the transaction that DEFERRED refuses."""
    from django.db import connection, transaction

    for _ in range(rounds):
        with transaction.atomic(), connection.cursor() as cursor:
            n = cursor.execute("SELECT n FROM counter").fetchone()[0]
            cursor.execute("UPDATE counter SET n = %s", [n + 1])
    connection.close()


if __name__ == "__main__":
    threads, rounds = map(int, sys.argv[1:])
    failed: list[threading.ExceptHookArgs] = []
    threading.excepthook = failed.append
    workers = [threading.Thread(target=count_up, args=[rounds]) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(*(failure.exc_value for failure in failed), file=sys.stderr)
    sys.stderr.flush()
    os._exit(bool(failed))
