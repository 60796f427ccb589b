"""Locks, and retries after deadlocks.

Code that locks several rows of an arena does so in this order: the arena, its candidates or
prompts, runs and answers, pairs, and ranking's refresh row. Locks of rows in use are NO KEY, so
that inserts that only refer to these rows, as every vote does, do not wait.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from django.db import DatabaseError, OperationalError, connection

from arena.errors import ServiceError
from arena.models import Arena

ROLLED_BACK = ("40P01", "40001")  # PostgreSQL's codes for a deadlock and a serialization failure
P = ParamSpec("P")
R = TypeVar("R")


def exclusive_lock(work: str, *, busy: Exception) -> AbstractContextManager[None]:
    """Hold the lock named `work`; raise `busy` while another process holds it.

    The lock ends with the process. In a transaction PostgreSQL holds the lock until the transaction
    ends, because others see the changes only then.
    """
    digest = hashlib.sha256(f"ringside {work}".encode()).digest()[:8]
    if connection.vendor == "postgresql":
        lock = _transaction_lock if connection.in_atomic_block else _session_lock
        return lock(int.from_bytes(digest, "big", signed=True), busy)
    return _file_lock(Path(f"{connection.settings_dict['NAME']}.{digest.hex()}.lock"), busy)


@contextmanager
def _file_lock(path: Path, busy: Exception) -> Iterator[None]:
    """Lock a file, which is removed afterwards; the next holder creates another."""
    file = _locked_file(path, busy)
    while file is None:
        file = _locked_file(path, busy)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def _locked_file(path: Path, busy: Exception) -> int | None:
    """Open and lock the file; None if its last holder removed it in between."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(path.stat(), os.fstat(file)):
            return file
    except BlockingIOError:
        os.close(file)
        raise busy from None
    except FileNotFoundError:
        pass
    os.close(file)
    return None


@contextmanager
def _transaction_lock(key: int, busy: Exception) -> Iterator[None]:
    """Take a lock that ends with the transaction; a failed transaction could not release it
    itself.
    """
    if not _call_lock_function("pg_try_advisory_xact_lock", key):
        raise busy
    yield


@contextmanager
def _session_lock(key: int, busy: Exception) -> Iterator[None]:
    if not _call_lock_function("pg_try_advisory_lock", key):
        raise busy
    try:
        yield
    finally:
        # A broken connection has already released the lock.
        with suppress(DatabaseError):
            _call_lock_function("pg_advisory_unlock", key)


def _call_lock_function(function: str, key: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [key])
        return bool(cursor.fetchone()[0])


def lock_arena(arena_id: int) -> Arena:
    """Lock an arena's row until the end of the transaction: always the first lock taken."""
    return Arena.objects.select_for_update(no_key=True).get(pk=arena_id)


def lock_revealed(arena_id: int) -> Arena:
    """Lock an arena in which something new shall go on. Raises ServiceError if it is hidden, as it
    is while it is deleted."""
    arena = lock_arena(arena_id)
    if not Arena.objects.revealed().filter(pk=arena_id).exists():
        raise ServiceError("This arena is being deleted or imported.")
    return arena


def retry_on_deadlock(work: Callable[P, R]) -> Callable[P, R]:
    """Call `work` again if the database rolled it back because of another transaction.

    Only for work that consists of one transaction. Inside an outer transaction nothing is retried:
    the outer one is rolled back too, and its owner has to retry it.
    """

    @wraps(work)
    def retried(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except OperationalError as error:
            is_rolled_back = getattr(error.__cause__, "sqlstate", None) in ROLLED_BACK
            if connection.in_atomic_block or not is_rolled_back:
                raise
        return work(*args, **kwargs)

    return retried
