"""Rate limits, and the keys that hide the networks they count."""

from django.db import models


class RateLimit(models.Model):
    """The number of uses of `key` in the window that began at `window_started_at`."""

    key = models.CharField(max_length=120, primary_key=True)
    window_started_at = models.DateTimeField()
    hits = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.key


class NetworkKey(models.Model):
    """The key of the hashes of networks, for 30 days; then it is replaced and deleted."""

    period = models.PositiveIntegerField(
        primary_key=True, help_text="Number of the 30-day period since 1970."
    )
    key = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"period {self.period}"
