"""LLM judges, juries of them, and their epochs."""

import hashlib
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models import Arena, Rater

if TYPE_CHECKING:
    from arena.access import Actor

SCRIPTED = "scripted"


class JudgeQuerySet(models.QuerySet["Judge"]):
    def listed_for(self, actor: "Actor") -> "JudgeQuerySet":
        """Judges that a list may name: asked on labelled items, or in an arena that is listed for
        `actor`. What was asked in private alone is named by nobody else."""
        if actor.is_operator:
            return self.all()
        in_trial = Q(run_judges__run__isnull=False, run_judges__run__arena=None)
        listed = Q(run_judges__run__arena__in=Arena.objects.listed_for(actor))
        return self._with_epochs(in_trial | listed)

    def asked_in(self, arena: Arena) -> "JudgeQuerySet":
        """Judges that took part in a run of the arena."""
        return self._with_epochs(Q(run_judges__run__arena=arena))

    def _with_epochs(self, wanted: Q) -> "JudgeQuerySet":
        return self.filter(Exists(Epoch.objects.filter(wanted, judge=OuterRef("pk"))))


class Judge(models.Model):
    """An LLM judge, or a jury of several. Immutable: anything else that could change its verdicts
    is another judge.

    `digest` is the SHA-256 over everything here and the rubric's files; the name is for people. A
    jury has members and a quorum and neither endpoint nor rubric. `examples` are the few-shot
    examples themselves, with the keys of the labelled items that they were drawn from.
    """

    class OrderPolicy(models.TextChoices):
        """What happens when a judge changes its mind as the order is swapped."""

        ABSTAIN = "abstain", "Abstain"
        TIE = "tie", "Call it a tie"
        AVERAGE = "average", "Average the two"

    class Protocol(models.TextChoices):
        PAIRWISE = "pairwise", "Pairwise"
        DIRECT = "direct", "Direct assessment"
        LISTWISE = "listwise", "Listwise"
        JURY = "jury", "Jury"

    name = models.CharField(max_length=200, unique=True)
    endpoint = models.CharField(max_length=100, blank=True)
    model = models.CharField(max_length=200, blank=True)
    unpinned = models.BooleanField(default=False)
    family = models.CharField(max_length=50, blank=True)
    protocol = models.CharField(max_length=20, choices=Protocol)
    rubric = models.SlugField(max_length=60, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    order_policy = models.CharField(max_length=10, choices=OrderPolicy, default=OrderPolicy.ABSTAIN)
    length_neutral = models.BooleanField(null=True, blank=True)
    soft = models.BooleanField(
        default=False, help_text="Its votes are the probabilities that the model gave, if it does."
    )
    examples = models.JSONField(default=list, blank=True)
    members = models.ManyToManyField("self", symmetrical=False, related_name="juries", blank=True)
    quorum = models.PositiveSmallIntegerField(null=True, blank=True)
    digest = models.CharField(max_length=64, unique=True)
    registered_at = models.DateTimeField(db_default=Now())

    objects = JudgeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(protocol__in=["pairwise", "direct", "listwise", "jury"]),
                name="judge_protocol_known",
            ),
            models.CheckConstraint(
                condition=Q(order_policy__in=["abstain", "tie", "average"]),
                name="judge_order_policy_known",
            ),
            models.CheckConstraint(
                condition=Q(protocol="jury", quorum__gt=0) | Q(~Q(protocol="jury"), quorum=None),
                name="judge_with_quorum_is_a_jury",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Write a new judge; an edit of one that exists is refused."""
        if self.pk is not None:
            raise ValueError("A judge is immutable: register another one.")
        super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("judge", args=[self.pk])

    @property
    def is_jury(self) -> bool:
        return self.protocol == self.Protocol.JURY

    @property
    def is_scripted(self) -> bool:
        """Is this the arithmetic stand-in, and not a real judge?"""
        return self.endpoint == SCRIPTED


class EpochQuerySet(models.QuerySet["Epoch"]):
    def open(self) -> "EpochQuerySet":
        return self.filter(ended_at=None)


class Epoch(models.Model):
    """A span in which a judge stayed the same, as far as anybody can tell; it votes as one rater.

    An alarm of the canary ends an epoch and opens the next, whose votes are another rater's.
    """

    judge = models.ForeignKey(Judge, models.PROTECT, related_name="epochs")
    number = models.PositiveSmallIntegerField(default=1)
    rater = models.OneToOneField(Rater, models.PROTECT, related_name="epoch")
    asker = models.CharField(max_length=64, unique=True)
    reason = models.CharField(max_length=300, blank=True)
    model_returned = models.CharField(max_length=200, blank=True)
    fingerprint = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = EpochQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["judge", "number"], name="epoch_number_once_per_judge"),
            models.UniqueConstraint(
                fields=["judge"], condition=Q(ended_at=None), name="epoch_one_open_per_judge"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.judge}" if self.number == 1 else f"{self.judge}, epoch {self.number}"


def asker_of(digest: str, number: int) -> str:
    """Return who asks, in the ledger of calls: an answer of an earlier epoch is not one of this."""
    if number == 1:
        return digest
    return hashlib.sha256(f"{digest} epoch {number}".encode()).hexdigest()
