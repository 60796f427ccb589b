"""Simulated deadlocks, and concurrent writers."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import OperationalError, connection


class Deadlock(Exception):
    """What psycopg raises."""

    sqlstate = "40P01"


def deadlock() -> OperationalError:
    """Django's version of the error."""
    error = OperationalError("deadlock detected")
    error.__cause__ = Deadlock()
    return error


def failing(work: Callable[..., Any], *, times: int = 1, before: int = 0) -> Callable[..., Any]:
    """Do `work`, which ends in a deadlock a few times after it was done `before` times."""
    calls = iter(range(10_000))

    def failing_work(*args: Any, **kwargs: Any) -> Any:
        number = next(calls)
        if before <= number < before + times:
            raise deadlock()
        return work(*args, **kwargs)

    return failing_work


def at_once(*works: Callable[[], Any], expecting: tuple[type[Exception], ...] = ()) -> list[Any]:
    """Start all at the same moment, each with its own thread and connection.

    Returns each result, or the error if it is one of `expecting`.
    """
    together = threading.Barrier(len(works))

    def alone(work: Callable[[], Any]) -> Any:
        try:
            together.wait(120)
            return work()
        except expecting as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(alone, works))


class Other(threading.Thread):
    """A concurrent writer; `check` raises its error."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            connection.close()

    def ends_within(self, seconds: float) -> bool:
        """Wait for it; return whether it has ended."""
        self.join(seconds)
        return not self.is_alive()

    def check(self) -> None:
        """Raise what it raised, or that it has not ended."""
        assert self.ends_within(120)
        if self._error is not None:
            raise self._error
