"""Votes that look rigged: held, or only under review."""

from django.db import models
from django.db.models import Q

from arena.models.arenas import Arena
from arena.models.candidates import Candidate
from arena.models.constraints import check, unique
from arena.models.raters import Rater


class HoldQuerySet(models.QuerySet["Hold"]):
    def open(self) -> "HoldQuerySet":
        """Holds that are still undecided."""
        return self.filter(state=Hold.State.HELD)


class Hold(models.Model):
    """Votes of one rater or one network that are set aside until an operator has reviewed them.

    The evidence stays as it was found. The votes stay too; they count nowhere until they are
    released, and then exactly as before.
    """

    class State(models.TextChoices):
        HELD = "held", "Held"
        RELEASED = "released", "Released"
        VOIDED = "voided", "Voided"

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="holds")
    rater = models.ForeignKey(Rater, models.CASCADE, null=True, blank=True, related_name="holds")
    network = models.CharField(max_length=16, blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.HELD)
    test = models.CharField(max_length=12, help_text="The test that found it.")
    evidence = models.JSONField(help_text="What the test found; the page explains it.")
    last_vote_id = models.BigIntegerField(help_text="The newest vote that the test examined.")
    held_at = models.DateTimeField()
    objection = models.TextField(blank=True)
    objected_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=200, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    n_votes = models.PositiveIntegerField(default=0, help_text="Votes held so far.")

    objects = HoldQuerySet.as_manager()

    class Meta:
        constraints = [
            check("hold_of_rater_or_network", Q(rater__isnull=True) ^ Q(network="")),
            check(
                "hold_decided_with_a_reason",
                Q(state="held", decided_at__isnull=True)
                | Q(state__in=["released", "voided"], decided_at__isnull=False) & ~Q(reason=""),
            ),
            unique(
                "hold_one_open_per_rater",
                "arena",
                "rater",
                where=Q(state="held", rater__isnull=False),
            ),
            unique(
                "hold_one_open_per_network",
                "arena",
                "network",
                where=Q(state="held") & ~Q(network=""),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rater or 'network ' + self.network[:6]}: {self.test}"


class ReviewQuerySet(models.QuerySet["Review"]):
    def open(self) -> "ReviewQuerySet":
        """Reviews that nobody has decided yet."""
        return self.filter(closed_at=None)


class Review(models.Model):
    """A group of raters who may have moved a candidate together: its arena's votes are under
    review, whether any of them are held or not, until an operator has decided.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="reviews")
    candidate = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    loses = models.BooleanField(help_text="Does the group make the candidate lose?")
    test = models.CharField(max_length=12, help_text="The test that found it.")
    evidence = models.JSONField(help_text="What the test found; the page explains it.")
    group = models.JSONField(help_text="The ids of the raters who were tested together.")
    suspects = models.JSONField(help_text="The ids of those who look rigged, if any stand out.")
    has_verified = models.BooleanField(help_text="Are any of their votes verified?")
    last_vote_id = models.BigIntegerField(help_text="The newest vote that the test examined.")
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_by = models.CharField(max_length=200, blank=True)
    reason = models.CharField(max_length=200, blank=True)

    objects = ReviewQuerySet.as_manager()

    class Meta:
        constraints = [
            check(
                "review_closed_with_a_reason",
                Q(closed_at__isnull=True, reason="") | Q(closed_at__isnull=False) & ~Q(reason=""),
            ),
            unique(
                "review_one_open_per_candidate",
                "arena",
                "candidate",
                "loses",
                where=Q(closed_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.candidate}: {self.test}"

    @property
    def decided_on(self) -> list[int]:
        """Whose votes a decision is about: those who look rigged, or all if nobody stands out."""
        raters: list[int] = self.suspects or self.group
        return raters
