"""Raters, the comparisons issued to them, and their votes."""

import uuid
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models.catalog import REVEALED, Arena, Candidate, Prompt, Response
from arena.models.imports import Sourced


class Outcome(models.TextChoices):
    """The only spelling of a verdict."""

    LEFT = "left", "Left is better"
    RIGHT = "right", "Right is better"
    TIE = "tie", "Tie"
    BOTH_BAD = "both_bad", "Both are bad"


class Rater(models.Model):
    """Whoever votes: a person (signed in, anonymous, or a worker of a file), a judge or a jury."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        JUDGE = "judge", "Judge"
        JURY = "jury", "Jury"

    kind = models.CharField(max_length=10, choices=Kind)
    name = models.CharField(max_length=200, blank=True)
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="rater"
    )
    arena = models.ForeignKey(
        Arena,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Set for raters that a file brought: their names mean something there only.",
    )
    created_at = models.DateTimeField(db_default=Now())
    blocked_at = models.DateTimeField(null=True, blank=True)
    trusted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Since when the votes of this judge or jury may narrow people's intervals.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["arena", "kind", "name"],
                condition=Q(arena__isnull=False),
                name="rater_name_once_per_arena",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["person", "judge", "jury"]), name="rater_kind_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name or f"rater {self.pk}"


class RunQuerySet(models.QuerySet["Run"]):
    def of_people(self) -> "RunQuerySet":
        return self.filter(kind=Rater.Kind.PERSON)

    def unfinished(self) -> "RunQuerySet":
        return self.filter(state__in=[Run.State.ORDERED, Run.State.OPEN])


class Run(models.Model):
    """An ordered batch of votes, `per_pair` for each pair of candidates.

    A run without an arena tries judges on labelled items. Money is in nano-dollars: `settled` is
    what servers billed, `reserved` is held for requests under way, `uncertain` is what requests
    that were cut off may have cost at most. Their sum never passes `cap` (null: no money is spent).
    """

    class State(models.TextChoices):
        ORDERED = "ordered", "Ordered"
        OPEN = "open", "Open"
        PAUSED = "paused", "Paused"
        DONE = "done", "Done"
        CANCELLED = "cancelled", "Cancelled"

    arena = models.ForeignKey(Arena, models.CASCADE, null=True, blank=True, related_name="runs")
    kind = models.CharField(max_length=10, choices=Rater.Kind)
    per_pair = models.PositiveIntegerField()
    max_calls = models.PositiveIntegerField(null=True, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.ORDERED)
    pause_reason = models.CharField(max_length=300, blank=True)
    cap = models.PositiveBigIntegerField(null=True, blank=True)
    settled = models.PositiveBigIntegerField(default=0)
    reserved = models.PositiveBigIntegerField(default=0)
    uncertain = models.PositiveBigIntegerField(default=0)
    expected_cost = models.PositiveBigIntegerField(null=True, blank=True)
    worst_cost = models.PositiveBigIntegerField(null=True, blank=True)
    votes_wanted = models.PositiveIntegerField(default=0)
    votes_done = models.PositiveIntegerField(default=0)
    criteria = models.TextField(
        blank=True, help_text="The arena's criteria as judges were given them in this run."
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["ordered", "open", "paused", "done", "cancelled"]),
                name="run_state_known",
            ),
            models.CheckConstraint(condition=Q(per_pair__gt=0), name="run_wants_votes"),
            models.CheckConstraint(
                condition=Q(arena__isnull=False) | Q(kind="judge"), name="run_of_people_in_an_arena"
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.pk} ({self.get_kind_display().lower()})"

    @property
    def in_arena(self) -> Arena:
        """The arena of a run that has one; trials of judges on labelled items have none."""
        if self.arena is None:
            raise ValueError(f"{self} belongs to no arena.")
        return self.arena


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
