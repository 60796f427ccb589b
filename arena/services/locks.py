"""Work that is done by one at a time, held by a lock that dies with the process that holds it."""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from django.db import DatabaseError, connection
from filelock import FileLock, Timeout


def one_at_a_time(work: str, *, busy: Exception) -> AbstractContextManager[None]:
    """Hold the lock on `work`; raises `busy` while somebody else holds it.

    `work` becomes part of a file's name: letters, digits, hyphens and underscores.
    """
    if connection.vendor == "postgresql":
        return _advisory_lock(work, busy)
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
def _advisory_lock(work: str, busy: Exception) -> Iterator[None]:
    digest = hashlib.sha256(f"ringside {work}".encode()).digest()
    key = int.from_bytes(digest[:8], "big", signed=True)
    if not _ask("pg_try_advisory_lock", key):
        raise busy
    try:
        yield
    finally:
        # A connection that broke has given the lock back already.
        with suppress(DatabaseError):
            _ask("pg_advisory_unlock", key)


def _ask(function: str, key: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [key])
        return bool(cursor.fetchone()[0])
