"""The Celery application; its settings are the `CELERY_` names of `arena.settings`."""

import os
from typing import Any

from celery import Celery, beat

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")

app = Celery("ringside")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


class Scheduler(beat.Scheduler):
    """Beat, which continues at once when the clock is set back."""

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        now = self.app.now()
        entries = self.schedule.values()
        ahead = [entry for entry in entries if entry.last_run_at and entry.last_run_at > now]
        for entry in ahead:
            entry.last_run_at = now
        if ahead:
            self._heap = None  # planned anew
        return super().tick(*args, **kwargs)
