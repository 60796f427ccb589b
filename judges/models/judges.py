"""LLM judges and juries, their epochs, calibrations and drift checks; the human labels that they
are calibrated against; and the baselines and decisions of teams.
"""

import hashlib
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now
from django.urls import reverse

from arena import outcomes
from arena.models import Arena, Candidate, Rater, Run, Team
from arena.models.constraints import check, unique
from arena.permissions import listed_arenas

if TYPE_CHECKING:
    from arena.actors import Actor


class LabelSetQuerySet(models.QuerySet["LabelSet"]):
    def listed_for(self, actor: "Actor") -> "LabelSetQuerySet":
        """Files of labels, and what was made from an arena that is listed for `actor`."""
        if actor.is_operator:
            return self.all()
        listed = listed_arenas(actor)
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
            check("label_set_kind_known", Q(kind__in=["pairs", "scores", "honeypots"])),
            check("label_set_arena_is_its_source", Q(arena=None) | Q(from_arena=True)),
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
            unique("decision_once", "team", "candidate", "baseline", "board", "number"),
            check("decision_between_two", ~Q(candidate=F("baseline"))),
            check("decision_lead_known", Q(lead__in=["ahead", "behind"])),
        ]

    def __str__(self) -> str:
        return self.sentence


SCRIPTED = "scripted"


class JudgeQuerySet(models.QuerySet["Judge"]):
    def listed_for(self, actor: "Actor") -> "JudgeQuerySet":
        """Judges used on labels, or in an arena, that are listed for `actor`.

        A judge used only in private arenas, or on their votes and answers, is not listed for
        others.
        """
        if actor.is_operator:
            return self.all()
        in_label_run = Q(run_judges__run__isnull=False, run_judges__run__arena=None) & (
            Q(run_judges__labels_in=None)
            | Q(run_judges__labels_in__in=LabelSet.objects.listed_for(actor))
        )
        listed = Q(run_judges__run__arena__in=listed_arenas(actor))
        return self._with_epochs(in_label_run | listed)

    def asked_in(self, arena: Arena) -> "JudgeQuerySet":
        return self._with_epochs(Q(run_judges__run__arena=arena))

    def _with_epochs(self, condition: Q) -> "JudgeQuerySet":
        return self.filter(Exists(Epoch.objects.filter(condition, judge=OuterRef("pk"))))


class Judge(models.Model):
    """An LLM judge, or a jury of several. Immutable: other settings make another judge.

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
    rubric = models.SlugField(max_length=60, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    order_policy = models.CharField(max_length=10, choices=SwapPolicy, default=SwapPolicy.ABSTAIN)
    length_neutral = models.BooleanField(null=True, blank=True)
    soft = models.BooleanField(
        default=False, help_text="Votes carry the model's probabilities, where it returns them."
    )
    readings = models.PositiveSmallIntegerField(
        default=1, db_default=1, help_text="How many times each call is made for one verdict."
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
            check(
                "judge_with_quorum_is_a_jury",
                Q(protocol="jury", quorum__gt=0) | Q(~Q(protocol="jury"), quorum=None),
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

    A drift alarm ends an epoch and opens the next, which votes as another rater.
    """

    judge = models.ForeignKey(Judge, models.PROTECT, related_name="epochs")
    number = models.PositiveSmallIntegerField(default=1)
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


class CalibrationQuerySet(models.QuerySet["Calibration"]):
    def listed_for(self, actor: "Actor") -> "CalibrationQuerySet":
        """Calibrations on labels, or in an arena, that are listed for `actor`."""
        if actor.is_operator:
            return self.all()
        on_labels = Q(label_set__in=LabelSet.objects.listed_for(actor))
        return self.filter(on_labels | Q(arena__in=listed_arenas(actor)))


class Calibration(models.Model):
    """One measurement of a judge's epoch against people, or on honeypots. Never edited.

    `report` holds the figures of judges.core.calibration as plain numbers.
    """

    epoch = models.ForeignKey(Epoch, models.PROTECT, related_name="calibrations")
    label_set = models.ForeignKey(
        LabelSet, models.PROTECT, null=True, blank=True, related_name="calibrations"
    )
    arena = models.ForeignKey(
        Arena, models.CASCADE, null=True, blank=True, related_name="calibrations"
    )
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="+")
    kind = models.CharField(max_length=10, choices=LabelSet.Kind)
    report = models.JSONField()
    trusted = models.BooleanField(default=False)
    everywhere = models.BooleanField(
        default=False,
        db_default=False,
        help_text="An administrator lets these labels decide on trust in all arenas where the "
        "judge is not measured.",
    )
    made_at = models.DateTimeField(db_default=Now())

    objects = CalibrationQuerySet.as_manager()

    class Meta:
        constraints = [
            check(
                "calibration_against_a_set_or_an_arena",
                Q(label_set__isnull=False, arena=None) | Q(label_set=None, arena__isnull=False),
            ),
            check(
                "calibration_everywhere_is_on_labels",
                Q(everywhere=False) | Q(arena=None) & ~Q(kind="honeypots"),
            ),
            check("calibration_kind_known", Q(kind__in=["pairs", "scores", "honeypots"])),
        ]

    def __str__(self) -> str:
        return f"{self.epoch_id} at {self.made_at}"


class DriftCheckSet(models.Model):
    """A frozen set of labelled pairs that a judge is asked again and again, to detect changes.

    `cap` is what one check may cost, in nano-dollars.
    """

    judge = models.OneToOneField(Judge, models.CASCADE, related_name="canary")
    label_set = models.ForeignKey(LabelSet, models.PROTECT, related_name="canaries")
    cap = models.PositiveBigIntegerField()
    set_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "judges_canary"

    def __str__(self) -> str:
        return f"drift checks of {self.judge_id}"


class DriftCheck(models.Model):
    """One drift check. Its verdicts are the judgements with this `sample` number.

    `p` is McNemar's, comparing agreement with people at the baseline and in this check.
    """

    class Why(models.TextChoices):
        BASELINE = "baseline", "Baseline"
        CHANGED = "changed", "The server reports another model"
        WEEKLY = "weekly", "Weekly check"
        DAILY = "daily", "Daily sample"

    canary = models.ForeignKey(DriftCheckSet, models.CASCADE, related_name="checks")
    epoch = models.ForeignKey(Epoch, models.PROTECT, related_name="canary_checks")
    run = models.OneToOneField(Run, models.CASCADE, related_name="canary_check")
    sample = models.PositiveSmallIntegerField()
    why = models.CharField(max_length=10, choices=Why)
    n = models.PositiveIntegerField(default=0)
    only_before = models.PositiveIntegerField(default=0)
    only_now = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    p = models.FloatField(null=True, blank=True)
    alarm = models.BooleanField(default=False)
    begun_at = models.DateTimeField(db_default=Now())
    evaluated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "judges_canarycheck"
        constraints = [
            unique("canary_check_once_per_sample", "canary", "epoch", "sample"),
            check("canary_check_why_known", Q(why__in=["baseline", "changed", "weekly", "daily"])),
        ]

    def __str__(self) -> str:
        return f"{self.why} {self.begun_at}"
