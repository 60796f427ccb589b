"""Work that is done by one at a time, held by a lock that dies with the process that holds it."""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from django.db import DatabaseError, connection
from filelock import FileLock, Timeout


def one_at_a_time(work: str, *, busy: Exception) -> AbstractContextManager[None]:
    """Hold the lock on `work`; raises `busy` while somebody else holds it.

    Within a transaction PostgreSQL holds it until the end of that, because nobody else sees before
    what was written. `work` becomes part of a file's name: letters, digits, hyphens and
    underscores.
    """
    if connection.vendor == "postgresql":
        held = _transaction_lock if connection.in_atomic_block else _session_lock
        return held(_key_of(work), busy)
    return _file_lock(Path(f"{connection.settings_dict['NAME']}.{work}.lock"), busy)


@contextmanager
def _file_lock(path: Path, busy: Exception) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise busy from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _transaction_lock(key: int, busy: Exception) -> Iterator[None]:
    """A transaction that failed cannot give back a lock of its session; this one ends with it."""
    if not _ask("pg_try_advisory_xact_lock", key):
        raise busy
    yield


@contextmanager
def _session_lock(key: int, busy: Exception) -> Iterator[None]:
    if not _ask("pg_try_advisory_lock", key):
        raise busy
    try:
        yield
    finally:
        # A connection that broke has given the lock back already.
        with suppress(DatabaseError):
            _ask("pg_advisory_unlock", key)


def _key_of(work: str) -> int:
    digest = hashlib.sha256(f"ringside {work}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _ask(function: str, key: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [key])
        return bool(cursor.fetchone()[0])
