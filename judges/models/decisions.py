"""Baselines and decisions of teams."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from arena.models import Arena, Candidate, Team
from arena.models.constraints import check, unique


class Baseline(models.Model):
    """The candidate that a team compares its others with in an arena."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="+")
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="+")
    candidate = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    chosen_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    chosen_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("baseline_once_per_arena", "team", "arena"),
        ]

    def __str__(self) -> str:
        return f"{self.candidate_id} in {self.arena_id}"


class Decision(models.Model):
    """What was decided: a candidate is better or worse than a baseline by a board's votes.

    Written once, when it is first decided, and never withdrawn. If later votes reverse it, that
    is another decision, with the next `number`.
    """

    class Lead(models.TextChoices):
        AHEAD = "ahead", "Ahead"
        BEHIND = "behind", "Behind"

    team = models.ForeignKey(Team, models.CASCADE, related_name="decisions")
    candidate = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    baseline = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    board = models.ForeignKey("ranking.Board", models.CASCADE, related_name="+")
    snapshot = models.ForeignKey(
        "ranking.Snapshot", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    number = models.PositiveSmallIntegerField(default=1)
    lead = models.CharField(max_length=10, choices=Lead)
    sentence = models.CharField(max_length=500)
    reason = models.CharField(
        max_length=200, blank=True, help_text="Why it was recorded without a notification."
    )
    known_at = models.DateTimeField()

    class Meta:
        constraints = [
            unique("decision_once", "team", "candidate", "baseline", "board", "number"),
            check("decision_between_two", ~Q(candidate=F("baseline"))),
            check("decision_lead_known", Q(lead__in=["ahead", "behind"])),
        ]

    def __str__(self) -> str:
        return self.sentence
