"""Django's PostgreSQL backend, which notices soon that the server is away.

A server that is stopped refuses connections, and the pool tries again for as long as a request may
wait. One that hangs is worse: TCP keeps a connection for a quarter of an hour while nobody answers.
So whoever has waited for a moment, for a connection or for a result, asks whether the server still
takes new connections. If it does not, the wait ends with an OperationalError; until the server is
back, every other wait ends in the same way at once. While the server answers, a query may take as
long as it likes.
"""

import select
import threading
from collections.abc import Generator, Mapping
from time import monotonic
from typing import Any, ClassVar

import psycopg
from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import IsolationLevel
from psycopg_pool import ConnectionPool, PoolTimeout

PATIENCE = 1.5  # seconds before the server is first asked
ANSWER_WITHIN = 3  # whole seconds: it forks a process first, however busy the machine is
ASKED_AGAIN = 0.5
FULL = ("too many", "connection slots")  # it refuses, but it is there


class Server:
    """Whether a database server takes connections; one thread asks at a time."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = {**parameters, "connect_timeout": ANSWER_WITHIN}
        self._lock = threading.Lock()
        self._trouble = ""
        self._asked_at = -ASKED_AGAIN

    def require(self) -> None:
        """Raise OperationalError if the server was away and still is."""
        if self._trouble:
            self.ask()

    def ask(self) -> None:
        """Ask the server; raise OperationalError if it is away."""
        # While the server is known to be away, only one thread asks; the others fail at once.
        if self._lock.acquire(blocking=not self._trouble):
            try:
                if monotonic() - self._asked_at >= ASKED_AGAIN:
                    self._trouble = self._connect()
                    self._asked_at = monotonic()
            finally:
                self._lock.release()
        if self._trouble:
            raise psycopg.OperationalError(self._trouble)

    def _connect(self) -> str:
        try:
            psycopg.connect(**self._parameters).close()
        except psycopg.OperationalError as error:
            return "" if any(word in str(error) for word in FULL) else str(error)
        return ""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that stops waiting if its server goes away."""

    server: Server | None = None

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Wait for `gen`, which is told at intervals that nothing has arrived yet."""
        if self.server is None:
            return super().wait(gen, *args, **kwargs)
        return super().wait(self._watch(gen, self.server), *args, **kwargs)

    def _watch(self, gen: Generator[Any, Any, Any], server: Server) -> Generator[Any, Any, Any]:
        ask_at = monotonic() + PATIENCE
        try:
            state = next(gen)
            while True:
                ready = yield state
                if not ready and monotonic() > ask_at:
                    self._ask(server)
                    ask_at = monotonic() + PATIENCE
                state = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _ask(self, server: Server) -> None:
        try:
            server.ask()
        except psycopg.OperationalError:
            self.close()  # the result will come too late, if at all
            raise


class DatabaseWrapper(base.DatabaseWrapper):
    """PostgreSQL through a pool that hands out live connections only."""

    _servers: ClassVar[dict[str, Server]] = {}

    def __init__(self, settings_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(settings_dict, *args, **kwargs)
        if pool := settings_dict["OPTIONS"].get("pool"):
            pool["connection_class"] = WatchedConnection

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Take a connection from the pool; raise OperationalError soon if the server is away."""
        pool = self.pool
        if pool is None:
            return super().get_new_connection(conn_params)
        self.isolation_level = IsolationLevel.READ_COMMITTED
        server = self._servers.setdefault(self.alias, Server(conn_params))
        pool.open()
        deadline = monotonic() + pool.timeout
        while True:
            server.require()
            try:
                connection = pool.getconn(timeout=min(PATIENCE, pool.timeout))
            except PoolTimeout:
                server.ask()
                if monotonic() >= deadline:
                    raise
                continue
            if _is_alive(connection):
                connection.server = server
                return connection
            pool.putconn(connection)  # which throws it away


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    """Return whether an idle connection is still open, without a round trip to the server."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    if not waiting.poll(0):
        return True
    try:
        ConnectionPool.check_connection(connection)
    except psycopg.OperationalError:
        return False
    return True
