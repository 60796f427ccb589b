"""Comparisons issued to raters, and their votes."""

import uuid
from datetime import datetime

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models.catalog import REVEALED, Arena, Candidate, Prompt, Response
from arena.models.imports import Sourced
from arena.models.raters import Rater
from arena.models.runs import Run


class Outcome(models.TextChoices):
    """The only spelling of a verdict."""

    LEFT = "left", "Left is better"
    RIGHT = "right", "Right is better"
    TIE = "tie", "Tie"
    BOTH_BAD = "both_bad", "Both are bad"


class ComparisonQuerySet(models.QuerySet["Comparison"]):
    def open(self, now: datetime) -> "ComparisonQuerySet":
        """Issued, and still waiting for its rater: not skipped, not expired, never voted on."""
        return self.filter(Q(expires_at__gt=now), skipped_at=None, votes__isnull=True)

    def with_texts(self) -> "ComparisonQuerySet":
        """With everything that a page shows of a comparison, in one query."""
        return self.select_related(
            "arena", "prompt", "left", "right", "left_response", "right_response"
        )


class Comparison(Sourced):
    """One prompt and two candidates' responses, sides fixed, issued to one rater.

    The candidates stand beside the responses because every fit reads them, and because an arena
    without texts has no responses. `key` is the only name a page gives a comparison: its id would
    tell in which order comparisons were made.
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="comparisons")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="comparisons")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, blank=True, related_name="+")
    left = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    right = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    left_response = models.ForeignKey(
        Response, models.CASCADE, null=True, blank=True, related_name="+"
    )
    right_response = models.ForeignKey(
        Response, models.CASCADE, null=True, blank=True, related_name="+"
    )
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="comparisons")
    draw_probability = models.FloatField(null=True, blank=True)
    names_itself = models.BooleanField(default=False)
    issued_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    skipped_at = models.DateTimeField(null=True, blank=True)

    objects = ComparisonQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            models.CheckConstraint(
                condition=~Q(left=F("right")), name="comparison_of_two_candidates"
            ),
            models.CheckConstraint(
                condition=Q(left_response__isnull=True, right_response__isnull=True)
                | Q(left_response__isnull=False, right_response__isnull=False)
                & ~Q(left_response=F("right_response")),
                name="comparison_of_two_responses_or_none",
            ),
            models.CheckConstraint(
                condition=Q(draw_probability__isnull=True)
                | Q(draw_probability__gt=0, draw_probability__lte=1),
                name="comparison_draw_probability_in_range",
            ),
        ]

    def __str__(self) -> str:
        return str(self.key)

    def get_absolute_url(self) -> str:
        return reverse("comparison", args=[self.arena.slug, self.key])


# Spelled as the partial indexes spell them, so that finding these among millions is cheap.
TO_ADD = Q(source__isnull=True, tallied=False, voided_at__isnull=True)
TO_TAKE_OUT = Q(tallied=True, voided_at__isnull=False)


class VoteQuerySet(models.QuerySet["Vote"]):
    def live(self) -> "VoteQuerySet":
        """Votes that count: not voided, and not of an import that is still hidden."""
        return self.filter(REVEALED, voided_at=None)

    def to_add(self) -> "VoteQuerySet":
        """Cast here, and not in the tallies yet."""
        return self.filter(TO_ADD)

    def to_take_out(self) -> "VoteQuerySet":
        """In the tallies, and voided since."""
        whole = Q(source=None) | Q(source__tallied_at__isnull=False)
        return self.filter(TO_TAKE_OUT).filter(whole)

    def in_tallies(self) -> "VoteQuerySet":
        """Counted by the tallies as they stand; whoever asks keeps refreshes out meanwhile."""
        counted = Q(source=None) | Q(source_row__lte=F("source__tallied_row"))
        return self.filter(counted, tallied=True)

    def of_people(self) -> "VoteQuerySet":
        return self.filter(rater__kind=Rater.Kind.PERSON)

    def of_judges(self) -> "VoteQuerySet":
        return self.filter(rater__kind=Rater.Kind.JUDGE)


class Vote(Sourced):
    """A rater's outcome for a comparison. Append-only: voided with a reason, never edited.

    `preference`, where given, is the soft verdict: the probability that the left answer is
    better. It is the vote's score; `outcome` is the side it leans to.
    """

    # The indexes below begin with the arena and with the rater: none of their own slows a vote.
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="votes", db_index=False)
    comparison = models.ForeignKey(Comparison, models.CASCADE, related_name="votes")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="votes", db_index=False)
    outcome = models.CharField(max_length=8, choices=Outcome)
    preference = models.FloatField(null=True, blank=True)
    cast_at = models.DateTimeField(db_default=Now())
    voided_at = models.DateTimeField(null=True, blank=True)
    void_reason = models.CharField(max_length=200, blank=True)
    details = models.JSONField(
        null=True, blank=True, help_text="What the vote's file said besides: ids, cost."
    )
    tallied = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Whether the running tallies count this vote; one from a file is counted with"
        " its import.",
    )

    objects = VoteQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            models.UniqueConstraint(
                fields=["comparison", "rater"],
                condition=Q(voided_at__isnull=True),
                name="vote_one_live_per_rater_and_comparison",
            ),
            models.CheckConstraint(
                condition=Q(outcome__in=["left", "right", "tie", "both_bad"]),
                name="vote_outcome_known",
            ),
            models.CheckConstraint(
                condition=Q(preference__isnull=True) | Q(preference__gte=0, preference__lte=1),
                name="vote_preference_in_range",
            ),
            models.CheckConstraint(
                condition=Q(voided_at__isnull=True) | ~Q(void_reason=""),
                name="vote_voided_with_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(source__isnull=True) | Q(tallied=True) | Q(voided_at__isnull=False),
                name="vote_of_a_file_tallied_with_it",
            ),
        ]
        indexes = [
            models.Index(fields=["arena", "id"], name="vote_newest_of_arena"),
            models.Index(fields=["rater", "arena"], name="vote_of_rater"),
            models.Index(fields=["arena", "id"], condition=TO_ADD, name="vote_to_add_to_tallies"),
            models.Index(
                fields=["arena", "id"], condition=TO_TAKE_OUT, name="vote_to_take_out_of_tallies"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} by {self.rater_id}"
