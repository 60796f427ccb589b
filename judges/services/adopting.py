"""Taking over what a cancelled run left waiting: a judge is asked about the same two only once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from arena.calls.models import Call
from arena.calls.services import move_calls
from arena.models import Comparison, Run
from judges.models import Epoch, Judgement, JuryVerdict
from judges.services.planning import Pick

AT_MOST = 500
GOING_ON = [Call.State.WAITING, Call.State.RUNNING]
UNANSWERED = [*GOING_ON, Call.State.FAILED]
FOR_JURIES = Q(
    jury_verdicts__state=JuryVerdict.State.WAITING, jury_verdicts__run__state=Run.State.OPEN
)
FOR_OPEN_RUNS = Q(run__state=Run.State.OPEN) | FOR_JURIES


@transaction.atomic
def adopt(
    *, run: Run, epoch: Epoch, picks: Sequence[Pick], shares: Mapping[int, float], now: datetime
) -> None:
    """Move waiting judgements of cancelled runs, with comparison and calls, to `run`.

    Calls that were answered are not paid again; those that failed are tried again. A worker may
    hold one at this moment; what it brings counts for `run`.
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


def drop_other_words(*, epoch: Epoch, picks: Sequence[Pick], mark: str) -> None:
    """Forget what cancelled runs never settled under other criteria, so that it is asked anew.

    What was paid for it stays in the ledger; a judgement under two sets of words would mean
    nothing.
    """
    free = epoch.judgements.free().filter(
        sample=0, responses__in=[pick.responses for pick in picks]
    )
    this = Q(forward__subject__endswith=mark) if mark else ~Q(forward__subject__contains="@")
    Comparison.objects.filter(judgement__in=free.exclude(this)).delete()


def adopt_verdicts(*, run: Run, jury: Epoch, picks: Sequence[Pick]) -> None:
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
    """Have `run` make those of `calls` that have no answer yet, and count what they have cost.

    Nothing is taken from an open run, which makes it anyway.
    """
    free = calls.filter(state__in=UNANSWERED).exclude(run__state=Run.State.OPEN)
    move_calls(call_ids=list(free.values_list("pk", flat=True)), run_id=run.pk, now=now)


def rescue_calls(*, now: datetime) -> None:
    """Have open runs make what they wait for, where the run that was to make it came to rest.

    An answer's score, a grading note or a jury member's verdict may be wanted by several runs, and
    the one that ordered it may be paused or cancelled later.
    """
    resting = Call.objects.filter(state__in=GOING_ON).exclude(run__state=Run.State.OPEN)
    mine = Judgement.objects.waiting().filter(_of_call(OuterRef("pk")))
    wanted = Exists(mine.filter(FOR_OPEN_RUNS))
    for call_id in resting.filter(wanted).values_list("pk", flat=True)[:AT_MOST]:
        judgements = Judgement.objects.waiting().filter(_of_call(call_id))
        own = judgements.filter(run__state=Run.State.OPEN).values_list("run", flat=True)
        juries = judgements.filter(FOR_JURIES).values_list("jury_verdicts__run", flat=True)
        run_id = own.first() or juries.first()
        if run_id is not None:
            move_calls(call_ids=[call_id], run_id=run_id, now=now)


def _of_call(call: Any) -> Q:
    """Judgements that wait for a call, or for one that needs it first."""
    return Q(forward=call) | Q(reverse=call) | Q(forward__needs=call) | Q(reverse__needs=call)
