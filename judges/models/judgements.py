"""Judgements, jury verdicts, and people's feedback on reasoning."""

from django.conf import settings
from django.db import models
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Now, StrIndex, Substr

from arena import outcomes
from arena.models import Call, Comparison, Run
from arena.models.constraints import check, index, unique
from judges.models.judges import Epoch
from judges.models.labels import LabelItem, LabelSet


class RunJudge(models.Model):
    """A judge of a run, in one epoch; a jury is listed in addition to its members.

    `labels_in`: the labels that a run outside any arena is about. `own_family`: it judges answers
    of its own model family too. `hopeless_at`: it was paused because most of its first verdicts
    were useless; once resumed, it is not paused for that again.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="run_judges")
    epoch = models.ForeignKey(Epoch, models.PROTECT, related_name="run_judges")
    labels_in = models.ForeignKey(
        LabelSet, models.PROTECT, null=True, blank=True, related_name="run_judges"
    )
    own_family = models.BooleanField(default=False)
    hopeless_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            unique("run_judge_once", "run", "epoch"),
        ]

    def __str__(self) -> str:
        return f"{self.epoch_id} in run {self.run_id}"


class JudgementQuerySet(models.QuerySet["Judgement"]):
    def waiting(self) -> "JudgementQuerySet":
        return self.filter(state=Judgement.State.WAITING)

    def asked(self) -> "JudgementQuerySet":
        """All except cancelled ones: the judge need not be asked about these answers again."""
        return self.exclude(state=Judgement.State.CANCELLED)

    def settled(self) -> "JudgementQuerySet":
        return self.exclude(state__in=Judgement.UNSETTLED)

    def counted(self) -> "JudgementQuerySet":
        """What counts in figures over several runs: each verdict once, and what failed."""
        return self.filter(Q(casts_vote=True) | Q(state=Judgement.State.FAILED))

    def ready(self) -> "JudgementQuerySet":
        """Waiting although both calls have ended: copied, or their worker was killed."""
        written = self.waiting().exclude(run__state=Run.State.ORDERED)
        forward_ended = written.exclude(forward__state__in=Call.GOING_ON)
        return forward_ended.exclude(reverse__state__in=Call.GOING_ON)

    def further_calls(self) -> QuerySet[Call]:
        """The further calls of judges that are asked several times for one verdict."""
        several = self.filter(epoch__judge__readings__gt=1)
        calls = Call.objects.filter(
            requester__in=several.values("epoch__requester"), subject__contains="~"
        )
        of_same = several.filter(
            Q(forward__subject=OuterRef("first")) | Q(reverse__subject=OuterRef("first")),
            run=OuterRef("run"),
            sample=OuterRef("sample"),
            epoch__requester=OuterRef("requester"),
        )
        first = Substr("subject", 1, StrIndex("subject", Value("~")) - 1)
        return calls.annotate(first=first).filter(Exists(of_same))

    def with_texts(self) -> "JudgementQuerySet":
        """With everything needed to make or to show the calls, in one query."""
        return self.select_related(
            "epoch__judge",
            "item",
            "comparison__arena",
            "comparison__prompt",
            "comparison__left",
            "comparison__right",
            "comparison__left_response",
            "comparison__right_response",
        )


class Judgement(models.Model):
    """A judge's verdict on two answers, settled when both its calls have ended.

    Pairwise: `forward` shows the left answer first, `reverse` the right one. Direct assessment:
    `forward` scores the left answer, `reverse` the right one (for an item with one answer both are
    the same call), and a call serves every judgement about its answer. Listwise: `forward` shows a
    list of answers, `reverse` the reversed list, and the two calls serve all pairs of the list.

    It is about a comparison in an arena, or about a labelled item. `responses` names the answers
    regardless of their order, so that a run asks a judge about the same pair once per `sample`.
    Only sample 0 votes; the others measure consistency and drift. If several runs judge the same
    answers, the first verdict casts the vote and counts (`casts_vote`); the others are only shown.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        VOTED = "voted", "Done"
        ABSTAINED = "abstained", "Abstained"
        UNREADABLE = "unreadable", "Unreadable"
        REFUSED = "refused", "Refused"
        TOO_LONG = "too_long", "Too long"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    UNSETTLED = (State.WAITING, State.CANCELLED)
    UNDECIDED = (
        State.ABSTAINED,
        State.UNREADABLE,
        State.REFUSED,
        State.TOO_LONG,
        State.FAILED,
    )

    epoch = models.ForeignKey(Epoch, models.PROTECT, related_name="judgements")
    run = models.ForeignKey(Run, models.CASCADE, related_name="judgements")
    comparison = models.OneToOneField(
        Comparison, models.CASCADE, null=True, blank=True, related_name="judgement"
    )
    item = models.ForeignKey(
        LabelItem, models.CASCADE, null=True, blank=True, related_name="judgements"
    )
    sample = models.PositiveSmallIntegerField(default=0)
    responses = models.CharField(max_length=60)
    forward = models.ForeignKey(Call, models.CASCADE, related_name="forward_of")
    reverse = models.ForeignKey(Call, models.CASCADE, related_name="reverse_of")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    outcome = models.CharField(max_length=10, choices=outcomes.choices, blank=True)
    preference = models.FloatField(
        null=True, blank=True, help_text="A soft verdict: 1 is the left answer, 0 the right one."
    )
    score = models.FloatField(
        null=True, blank=True, help_text="For items with one answer: the score it was given."
    )
    flipped = models.BooleanField(
        null=True, blank=True, help_text="Did the verdict change with the order of the answers?"
    )
    flagged = models.BooleanField(
        default=False, help_text="An answer seems to address the judge, so people should check."
    )
    casts_vote = models.BooleanField(
        default=False,
        db_default=False,
        help_text="The judge's first verdict on these answers: the only one that votes and counts.",
    )
    settled_at = models.DateTimeField(null=True, blank=True)

    objects = JudgementQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("judgement_once_per_run", "epoch", "responses", "sample", "run"),
            unique(
                "judgement_votes_once", "epoch", "responses", "sample", where=Q(casts_vote=True)
            ),
            check(
                "judgement_of_a_comparison_or_an_item",
                Q(comparison__isnull=False, item=None) | Q(comparison=None, item__isnull=False),
            ),
            check(
                "judgement_state_known",
                Q(
                    state__in=[
                        "waiting",
                        "voted",
                        "abstained",
                        "unreadable",
                        "refused",
                        "too_long",
                        "failed",
                        "cancelled",
                    ]
                ),
            ),
            check("judgement_outcome_known", Q(outcome__in=["", "left", "right", "tie"])),
            check(
                "judgement_preference_is_a_share",
                Q(preference=None) | Q(preference__gte=0, preference__lte=1),
            ),
        ]
        indexes = [
            index("judgement_progress", "run", "state"),
        ]

    def __str__(self) -> str:
        return f"{self.responses}: {self.state}"


