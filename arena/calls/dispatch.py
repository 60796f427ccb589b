"""Shares a worker's threads between endpoints, and wakes threads where calls are due.

A message only names an endpoint, and wakes one thread. The thread makes calls of that endpoint
until none is due or other endpoints need the thread. While there are more calls and free slots, it
wakes another one. So a lost message delays calls until the next sweep, and a slow endpoint holds
its own slots alone.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock
from typing import Any

from celery.signals import worker_init, worker_shutting_down
from django.conf import settings
from django.utils import timezone
from kombu.exceptions import OperationalError

from arena.calls.scheduling import HANDED_OUT, take_calls

# What makes a call, given its id, by the kind of its run. The apps add theirs when they start.
EXECUTORS: dict[str, Callable[..., object]] = {}
stopping = Event()


class Slots:
    """The model calls that this worker may make at once, shared between endpoints.

    An endpoint uses at most as many as its operator set (`concurrency`), and never more than stay
    free (the dynamic threshold of Choudhury and Hahne, 1998, with alpha = 1): alone at most half of
    them, two at most a third each.
    """

    def __init__(self, size: int = 16) -> None:
        self.size = size
        self._used: Counter[str] = Counter()
        self._lock = Lock()

    def used(self, endpoint: str) -> int:
        return self._used[endpoint]

    def has_room(self, endpoint: str) -> bool:
        known = settings.MODEL_ENDPOINTS.get(endpoint)
        wanted = known.concurrency if known else 1  # calls of a removed endpoint fail at once
        free = self.size - self._used.total()
        return self._used[endpoint] < min(wanted, free)

    def take(self, endpoint: str) -> bool:
        with self._lock:
            granted = self.has_room(endpoint)
            self._used[endpoint] += granted
            return granted

    def release(self, endpoint: str) -> None:
        with self._lock:
            self._used[endpoint] -= 1


class CallBuffer:
    """Calls of one endpoint that this worker has taken and not begun."""

    def __init__(self) -> None:
        self._calls: deque[tuple[int, str]] = deque()
        self._kept_until = 0.0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._calls)

    def next_call(self, endpoint: str) -> tuple[int, str] | None:
        """Return the next call (id, kind of run), or None if none is due."""
        with self._lock:
            if time.monotonic() > self._kept_until:
                self._calls.clear()  # another worker may have taken them since
            if not self._calls:
                # Few, so that another worker finds some too; twice as many each time at first.
                at_most = 2 * SLOTS.used(endpoint)
                self._kept_until = time.monotonic() + HANDED_OUT.total_seconds()
                self._calls.extend(
                    take_calls(endpoint=endpoint, at_most=at_most, now=timezone.now())
                )
            return self._calls.popleft() if self._calls else None


SLOTS = Slots()
BUFFERS: defaultdict[str, CallBuffer] = defaultdict(CallBuffer)


def make_calls(*, endpoint: str, wake_another: Callable[[], object]) -> None:
    """Make calls of an endpoint one after another, while any is due and there is a slot."""
    buffer = BUFFERS[endpoint]
    while not stopping.is_set() and SLOTS.take(endpoint):
        try:
            taken = buffer.next_call(endpoint)
            if taken is None:
                return
            if len(buffer) and SLOTS.has_room(endpoint):
                with suppress(OperationalError):  # the next sweep wakes it
                    wake_another()
            call_id, kind = taken
            EXECUTORS[kind](call_id=call_id)
        finally:
            SLOTS.release(endpoint)


@worker_init.connect
def _size(sender: Any, **kwargs: object) -> None:
    """Keep an eighth of a worker's threads for other tasks, such as sweeps."""
    SLOTS.size = sender.concurrency - max(1, sender.concurrency // 8)


@worker_shutting_down.connect
def _stop(**kwargs: object) -> None:
    stopping.set()
