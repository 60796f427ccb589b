"""The doorbell of the boards: many votes, one message.

`ring` costs a request nothing but a set's insertion. A daemon thread publishes one message per
arena a second after the first ring. A message that gets lost loses nothing: the sweep, every two
seconds, finds each arena whose newest votes are on no board. A process that ends, as every command
does, first sends what was rung.
"""

import atexit
import logging
import threading
from collections.abc import Callable

from celery import current_app

logger = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 1.0
AT_MOST_SECONDS = 5.0  # a broker that is away must not keep a command from ending


class Doorbell:
    """Collects arena ids and hands each of them on once, `wait` seconds after its first ring."""

    def __init__(self, publish: Callable[[int], None], wait: float = DEBOUNCE_SECONDS) -> None:
        self._publish = publish
        self._wait = wait
        self._lock = threading.Lock()
        self._rung: set[int] = set()
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()
        atexit.register(self.flush)

    def ring(self, arena_id: int) -> None:
        """Ask for one refresh of the arena, soon; never blocks on the broker."""
        with self._lock:
            self._rung.add(arena_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._deliver, name="doorbell", daemon=True)
                self._thread.start()

    def flush(self, timeout: float = AT_MOST_SECONDS) -> None:
        """Hand on now what was rung, and wait for that, but no longer than `timeout` seconds."""
        thread = self._thread
        if thread is None:
            return
        self._hurry.set()
        thread.join(timeout)

    def _deliver(self) -> None:
        """Publish until nobody has rung during one wait; the next ring starts a new thread."""
        while True:
            self._hurry.wait(self._wait)
            with self._lock:
                rung, self._rung = self._rung, set()
                if not rung:
                    self._thread = None
                    self._hurry.clear()
                    return
            for arena_id in sorted(rung):
                self._publish_one(arena_id)

    def _publish_one(self, arena_id: int) -> None:
        try:
            self._publish(arena_id)
        except Exception:
            logger.exception("The broker did not take the ring of arena %s", arena_id)


def _send(arena_id: int) -> None:
    """Queue the refresh by name: this module is imported by the tasks' callers, not by tasks."""
    current_app.send_task("ranking.tasks.refresh_arena", args=[arena_id])


_bell = Doorbell(_send)
ring = _bell.ring
