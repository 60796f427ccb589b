"""Locks, and retries after deadlocks.

Code that locks several rows of an arena does so in this order: the arena, its candidates or
prompts, runs and answers, pairs, and ranking's refresh row. Locks of rows in use are NO KEY, so
that inserts that only refer to these rows, as every vote does, do not wait.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from django.db import DatabaseError, OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

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
        return _database_lock(int.from_bytes(digest, "big", signed=True), busy)
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
def _database_lock(key: int, busy: Exception) -> Iterator[None]:
    """Take a lock that ends with the transaction; a failed transaction could not release it itself.

    Outside of one, the transaction is that of a connection of its own: behind PgBouncer a session
    lasts no longer. That connection is not the pool's: holders who wait for their second one would
    wait for each other.
    """
    if connection.in_atomic_block:
        _take_lock(connection, key, busy)
        yield
        return
    with closing(connection.copy()) as other:
        other.settings_dict["OPTIONS"].pop("pool", None)
        other.set_autocommit(False)
        try:
            _take_lock(other, key, busy)
            yield
        finally:
            with suppress(DatabaseError):  # a broken connection has already released the lock
                other.rollback()


def _take_lock(holder: BaseDatabaseWrapper, key: int, busy: Exception) -> None:
    with holder.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
        if not cursor.fetchone()[0]:
            raise busy


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
