"""Human labels, against which judges are calibrated."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from arena import outcomes
from arena.models import Arena, Candidate, Team

if TYPE_CHECKING:
    from arena.actors import Actor


class LabelSetQuerySet(models.QuerySet["LabelSet"]):
    def listed_for(self, actor: "Actor") -> "LabelSetQuerySet":
        """Files of labels, and what was made from an arena that is listed for `actor`."""
        if actor.is_operator:
            return self.all()
        listed = Arena.objects.listed_for(actor)
        return self.filter(Q(from_arena=False) | Q(arena__in=listed))


class LabelSet(models.Model):
    """A file of labels, or an arena's human votes or honeypots; identified by its content.

    Sets made from an arena are listed for those who see the arena; once it is deleted, for
    operators.
    """

    class Kind(models.TextChoices):
        PAIRS = "pairs", "Which of two answers is better"
        SCORES = "scores", "Scores of single answers"
        HONEYPOTS = "honeypots", "Honeypots"

    name = models.CharField(max_length=200, unique=True)
    kind = models.CharField(max_length=10, choices=Kind)
    digest = models.CharField(max_length=64, unique=True)
    from_arena = models.BooleanField(default=False, db_default=False)
    arena = models.ForeignKey(Arena, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    objects = LabelSetQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["pairs", "scores", "honeypots"]), name="label_set_kind_known"
            ),
            models.CheckConstraint(
                condition=Q(arena=None) | Q(from_arena=True), name="label_set_arena_is_its_source"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class LabelItem(models.Model):
    """A labelled item: a prompt with two answers, or one.

    In a honeypot one answer is fake: `trap` is the kind of honeypot, `trap_side` the fake's side.
    """

    labels_in = models.ForeignKey(LabelSet, models.CASCADE, related_name="items")
    key = models.CharField(max_length=64, help_text="SHA-256 of the texts.")
    prompt = models.TextField()
    response_1 = models.TextField()
    response_2 = models.TextField(blank=True)
    reference = models.TextField(blank=True)
    rubric = models.TextField(blank=True)
    category = models.CharField(max_length=100, blank=True)
    model_1 = models.CharField(max_length=200, blank=True, help_text="Wrote the first answer.")
    model_2 = models.CharField(max_length=200, blank=True, help_text="Wrote the second answer.")
    trap = models.CharField(max_length=20, blank=True)
    trap_side = models.CharField(max_length=10, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["labels_in", "key"], name="label_item_once_per_set"),
            models.CheckConstraint(
                condition=Q(trap="", trap_side="")
                | Q(~Q(trap=""), trap_side__in=["left", "right"]),
                name="label_item_trap_has_a_side",
            ),
        ]

    def __str__(self) -> str:
        return self.key[:12]


class Label(models.Model):
    """One person's label of an item: an outcome for a pair, or a score for a single answer."""

    item = models.ForeignKey(LabelItem, models.CASCADE, related_name="labels")
    rater = models.CharField(max_length=200, blank=True)
    outcome = models.CharField(max_length=10, choices=outcomes.choices, blank=True)
    score = models.FloatField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "rater"], name="label_once_per_item_and_rater"),
            models.CheckConstraint(
                condition=Q(outcome__in=list(outcomes.COUNTED), score=None)
                | Q(outcome="", score__isnull=False),
                name="label_is_an_outcome_or_a_score",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rater}: {self.outcome or self.score}"


# -- Decisions -------------------------------------------------------------------------------------


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
            models.UniqueConstraint(fields=["team", "arena"], name="baseline_once_per_arena"),
        ]

    def __str__(self) -> str:
        return f"{self.candidate_id} in {self.arena_id}"


class Decision(models.Model):
    """A conclusive result: a candidate is better or worse than a baseline by a board's votes.

    Written once, when it is first conclusive, and never withdrawn. If later votes reverse it, that
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
    known_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "candidate", "baseline", "board", "number"], name="decision_once"
            ),
            models.CheckConstraint(
                condition=~Q(candidate=F("baseline")), name="decision_between_two"
            ),
            models.CheckConstraint(
                condition=Q(lead__in=["ahead", "behind"]), name="decision_lead_known"
            ),
        ]

    def __str__(self) -> str:
        return self.sentence
