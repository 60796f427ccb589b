"""Taking over what a cancelled run left waiting: a judge is asked about the same two only once."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from arena.calls.models import Call
from arena.calls.services import move_calls
from arena.models import Comparison, Run
from judges.models import Epoch, Judgement, JuryVerdict
from judges.services.planning import Pick


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
    """Have `run` make those of `calls` that have no answer yet, and count what they have cost."""
    unanswered = [Call.State.WAITING, Call.State.RUNNING, Call.State.FAILED]
    ids = list(calls.filter(state__in=unanswered).values_list("pk", flat=True))
    move_calls(call_ids=ids, run_id=run.pk, now=now)
