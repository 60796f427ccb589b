"""Django's SQLite backend, in which writers take turns.

SQLite's busy handler sleeps up to 100 ms between tries and keeps no order: of two busy processes,
one waits until the other has nothing left to write. Here the threads of a process queue for a lock,
and the processes of the machine for locks on two bytes of a file. Only the holder of NEXT waits for
WRITING, so a process that has just written queues behind one that has been waiting.

A transaction waits for its turn at BEGIN, and so does the connection that switches a new file to
WAL. A single statement in autocommit mode still relies on SQLite's own timeout.
"""

import fcntl
import os
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

LONGEST_WAIT = 20.0
LOOK_EVERY = 0.001
NEXT, WRITING = 0, 1


def _open_private(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode=0o600)


class Turnstile:
    """The write lock of one database file; `path` is None for a database in memory."""

    def __init__(self, path: Path | None) -> None:
        # These kernel locks belong to the process and end with it, however it ends.
        self._file = None if path is None else os.fdopen(_open_private(path), "a")
        self._threads = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def enter(self) -> None:
        """Wait for the lock; raise OperationalError after `LONGEST_WAIT` seconds."""
        deadline = time.monotonic() + LONGEST_WAIT
        if not self._threads.acquire(timeout=LONGEST_WAIT):
            raise OperationalError("database is locked")
        try:
            self._enter_process(deadline)
        except BaseException:
            self._threads.release()
            raise

    def leave(self) -> None:
        self._unlock(WRITING)
        self._threads.release()

    def is_free(self) -> bool:
        """Return whether no thread of this process holds the lock."""
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
        """Free the lock after a fork: the thread that held it does not exist in the child."""
        self._threads = threading.Lock()


def turnstile(database: str) -> Turnstile:
    """Return the one turnstile of this process for the database file.

    It has a file of its own, because closing the database's file would release the locks that
    SQLite holds on it in this process (https://sqlite.org/howtocorrupt.html, 2.2).
    """
    if ":memory:" in database or "mode=memory" in database:
        return _turnstile(None)
    return _turnstile(Path(f"{database}-turn").absolute())


@cache
def _turnstile(path: Path | None) -> Turnstile:
    return Turnstile(path)


class DatabaseWrapper(base.DatabaseWrapper):
    """SQLite, with a transaction holding the file's write lock from BEGIN to its end."""

    _turn: Turnstile | None = None

    def get_new_connection(self, conn_params: Any) -> Any:
        """Connect; a new file is readable by its owner only, and is switched to WAL mode."""
        name = str(conn_params["database"])
        if name != ":memory:" and not name.startswith("file:"):
            with suppress(OSError):  # SQLite says what is wrong with the path
                Path(name).touch(mode=0o600)
        connection = super().get_new_connection(conn_params)
        if connection.execute("PRAGMA journal_mode").fetchone() == ("delete",):
            self._switch_to_wal(connection)
        return connection

    def _switch_to_wal(self, connection: Any) -> None:
        """Wait for the lock first: SQLite refuses the switch while another connection writes."""
        try:
            self._enter()
            connection.execute("PRAGMA journal_mode=WAL")
        except BaseException:
            connection.close()
            raise
        finally:
            self._leave()

    def _start_transaction_under_autocommit(self) -> None:
        if self._turn is None:
            self._enter()
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]  # not in the stubs
        except BaseException:
            self._leave()
            raise

    def _set_autocommit(self, autocommit: bool) -> None:
        """Release the lock when autocommit ends the transaction, before on-commit hooks run."""
        try:
            super()._set_autocommit(autocommit)  # type: ignore[misc]  # not in the stubs
        finally:
            if autocommit:
                self._leave()

    def set_autocommit(self, autocommit: bool, *args: Any, **kwargs: Any) -> None:
        """Release the lock even if returning to autocommit fails."""
        try:
            super().set_autocommit(autocommit, *args, **kwargs)
        except BaseException:
            if not self.in_atomic_block:
                self._leave()
            raise

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]  # not in the stubs
        finally:
            self._leave()

    def _enter(self) -> None:
        turn = turnstile(str(self.settings_dict["NAME"]))
        turn.enter()
        self._turn = turn

    def _leave(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.leave()
