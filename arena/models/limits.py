"""Rate limits that hold under concurrency: one row per key, one atomic statement per hit."""

from django.db import models


class RateLimit(models.Model):
    """How often `key` has been used in the window that began at `window_started_at`."""

    key = models.CharField(max_length=120, primary_key=True)
    window_started_at = models.DateTimeField()
    hits = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.key