class JuryVerdict(models.Model):
    """A jury's decision on one pair: a vote of its own, or none.

    `counts` maps each outcome to the number of members with that verdict. `casts_vote` as in
    Judgement.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        VOTED = "voted", "Done"
        NO_QUORUM = "no_quorum", "Too few verdicts"
        NO_MAJORITY = "no_majority", "No majority"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    UNSETTLED = (State.WAITING, State.CANCELLED)

    epoch = models.ForeignKey(Epoch, models.PROTECT, related_name="jury_verdicts")
    run = models.ForeignKey(Run, models.CASCADE, related_name="jury_verdicts")
    comparison = models.OneToOneField(Comparison, models.CASCADE, related_name="jury_verdict")
    responses = models.CharField(max_length=60)
    judgements = models.ManyToManyField(Judgement, related_name="jury_verdicts")
    state = models.CharField(max_length=12, choices=State, default=State.WAITING)
    counts = models.JSONField(default=dict)
    outcome = models.CharField(
        max_length=10,
        choices=outcomes.choices,
        blank=True,
        default="",
        db_default="",
        help_text="Only for a jury that weighs its members; otherwise, most members decide.",
    )
    casts_vote = models.BooleanField(default=False, db_default=False)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            unique("jury_verdict_once_per_run", "epoch", "responses", "run"),
            unique("jury_verdict_votes_once", "epoch", "responses", where=Q(casts_vote=True)),
            check(
                "jury_verdict_state_known",
                Q(
                    state__in=[
                        "waiting",
                        "voted",
                        "no_quorum",
                        "no_majority",
                        "failed",
                        "cancelled",
                    ]
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.responses}: {self.state}"


class Mark(models.Model):
    """A person's feedback on a judge's reasoning: whether one statement about it `holds`."""

    class Kind(models.TextChoices):
        COHERENT = "coherent", "Consistent: the verdict follows from the reasoning"
        SUITABLE = "suitable", "Specific: it discusses these answers and the criteria"
        CRITICAL = "critical", "Critical: it names weaknesses, not only strengths"

    judgement = models.ForeignKey(Judgement, models.CASCADE, related_name="marks")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=Kind)
    holds = models.BooleanField()
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("mark_once_per_person_and_kind", "judgement", "user", "kind"),
            check("mark_kind_known", Q(kind__in=["coherent", "suitable", "critical"])),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.holds}"
