"""LLM judges and juries, and their epochs."""

import hashlib
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.urls import reverse

from arena.models import Arena, Rater
from arena.models.constraints import check, unique
from judges.models.rubrics import RubricVersion

SCRIPTED = "scripted"


class JudgeQuerySet(models.QuerySet["Judge"]):
    def asked_in(self, arena: Arena) -> "JudgeQuerySet":
        return self.with_epochs(Q(run_judges__run__arena=arena))

    def with_digest(self, digest: str) -> "Judge | None":
        """Return the judge that has this digest, or had it in an earlier epoch."""
        return self.filter(Q(digest=digest) | Q(epochs__digest=digest)).first()

    def with_epochs(self, condition: Q) -> "JudgeQuerySet":
        return self.filter(Exists(Epoch.objects.filter(condition, judge=OuterRef("pk"))))


class Judge(models.Model):
    """An LLM judge, or a jury of several. Immutable: other settings make another judge.

    Its `rubric` is a folder of the server, or, with a `rubric_version`, a team's.

    `digest` is the SHA-256 over everything that could change its verdicts, the rubric's files
    included; the name is for people. A jury has members and a quorum, but neither endpoint nor
    rubric. One that weighs its members has `weights`: log odds by requester, over all (`general`)
    and by category (`categories`), fitted on the votes of `arena` up to the vote `fitted_until`.
    `examples` are the few-shot examples themselves.
    """

    class SwapPolicy(models.TextChoices):
        """What happens when the verdict changes with the order of the answers."""

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
    rubric = models.CharField(max_length=130, blank=True)
    rubric_version = models.ForeignKey(
        RubricVersion, models.PROTECT, null=True, blank=True, related_name="judges"
    )
    parameters = models.JSONField(default=dict, blank=True)
    order_policy = models.CharField(max_length=10, choices=SwapPolicy, default=SwapPolicy.ABSTAIN)
    length_neutral = models.BooleanField(null=True, blank=True)
    soft = models.BooleanField(
        default=False, help_text="Votes carry the model's probabilities, where it returns them."
    )
    readings = models.PositiveSmallIntegerField(
        default=1, db_default=1, help_text="How many times each call is made for one verdict."
    )
    schema = models.BooleanField(
        default=True,
        db_default=False,
        help_text="Every reply is held to a JSON schema, where the server can.",
    )
    output_limit = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="The most tokens of a reply, thought included; empty: the rubric’s own limit.",
    )
    effort = models.CharField(
        max_length=10,
        blank=True,
        db_default="",
        help_text="How much a model that thinks shall think; empty: the model’s default.",
    )
    examples = models.JSONField(default=list, blank=True)
    members = models.ManyToManyField("self", symmetrical=False, related_name="juries", blank=True)
    quorum = models.PositiveSmallIntegerField(null=True, blank=True)
    weights = models.JSONField(
        null=True,
        blank=True,
        help_text="For a jury that weighs its members: how much each verdict counts.",
    )
    digest = models.CharField(max_length=64, unique=True)
    registered_at = models.DateTimeField(db_default=Now())

    objects = JudgeQuerySet.as_manager()

    class Meta:
        constraints = [
            check(
                "judge_protocol_known", Q(protocol__in=["pairwise", "direct", "listwise", "jury"])
            ),
            check("judge_order_policy_known", Q(order_policy__in=["abstain", "tie", "average"])),
            check("judge_effort_known", Q(effort__in=["", "minimal", "low", "medium", "high"])),
            check("judge_output_limit_positive", Q(output_limit=None) | Q(output_limit__gt=0)),
            check(
                "judge_with_quorum_is_a_jury",
                Q(protocol="jury", quorum__gt=0) | Q(~Q(protocol="jury"), quorum=None),
            ),
            check(
                "judge_of_a_teams_rubric_names_it", Q(rubric_version=None) | Q(rubric__contains="/")
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save a new judge; changing an existing one is refused."""
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
        """Whether this is the scripted stand-in, which does not really judge."""
        return self.endpoint == SCRIPTED


class MergedModelManager(models.Manager["MergedModel"]):
    def family_of(self, model: str) -> str:
        """Return the family of a merged model's parents; '' for any other model."""
        name = model.rsplit("/", 1)[-1]
        return self.filter(name=name).values_list("family", flat=True).first() or ""


class MergedModel(models.Model):
    """A model whose weights were merged from others: its family, for the own-family rule, is that
    of its `parents`. `name` is how it is served, without an organisation in front."""

    name = models.CharField(max_length=200, unique=True)
    family = models.CharField(max_length=50)
    parents = models.JSONField(default=list)
    recipe = models.JSONField(default=dict)
    merged_at = models.DateTimeField(db_default=Now())

    objects = MergedModelManager()

    def __str__(self) -> str:
        return self.name


class EpochQuerySet(models.QuerySet["Epoch"]):
    def open(self) -> "EpochQuerySet":
        return self.filter(ended_at=None)


class Epoch(models.Model):
    """A period with no detected change in a judge. It votes as one rater.

    A drift alarm ends an epoch and opens the next, which votes as another rater. Another reader of
    replies does too, and so do other prompts, but there the next one takes over what can be read
    again and would be asked in the same way.
    """

    judge = models.ForeignKey(Judge, models.PROTECT, related_name="epochs")
    number = models.PositiveSmallIntegerField(default=1)
    digest = models.CharField(
        max_length=64, blank=True, db_default="", help_text="The judge's digest in this epoch."
    )
    reader = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="The digest of what read its replies; empty before readers had one.",
    )
    prompt_version = models.PositiveSmallIntegerField(
        db_default=1,
        help_text="The version of the prompts, and of how they show prompts and answers.",
    )
    rater = models.OneToOneField(Rater, models.PROTECT, related_name="epoch")
    requester = models.CharField(max_length=64, unique=True)
    reason = models.CharField(max_length=300, blank=True)
    model_returned = models.CharField(max_length=200, blank=True)
    fingerprint = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = EpochQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("epoch_number_once_per_judge", "judge", "number"),
            unique("epoch_one_open_per_judge", "judge", where=Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.judge}" if self.number == 1 else f"{self.judge}, epoch {self.number}"


def requester_of(digest: str, number: int) -> str:
    """Return the requester of an epoch in the ledger of calls: epochs do not share replies."""
    if number == 1:
        return digest
    return hashlib.sha256(f"{digest} epoch {number}".encode()).hexdigest()
