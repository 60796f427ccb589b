"""Calibrations of judges, and drift checks."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.models import Arena, Run
from arena.models.constraints import check, unique
from judges.models.judges import Epoch, Judge
from judges.models.labels import LabelSet


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
