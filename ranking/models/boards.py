"""Boards: whose votes are ranked, on which prompts, with which settings."""

from django.db import models
from django.db.models import Q

from arena.models import Arena


class Raters(models.TextChoices):
    """Who votes."""

    PEOPLE = "people", "People"
    JUDGES = "judges", "Judges"
    JURIES = "juries", "Juries"


class Counted(models.TextChoices):
    """Whose votes a board counts.

    A jury casts votes of its own, which count on the juries' board; its members' count on the
    judges'. Human and LLM votes are never pooled: on the combined board people decide the scores,
    and trusted juries, or else trusted judges, only narrow the intervals.
    """

    PEOPLE = "people", "People"
    JUDGES = "judges", "Judges"
    JURIES = "juries", "Juries"
    COMBINED = "combined", "Combined"


class BothBad(models.TextChoices):
    """How a board counts a "both bad" vote."""

    SEPARATE = "separate", "A rate of its own, outside the scores"
    TIE = "tie", "A tie"


class Board(models.Model):
    """One ranking of an arena: which raters count, which category, which settings."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="boards")
    raters = models.CharField(max_length=10, choices=Counted, default=Counted.PEOPLE)
    category = models.CharField(max_length=100, blank=True, help_text="Empty: all categories.")
    both_bad = models.CharField(max_length=10, choices=BothBad, default=BothBad.SEPARATE)
    n_resamples = models.PositiveIntegerField(
        default=1000, help_text="Bootstrap replicates beneath each interval."
    )
    seed = models.PositiveIntegerField(default=0)
    target_error = models.FloatField(
        default=25.0,
        help_text="Elo: raters are sent to candidates whose standard error is above it."
        " Only people's board of all categories has a say.",
    )
    problem = models.TextField(
        blank=True,
        editable=False,
        help_text="Why the newest votes are not on this board; empty when they are.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["arena", "raters", "category"], name="board_once_per_question"
            ),
            models.CheckConstraint(
                condition=Q(raters__in=["people", "judges", "juries", "combined"]),
                name="board_raters_known",
            ),
            models.CheckConstraint(
                condition=Q(both_bad__in=["separate", "tie"]), name="board_both_bad_known"
            ),
            models.CheckConstraint(
                condition=Q(n_resamples__gte=2, n_resamples__lte=20_000),
                name="board_resamples_two_to_20000",
            ),
            models.CheckConstraint(
                condition=Q(target_error__gt=0), name="board_target_error_above_zero"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.raters}, {self.category or 'all categories'}"
