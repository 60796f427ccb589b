"""Adoption: a run takes over calls and judgements that a cancelled or resting run left waiting."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Min, Q, QuerySet

from arena.calls.models import Call
from arena.calls.runs import move_calls
from arena.models import Comparison, Run
from judges.models import Epoch, Judgement, JuryVerdict
from judges.models.judgements import JudgementQuerySet
from judges.services.planning import PlannedComparison

# How many calls a sweep takes over, of each way in which they may be waited for.
AT_MOST = 500
UNANSWERED = [*Call.GOING_ON, Call.State.FAILED]
FOR_JURIES = Q(
    jury_verdicts__state=JuryVerdict.State.WAITING, jury_verdicts__run__state=Run.State.OPEN
)
# The ways in which a judgement waits for a call: for one of its two, or for what that needs first.
WAYS = ("forward", "reverse", "forward__needs", "reverse__needs")


@transaction.atomic
def adopt(
    *,
    run: Run,
    epoch: Epoch,
    picks: Sequence[PlannedComparison],
    shares: Mapping[int, float],
    now: datetime,
) -> None:
    """Move waiting judgements of cancelled runs, with their comparisons and calls, to `run`.

    Answered calls are not paid again; failed ones are retried. A worker may be making one at this
    moment; its reply counts for `run`.
    """
    share_of = {pick.responses: shares[pick.pair.pk] for pick in picks}
    free = epoch.judgements.free().filter(sample=0, responses__in=share_of)
    found = list(free.select_related("comparison").select_for_update(of=("self",)))
    comparisons = [one.comparison for one in found if one.comparison is not None]
    for judgement, comparison in zip(found, comparisons, strict=True):
        comparison.run, comparison.issued_at = run, now
        comparison.draw_probability = share_of[judgement.responses]
    fields = ["run", "issued_at", "draw_probability"]
    Comparison.objects.bulk_update(comparisons, fields)
    ids = [judgement.pk for judgement in found]
    Judgement.objects.filter(pk__in=ids).update(run=run)
    _adopt_calls(run, ids, now)


def drop_other_words(*, epoch: Epoch, picks: Sequence[PlannedComparison], mark: str) -> None:
    """Delete judgements that cancelled runs left unsettled under other criteria: asked anew.

    What they cost stays in the ledger. A judgement under two sets of criteria would mean nothing.
    """
    free = epoch.judgements.free().filter(
        sample=0, responses__in=[pick.responses for pick in picks]
    )
    this = Q(forward__subject__endswith=mark) if mark else ~Q(forward__subject__contains="@")
    Comparison.objects.filter(judgement__in=free.exclude(this)).delete()


def adopt_verdicts(*, run: Run, jury: Epoch, picks: Sequence[PlannedComparison]) -> None:
    """Move what a jury never decided in cancelled runs, with its comparison, to `run`."""
    left = JuryVerdict.objects.filter(
        epoch=jury,
        responses__in=[pick.responses for pick in picks],
        state=JuryVerdict.State.WAITING,
        run__state=Run.State.CANCELLED,
    )
    ids = list(left.select_for_update(of=("self",)).values_list("pk", flat=True))
    JuryVerdict.objects.filter(pk__in=ids).update(run=run)
    Comparison.objects.filter(jury_verdict__in=ids).update(run=run)


def _adopt_calls(run: Run, judgements: Sequence[int], now: datetime) -> None:
    theirs = Q(forward_of__in=judgements) | Q(reverse_of__in=judgements)
    calls = Call.objects.filter(pk__in=Call.objects.filter(theirs).values("pk"))
    take_over(run=run, calls=calls, now=now)


def take_over(*, run: Run, calls: QuerySet[Call], now: datetime) -> None:
    """Move the unanswered ones of `calls`, and what they cost so far, to `run`.

    Calls of an open run stay there: it makes them anyway.
    """
    free = calls.filter(state__in=UNANSWERED).exclude(run__state=Run.State.OPEN)
    move_calls(call_ids=list(free.values_list("pk", flat=True)), run_id=run.pk, now=now)


def rescue_calls(*, now: datetime) -> None:
    """Move calls of paused or cancelled runs to the open runs that wait for them.

    Several runs may need the same score, grading note or jury member's verdict, and the one that
    ordered it may be paused or cancelled later.
    """
    waiting = Judgement.objects.waiting()
    own = _resting(waiting.filter(run__state=Run.State.OPEN), "run")
    of_juries = _resting(waiting.filter(FOR_JURIES), "jury_verdicts__run")
    # A run that waits for its own votes comes before one whose jury waits, and the oldest first.
    makers = {call_id: run_id for _, call_id, run_id in reversed([*own, *of_juries])}
    for run_id in set(makers.values()):
        calls = [call_id for call_id, maker in makers.items() if maker == run_id]
        move_calls(call_ids=calls, run_id=run_id, now=now)


def _resting(judgements: JudgementQuerySet, run: str) -> list[tuple[int, int, int]]:
    """Return (judgement, call, run to make it) for calls in demand that no open run makes.

    Queried from the judgements, one way at a time: starting from every call at rest, with an OR
    over the ways, the time grew with the product of the two.
    """
    found: list[tuple[int, int, int]] = []
    for way in WAYS:
        calls = judgements.filter(**{f"{way}__state__in": Call.GOING_ON})
        resting = calls.exclude(**{f"{way}__run__state": Run.State.OPEN}).values_list(way, run)
        rows = resting.annotate(first=Min("pk")).order_by("first")[:AT_MOST]
        found += [(first, call_id, run_id) for call_id, run_id, first in rows]
    return sorted(found)
