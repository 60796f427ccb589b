"""Django's SQLite backend, where a transaction waits for its turn instead of at the busy handler.

So does the connection that switches a new file to WAL. A single statement in autocommit mode still
relies on SQLite's own timeout.
"""

from typing import Any

from django.db.backends.sqlite3 import base

from arena.db.sqlite3.turnstile import Turnstile, turnstile


class DatabaseWrapper(base.DatabaseWrapper):
    """SQLite, where a transaction holds the file's write lock from BEGIN to its end."""

    _turn: Turnstile | None = None

    def get_new_connection(self, conn_params: Any) -> Any:
        """As Django's, and the file is in WAL mode."""
        connection = super().get_new_connection(conn_params)
        if connection.execute("PRAGMA journal_mode").fetchone() == ("delete",):
            self._switch_to_wal(connection)
        return connection

    def _switch_to_wal(self, connection: Any) -> None:
        """SQLite refuses the switch at once while somebody writes, whatever the timeout."""
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
        """Turning autocommit on ends the transaction: leave before the on-commit hooks run."""
        try:
            super()._set_autocommit(autocommit)  # type: ignore[misc]  # not in the stubs
        finally:
            if autocommit:
                self._leave()

    def set_autocommit(self, autocommit: bool, *args: Any, **kwargs: Any) -> None:
        """As Django's; whatever fails on the way back to autocommit, the lock is free after it."""
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
