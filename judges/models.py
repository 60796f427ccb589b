"""Judges, the runs they were ordered for, and what became of each comparison."""

from typing import Any

from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now

from arena.models import Call, Comparison, Rater, Run, Vote


class Judge(models.Model):
    """An LLM judge. Immutable: anything else that could change its verdicts is another judge.

    `digest` is the SHA-256 over everything here and the rubric's files; the name is for people.
    """

    class OrderPolicy(models.TextChoices):
        """What happens when a judge changes its mind as the order is swapped."""

        ABSTAIN = "abstain", "Abstain"

    class Protocol(models.TextChoices):
        PAIRWISE = "pairwise", "Pairwise"

    name = models.CharField(max_length=200, unique=True)
    endpoint = models.CharField(max_length=100)
    model = models.CharField(max_length=200)
    family = models.CharField(max_length=50)
    protocol = models.CharField(max_length=20, choices=Protocol)
    rubric = models.SlugField(max_length=60)
    parameters = models.JSONField(default=dict)
    order_policy = models.CharField(max_length=10, choices=OrderPolicy, default=OrderPolicy.ABSTAIN)
    digest = models.CharField(max_length=64, unique=True)
    rater = models.OneToOneField(Rater, models.PROTECT, related_name="judge")
    registered_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(protocol__in=["pairwise"]), name="judge_protocol_known"
            ),
            models.CheckConstraint(
                condition=Q(order_policy__in=["abstain"]), name="judge_order_policy_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Write a new judge; an edit of one that exists is refused."""
        if self.pk is not None:
            raise ValueError("A judge is immutable: register another one.")
        super().save(*args, **kwargs)

    @property
    def is_scripted(self) -> bool:
        """Is this the arithmetic stand-in, and not a real judge?"""
        return self.endpoint == "scripted"


class RunJudge(models.Model):
    """Which judge a run was ordered from."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="run_judges")
    judge = models.ForeignKey(Judge, models.PROTECT, related_name="run_judges")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "judge"], name="run_judge_once"),
        ]

    def __str__(self) -> str:
        return f"{self.judge_id} in run {self.run_id}"


LEFT_WAITING = Q(state="waiting", run__state=Run.State.CANCELLED)


class JudgementQuerySet(models.QuerySet["Judgement"]):
    def waiting(self) -> "JudgementQuerySet":
        return self.filter(state=Judgement.State.WAITING)

    def free(self) -> "JudgementQuerySet":
        """Waiting in a run that was cancelled: the next run may take them over."""
        return self.filter(LEFT_WAITING)

    def not_free(self) -> "JudgementQuerySet":
        return self.exclude(LEFT_WAITING)

    def ready(self) -> "JudgementQuerySet":
        """Waiting, though both calls have ended: whoever should have settled it was killed."""
        going_on = [Call.State.WAITING, Call.State.RUNNING]
        return (
            self.waiting().exclude(forward__state__in=going_on).exclude(reverse__state__in=going_on)
        )

    def of_run(self, run: Run) -> "JudgementQuerySet":
        """A run's judgements, those settled last first, with all that a page shows of them.

        `has_vote`: there is a vote that counts, so the comparison has a page.
        """
        votes = Vote.objects.live().filter(comparison=OuterRef("comparison"))
        return (
            self.filter(run=run)
            .annotate(has_vote=Exists(votes))
            .select_related(
                "forward",
                "reverse",
                "comparison__arena",
                "comparison__prompt",
                "comparison__left",
                "comparison__right",
            )
            .order_by(F("settled_at").desc(nulls_last=True), "pk")
        )


class Judgement(models.Model):
    """One comparison for one judge: asked in both orders, settled when both calls have ended.

    `forward` shows the comparison's left answer first, `reverse` its right one. `responses` names
    the two whatever their order, so a judge is never asked about the same two twice.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        VOTED = "voted", "Voted"
        ABSTAINED = "abstained", "Abstained"
        UNREADABLE = "unreadable", "Unreadable"
        REFUSED = "refused", "Refused"
        TOO_LONG = "too_long", "Too long"
        FAILED = "failed", "Failed"

    judge = models.ForeignKey(Judge, models.PROTECT, related_name="judgements")
    run = models.ForeignKey(Run, models.CASCADE, related_name="judgements")
    comparison = models.OneToOneField(Comparison, models.CASCADE, related_name="judgement")
    responses = models.CharField(max_length=50)
    forward = models.OneToOneField(Call, models.CASCADE, related_name="forward_of")
    reverse = models.OneToOneField(Call, models.CASCADE, related_name="reverse_of")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    settled_at = models.DateTimeField(null=True, blank=True)

    objects = JudgementQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["judge", "responses"], name="judgement_once_per_judge_and_responses"
            ),
            models.CheckConstraint(
                condition=~Q(forward=F("reverse")), name="judgement_of_two_calls"
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=[
                        "waiting",
                        "voted",
                        "abstained",
                        "unreadable",
                        "refused",
                        "too_long",
                        "failed",
                    ]
                ),
                name="judgement_state_known",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "state"], name="judgement_progress"),
        ]

    def __str__(self) -> str:
        return f"{self.responses}: {self.state}"
