"""The row that the bare view writes: a vote's outcome and time, without its foreign keys."""

from django.db import models


class BareVote(models.Model):
    """One outcome at one moment."""

    outcome = models.CharField(max_length=8)
    cast_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.outcome
