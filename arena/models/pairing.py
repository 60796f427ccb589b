"""Which pairs are shown next: weights that ranking publishes, and demands of runs and undos."""

from typing import Any

from django.db import models
from django.db.models import F, Q

from arena.models.catalog import Arena, Candidate, Prompt
from arena.models.runs import Run


class Pair(models.Model):
    """Two candidates of an arena, lower id first, with how they are drawn and how often shown.

    `low_left` and `high_left` count the comparisons issued with either one on the left; they
    never differ by more than one. `low_went_left` is how the last one was issued: by a coin where
    the counts were equal.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="pairs")
    low = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    high = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    shared_prompts = models.PositiveIntegerField(default=0)
    weight = models.FloatField(default=1.0)
    low_left = models.PositiveIntegerField(default=0)
    high_left = models.PositiveIntegerField(default=0)
    low_went_left = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["low", "high"], name="pair_once"),
            models.CheckConstraint(condition=Q(low__lt=F("high")), name="pair_lower_id_first"),
            models.CheckConstraint(condition=Q(weight__gte=0), name="pair_weight_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.low_id} and {self.high_id}"


class PairDemandQuerySet(models.QuerySet["PairDemand"]):
    def open(self, arena: Arena) -> "PairDemandQuerySet":
        return self.filter(arena=arena, remaining__gt=0)


class PairDemand(models.Model):
    """A pair that is wanted `remaining` more times: by a run, or because a vote was undone."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="demands")
    pair = models.ForeignKey(Pair, models.CASCADE, related_name="demands")
    run = models.ForeignKey(Run, models.CASCADE, null=True, blank=True, related_name="demands")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, blank=True, related_name="+")
    draw_probability = models.FloatField(null=True, blank=True)
    remaining = models.PositiveIntegerField()

    objects = PairDemandQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "pair"], name="demand_once_per_run_and_pair"),
        ]
        indexes = [
            models.Index(fields=["arena"], condition=Q(remaining__gt=0), name="demand_still_open"),
        ]

    def __str__(self) -> str:
        return f"{self.pair_id} x {self.remaining}"


def pair_key(first: Any, second: Any) -> tuple[int, int]:
    """Return the ids of two candidates, lower first."""
    return (first.pk, second.pk) if first.pk < second.pk else (second.pk, first.pk)
