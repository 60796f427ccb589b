"""Rows that every request needs and operators seldom change."""

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.db.models.signals import post_delete, post_save

SECONDS = 5.0

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """What `read` returned at most five seconds ago, and after each change in this process.

    `model`: the label of the model whose rows it reads.
    """

    def __init__(self, read: Callable[[], Value], model: str) -> None:
        self._read = read
        self.known: tuple[float, Value] | None = None
        post_save.connect(self.forget, sender=model)
        post_delete.connect(self.forget, sender=model)

    def get(self) -> Value:
        known = self.known
        if known is None or known[0] <= time.monotonic():
            if known is not None:  # one reads, others go on with what is known
                self.known = time.monotonic() + SECONDS, known[1]
            known = self.known = time.monotonic() + SECONDS, self._read()
        return known[1]

    def forget(self, **_: Any) -> None:
        """Read again at the next use; also a signal receiver."""
        self.known = None
