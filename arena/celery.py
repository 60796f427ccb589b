"""The Celery application; its settings are the `CELERY_` names of `arena.settings`."""

import logging
import os
from typing import Any

from celery import Celery, beat

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")

log = logging.getLogger(__name__)
app = Celery("ringside")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


class Scheduler(beat.Scheduler):
    """Beat, which continues at once when the clock is set back.

    While the broker is away, it says so once, not with a traceback for each sweep.
    """

    _is_broker_away = False

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        now = self.app.now()
        entries = self.schedule.values()
        ahead = [entry for entry in entries if entry.last_run_at and entry.last_run_at > now]
        for entry in ahead:
            entry.last_run_at = now
        if ahead:
            self._heap = None  # planned anew
        return super().tick(*args, **kwargs)

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except beat.SchedulingError as error:
            if not self._is_broker_away:
                reason = error.__cause__ or error
                log.error("No sweep can be queued: the broker is not reachable (%s).", reason)
            self._is_broker_away = True
        else:
            if self._is_broker_away:
                log.warning("Sweeps are queued again.")
            self._is_broker_away = False
