"""Databases that end a deadlock, without one; and others at work in the same moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import OperationalError, connection


class Deadlock(Exception):
    """What psycopg raises."""

    sqlstate = "40P01"


def deadlock() -> OperationalError:
    """What Django makes of it."""
    error = OperationalError("deadlock detected")
    error.__cause__ = Deadlock()
    return error


def failing(work: Callable[..., Any], *, times: int = 1, before: int = 0) -> Callable[..., Any]:
    """Do `work`, which ends in a deadlock for some times, once it has been done `before` times."""
    calls = iter(range(10_000))

    def failing_work(*args: Any, **kwargs: Any) -> Any:
        number = next(calls)
        if before <= number < before + times:
            raise deadlock()
        return work(*args, **kwargs)

    return failing_work


def at_once(*works: Callable[[], Any], expecting: tuple[type[Exception], ...] = ()) -> list[Any]:
    """Start each in a thread and a connection of its own at one moment.

    Returns what each returned, or the error that it ended in where that is among `expecting`.
    """
    together = threading.Barrier(len(works))

    def alone(work: Callable[[], Any]) -> Any:
        try:
            together.wait(10)
            return work()
        except expecting as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(alone, works))


class Other(threading.Thread):
    """Somebody else at work; `check` says what became of it."""

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
        """Wait for it; say whether it has ended."""
        self.join(seconds)
        return not self.is_alive()

    def check(self) -> None:
        """Raise what it raised, or that it has not ended."""
        assert self.ends_within(30)
        if self._error is not None:
            raise self._error
