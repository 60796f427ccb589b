"""A cache of a few seconds for rows that every call needs and that hardly ever change."""

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.db import connection

SECONDS = 5.0

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """Results of `look_up`, per process. Missing ones are looked up every time, unless
    `missing_too`.

    Inside a transaction nothing is cached, because it may be rolled back.
    """

    def __init__(
        self, look_up: Callable[[tuple[str, str]], Value | None], *, missing_too: bool = False
    ) -> None:
        self._look_up = look_up
        self._missing_too = missing_too
        self._cached: dict[tuple[str, str], tuple[float, Value | None]] = {}

    def get(self, key: tuple[str, str]) -> Value | None:
        if connection.in_atomic_block:
            return self._look_up(key)
        cached = self._cached.get(key)
        if cached is not None and cached[0] > time.monotonic():
            return cached[1]
        value = self._look_up(key)
        if value is not None or self._missing_too:
            self._cached[key] = (time.monotonic() + SECONDS, value)
        return value

    def forget(self, **_: Any) -> None:
        """Forget everything; also a signal receiver."""
        self._cached.clear()
