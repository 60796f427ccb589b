"""How far a judge can be trusted: what it was measured at, and whether it has changed since."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.models import Arena, Run
from judges.models.judges import Epoch, Judge
from judges.models.labels import LabelSet

if TYPE_CHECKING:
    from arena.access import Actor


class CalibrationQuerySet(models.QuerySet["Calibration"]):
    def listed_for(self, actor: "Actor") -> "CalibrationQuerySet":
        """On labelled items, or in an arena that is listed for `actor`."""
        if actor.is_operator:
            return self.all()
        return self.filter(Q(arena=None) | Q(arena__in=Arena.objects.listed_for(actor)))


class Calibration(models.Model):
    """One measurement of a judge's epoch against people, or against traps. Never edited.

    `report` is what the page shows: the figures of judges.core.calibration as plain numbers.
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
    made_at = models.DateTimeField(db_default=Now())

    objects = CalibrationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(label_set__isnull=False, arena=None)
                | Q(label_set=None, arena__isnull=False),
                name="calibration_against_a_set_or_an_arena",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["pairs", "scores", "honeypots"]),
                name="calibration_kind_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.epoch_id} at {self.made_at}"


class Canary(models.Model):
    """A frozen set of labelled pairs that a judge is asked again, to hear whether it changed.

    `cap` is what one check may cost, in nano-dollars.
    """

    judge = models.OneToOneField(Judge, models.CASCADE, related_name="canary")
    label_set = models.ForeignKey(LabelSet, models.PROTECT, related_name="canaries")
    cap = models.PositiveBigIntegerField()
    set_at = models.DateTimeField(db_default=Now())
    stopped_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"canary of {self.judge_id}"


class CanaryCheck(models.Model):
    """One time the canary was asked. Its verdicts are the judgements of `sample`.

    `p` is McNemar's, of the verdicts that agree with people now and at the baseline.
    """

    class Why(models.TextChoices):
        BASELINE = "baseline", "The first time"
        CHANGED = "changed", "The server names another model"
        WEEKLY = "weekly", "A week has passed"
        DAILY = "daily", "The daily sample"

    canary = models.ForeignKey(Canary, models.CASCADE, related_name="checks")
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
        constraints = [
            models.UniqueConstraint(
                fields=["canary", "epoch", "sample"], name="canary_check_once_per_sample"
            ),
            models.CheckConstraint(
                condition=Q(why__in=["baseline", "changed", "weekly", "daily"]),
                name="canary_check_why_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.why} {self.begun_at}"
