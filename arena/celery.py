"""The Celery application; its settings are the `CELERY_` names of `arena.settings`."""

import logging
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from celery import Celery, beat
from celery.exceptions import OperationalError
from celery.signals import beat_embedded_init, task_received, worker_init, worker_ready
from celery.worker import state

from arena.processes import end_with_parent, postpone_end

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")

log = logging.getLogger(__name__)
app = Celery("ringside")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

#: PULSE_FILE (none): a file that a worker or beat touches while it works; it ends once it no
#: longer does
PULSE = os.environ.get("PULSE_FILE", "")
PULSE_EVERY = 10.0
STALLED_AFTER = 120.0
WORKER = os.getpid()  # also in beat, if the worker has forked it


class Pulse(threading.Thread):
    """Beats unless messages wait for a worker that is free but takes none."""

    def __init__(self, worker: Any) -> None:
        super().__init__(name="pulse", daemon=True)
        self.worker = worker
        self.received_at = monotonic()
        task_received.connect(self._note)

    def run(self) -> None:
        while True:
            if not self.has_stalled():
                beat_pulse()
            time.sleep(PULSE_EVERY)

    def has_stalled(self) -> bool:
        """Whether the worker is free, messages wait, and it has taken none for a long time."""
        is_full = len(state.active_requests) >= self.worker.concurrency
        if is_full or monotonic() - self.received_at < STALLED_AFTER:
            return False
        connection = app.connection_for_read()
        with suppress(OperationalError, *connection.connection_errors), connection:
            connection.ensure_connection(max_retries=1)
            queues = app.amqp.queues.consume_from.values()
            declared: list[Any] = [
                queue(connection.default_channel).queue_declare() for queue in queues
            ]
            return any(queue.message_count for queue in declared)
        return False

    def _note(self, **_: Any) -> None:
        self.received_at = monotonic()


def beat_pulse() -> None:
    postpone_end()
    with suppress(OSError):
        Path(PULSE).touch()


@worker_init.connect
def start_pulse(sender: Any, **_: Any) -> None:
    if PULSE:
        Pulse(sender).start()


@beat_embedded_init.connect
def end_with_worker(**_: Any) -> None:
    """`worker --beat` runs beat in a process of its own, which would outlive a killed worker."""
    end_with_parent(WORKER)


@worker_ready.connect
def end_with_beat(sender: Any, **_: Any) -> None:
    """Celery does not start beat again, so the worker ends, too: whoever started it starts both."""

    def wait(process: Any) -> None:
        process.join()
        if state.should_stop is None:
            log.error("Beat has ended, and the worker with it.")
            os.kill(os.getpid(), signal.SIGTERM)

    if process := getattr(sender.controller, "beat", None):
        threading.Thread(target=wait, args=[process], name="beat-end", daemon=True).start()


class Scheduler(beat.Scheduler):
    """Beat, which continues at once when the clock is set back.

    While the broker is away, it says so once, not with a traceback for each sweep.
    """

    _is_broker_away = False

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        if PULSE:
            beat_pulse()
        now = self.app.now()
        entries = self.schedule.values()
        ahead = [entry for entry in entries if entry.last_run_at and entry.last_run_at > now]
        for entry in ahead:
            entry.last_run_at = now
        if ahead:
            self._heap = None  # plan again
        return super().tick(*args, **kwargs)

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except beat.SchedulingError as error:
            if not self._is_broker_away:
                reason = error.__cause__ or error
                log.error("Cannot queue any sweep: the broker is unreachable (%s).", reason)
            self._is_broker_away = True
        else:
            if self._is_broker_away:
                log.warning("Sweeps are queued again.")
            self._is_broker_away = False
