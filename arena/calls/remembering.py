"""Rows that every call needs and that hardly ever change, remembered for a few seconds."""

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.db import connection

SECONDS = 5.0

Found = TypeVar("Found")


class Remembered(Generic[Found]):
    """What `look_up` found, per process. What is missing is looked for again every time, unless
    `missing_too`.

    Inside a transaction nothing is remembered, for what is seen there may never come to be.
    Several threads may look up the same at once: they find the same.
    """

    def __init__(
        self, look_up: Callable[[tuple[str, str]], Found | None], *, missing_too: bool = False
    ) -> None:
        self._look_up = look_up
        self._missing_too = missing_too
        self._kept: dict[tuple[str, str], tuple[float, Found | None]] = {}

    def get(self, key: tuple[str, str]) -> Found | None:
        if connection.in_atomic_block:
            return self._look_up(key)
        kept = self._kept.get(key)
        if kept is not None and kept[0] > time.monotonic():
            return kept[1]
        found = self._look_up(key)
        if found is not None or self._missing_too:
            self._kept[key] = (time.monotonic() + SECONDS, found)
        return found

    def forget(self, **_: Any) -> None:
        """Look everything up anew; also a receiver of signals."""
        self._kept.clear()
