"""Who may write to a SQLite file: one thread of one process at a time, in turn.

SQLite's busy handler sleeps up to 100 ms between tries and keeps no order: with two busy processes
one waits until the other has nothing left to write. Here the threads of a process queue at a lock,
and the processes of the machine at two bytes of a file: who holds NEXT is the only one that waits
for WRITING, so that a process which has just written stands behind the one that waited.
"""

import fcntl
import os
import threading
import time
from functools import cache
from pathlib import Path

from django.db.utils import OperationalError

LONGEST_WAIT = 20.0
LOOK_EVERY = 0.001
NEXT, WRITING = 0, 1


class Turnstile:
    """The write lock of one database file; `path` None is a database in memory."""

    def __init__(self, path: Path | None) -> None:
        # Kernel locks of this kind belong to the process and end with it, however it ends.
        self._file = None if path is None else path.open("a")
        self._threads = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def enter(self) -> None:
        """Wait for the turn; raise OperationalError after `LONGEST_WAIT` seconds."""
        deadline = time.monotonic() + LONGEST_WAIT
        if not self._threads.acquire(timeout=LONGEST_WAIT):
            raise OperationalError("database is locked")
        try:
            self._enter_process(deadline)
        except BaseException:
            self._threads.release()
            raise

    def leave(self) -> None:
        """Let the next one in."""
        self._unlock(WRITING)
        self._threads.release()

    def is_free(self) -> bool:
        """May a thread of this process write at once?"""
        return not self._threads.locked()

    def _enter_process(self, deadline: float) -> None:
        self._lock(NEXT, deadline)
        try:
            self._lock(WRITING, deadline)
        finally:
            self._unlock(NEXT)

    def _lock(self, byte: int, deadline: float) -> None:
        while self._file is not None:
            try:
                return fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OperationalError("database is locked") from None
            time.sleep(LOOK_EVERY)
        return None

    def _unlock(self, byte: int) -> None:
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def _forget(self) -> None:
        """The thread that held the lock does not exist on this side of a fork."""
        self._threads = threading.Lock()


def turnstile(database: str) -> Turnstile:
    """Return the one turnstile of this process for the database file.

    It stands in a file of its own: closing the database's file would end the locks that SQLite has
    on it in this process (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    if ":memory:" in database or "mode=memory" in database:
        return _turnstile(None)
    return _turnstile(Path(f"{database}-turn").absolute())


@cache
def _turnstile(path: Path | None) -> Turnstile:
    return Turnstile(path)
