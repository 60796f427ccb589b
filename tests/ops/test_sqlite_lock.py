"""SQLite under many writers: nobody is refused, and the write lock is always given back."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django.db.utils import IntegrityError

from arena.db.sqlite3 import base
from tests.ops.running import eventually

THREADS, ROUNDS = 8, 50
SETTINGS = {
    "ENGINE": "arena.db.sqlite3",
    "ATOMIC_REQUESTS": False,
    "AUTOCOMMIT": True,
    "CONN_MAX_AGE": 0,
    "CONN_HEALTH_CHECKS": False,
    "TIME_ZONE": None,
    "OPTIONS": {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA synchronous=NORMAL;",
    },
}


@pytest.fixture(autouse=True)
def _database_access(django_db_blocker: Any) -> Iterator[None]:
    """These tests bring their own database."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "counters.sqlite3"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER UNIQUE)")
        database.execute("INSERT INTO counter VALUES (1, 0)")
    database.close()
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[base.DatabaseWrapper]:
    connection = connect(path)
    yield connection
    connection.close()
    assert is_free(path)


def connect(path: Path) -> base.DatabaseWrapper:
    """A connection of Django's to `path` that any thread may use."""
    wrapper = base.DatabaseWrapper(SETTINGS | {"NAME": str(path)}, alias="default")
    wrapper.inc_thread_sharing()
    return wrapper


def atomic(connection: base.DatabaseWrapper, monkeypatch: pytest.MonkeyPatch) -> transaction.Atomic:
    """`transaction.atomic()` on `connection`."""
    monkeypatch.setattr(transaction, "get_connection", lambda using=None: connection)
    return transaction.atomic()


def is_free(path: Path) -> bool:
    """Whether this process may write now."""
    return base.turnstile(str(path)).is_free()


def count_up(path: str, rounds: int = ROUNDS) -> None:
    """Read, then write what was read plus one: the transaction that DEFERRED refuses."""
    connection = connect(Path(path))
    for _ in range(rounds):
        connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
        with connection.cursor() as cursor:
            n = cursor.execute("SELECT n FROM counter").fetchone()[0]
            cursor.execute("UPDATE counter SET n = %s", [n + 1])
        connection.commit()
        connection.set_autocommit(True)
    connection.close()


def start_counting(path: Path, rounds: int) -> subprocess.Popen[bytes]:
    """Four threads of another process that count up."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.ops.test_sqlite_lock"]
    return subprocess.Popen([*command, str(path), str(rounds)])


def total(path: Path) -> int:
    with sqlite3.connect(path) as database:
        n = database.execute("SELECT n FROM counter").fetchone()[0]
    database.close()
    return int(n)


def test_no_thread_is_refused_and_no_count_is_lost(path: Path) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(count_up, [str(path)] * THREADS))
    assert total(path) == THREADS * ROUNDS
    assert is_free(path)


def test_opening_a_new_file_waits_for_who_writes_to_it(path: Path) -> None:
    """SQLite refuses the switch to WAL at once while somebody writes: no busy handler waits."""
    turn = base.turnstile(str(path))
    turn.enter()
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(count_up, str(path), rounds=1)
        with pytest.raises(TimeoutError):
            opening.result(timeout=0.2)
        writer.execute("COMMIT")
        writer.close()
        turn.leave()
        opening.result(timeout=60)
    assert total(path) == 1
    assert is_free(path)


def test_opening_a_file_that_is_open_already_waits_for_nobody(
    connection: base.DatabaseWrapper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = connect(path)
    with atomic(connection, monkeypatch):
        connection.cursor().execute("UPDATE counter SET n = 7")
        assert other.cursor().execute("SELECT n FROM counter").fetchone() == (0,)
    other.close()


def test_a_missing_folder_is_an_error_that_names_the_cause(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="unable to open database file"):
        connect(tmp_path / "missing" / "ringside.sqlite3").cursor()


@pytest.mark.slow
def test_two_processes_of_four_threads_are_not_refused_either(path: Path) -> None:
    processes = [start_counting(path, ROUNDS) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert total(path) == 2 * 4 * ROUNDS


@pytest.mark.slow
def test_a_busy_process_does_not_shut_another_one_out(path: Path) -> None:
    """Twenty small writes get their turn while another process never stops writing."""
    busy = start_counting(path, 1_000_000)
    try:
        eventually(lambda: total(path) > 100)
        began = time.monotonic()
        count_up(str(path), rounds=20)
        assert time.monotonic() - began < 20
        assert busy.poll() is None
    finally:
        busy.kill()
        busy.wait()


def test_a_writer_killed_in_its_transaction_frees_the_lock(path: Path) -> None:
    count_up(str(path), rounds=1)
    process = os.fork()
    if process == 0:
        base.turnstile(str(path)).enter()
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
    count_up(str(path), rounds=1)
    assert total(path) == 2


def test_the_lock_is_held_while_writing_and_free_after_it(
    connection: base.DatabaseWrapper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with atomic(connection, monkeypatch):
        assert not is_free(path)
        with transaction.atomic():
            assert not is_free(path)
        assert not is_free(path)
    assert is_free(path)


def test_it_is_free_after_an_error_inside(
    connection: base.DatabaseWrapper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyError), atomic(connection, monkeypatch):
        raise KeyError
    assert is_free(path)


def test_a_refused_statement_in_a_savepoint_keeps_the_lock(
    connection: base.DatabaseWrapper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with atomic(connection, monkeypatch):
        with pytest.raises(IntegrityError), transaction.atomic():
            connection.cursor().execute("INSERT INTO counter VALUES (2, 0)")
        assert not is_free(path)
    assert is_free(path)


def test_it_is_free_after_a_connection_closed_inside(
    connection: base.DatabaseWrapper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with atomic(connection, monkeypatch):
        connection.close()
        assert is_free(path)
    assert is_free(path)


def test_it_is_free_when_the_transaction_could_not_begin(
    connection: base.DatabaseWrapper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("BEGIN IMMEDIATE")
    connection.settings_dict = SETTINGS | {
        "NAME": str(path),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 0.05},
    }
    with pytest.raises(OperationalError, match="locked"), atomic(connection, monkeypatch):
        pytest.fail("the transaction cannot have begun")
    assert is_free(path)
    other.close()


def test_it_is_free_when_the_on_commit_hooks_run(
    connection: base.DatabaseWrapper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    with atomic(connection, monkeypatch):
        transaction.on_commit(lambda: seen.append(is_free(path)))
    assert seen == [True]


def test_a_writer_that_waits_too_long_gets_an_error(
    connection: base.DatabaseWrapper, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "LONGEST_WAIT", 0.05)
    turn = base.turnstile(str(path))
    turn.enter()
    with pytest.raises(OperationalError), atomic(connection, monkeypatch):
        pytest.fail("somebody else was writing")
    turn.leave()
    assert is_free(path)


if __name__ == "__main__":
    arguments = (sys.argv[1], int(sys.argv[2]))
    workers = [threading.Thread(target=count_up, args=arguments) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
