"""Human labels that judges are calibrated against."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena import outcomes
from arena.models import Arena, Team
from arena.models.constraints import check, unique
from arena.models.fields import Check
from arena.validation import clean_visible_name

LONGEST_NAME = 200


def keep_if_used(collector: Any, field: Any, sets: Any, using: str) -> None:
    """What a deleted team leaves: labels that judges were asked about, because verdicts depend on
    them."""
    unused = sets.filter(pk__in=LabelSet.objects.unused().values("pk"))
    models.SET_NULL(collector, field, sets.exclude(pk__in=unused.values("pk")), using)
    models.CASCADE(collector, field, unused, using)


class LabelSetQuerySet(models.QuerySet["LabelSet"]):
    def unused(self) -> "LabelSetQuerySet":
        """Those that no judge was asked about."""
        return self.filter(run_judges=None, trials=None, calibrations=None, canaries=None)


class LabelSet(models.Model):
    """A file of labels, or an arena's human votes or honeypots; identified by its content.

    A file that was uploaded belongs to its team, and only the team sees it. Sets made from an arena
    are listed for those who see the arena. Once team or arena is deleted, only operators see them.
    """

    class Kind(models.TextChoices):
        PAIRS = "pairs", "Which of two answers is better"
        SCORES = "scores", "Scores of single answers"
        HONEYPOTS = "honeypots", "Honeypots"

    name = models.CharField(
        max_length=LONGEST_NAME, validators=[Check(clean_visible_name, limit=LONGEST_NAME)]
    )
    kind = models.CharField(max_length=10, choices=Kind)
    digest = models.CharField(max_length=64)
    from_arena = models.BooleanField(default=False, db_default=False)
    arena = models.ForeignKey(Arena, models.SET_NULL, null=True, blank=True, related_name="+")
    from_team = models.BooleanField(default=False, db_default=False)
    team = models.ForeignKey(Team, keep_if_used, null=True, blank=True, related_name="label_sets")
    created_at = models.DateTimeField(db_default=Now())

    objects = LabelSetQuerySet.as_manager()

    class Meta:
        constraints = [
            # A team's sets say nothing about those of others: each may have the same name and text.
            unique("label_set_name_once", "name", where=Q(from_team=False)),
            unique("label_set_digest_once", "digest", where=Q(from_team=False)),
            unique("label_set_name_once_per_team", "team", "name"),
            unique("label_set_digest_once_per_team", "team", "digest"),
            check("label_set_kind_known", Q(kind__in=["pairs", "scores", "honeypots"])),
            check("label_set_arena_is_its_source", Q(arena=None) | Q(from_arena=True)),
            check("label_set_team_is_its_source", Q(team=None) | Q(from_team=True)),
            check("label_set_has_one_source", Q(from_arena=False) | Q(from_team=False)),
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
            unique("label_item_once_per_set", "labels_in", "key"),
            check(
                "label_item_trap_has_a_side",
                Q(trap="", trap_side="") | Q(~Q(trap=""), trap_side__in=["left", "right"]),
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
            unique("label_once_per_item_and_rater", "item", "rater"),
            check(
                "label_is_an_outcome_or_a_score",
                Q(outcome__in=list(outcomes.COUNTED), score=None)
                | Q(outcome="", score__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rater}: {self.outcome or self.score}"
