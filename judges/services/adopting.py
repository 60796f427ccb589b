"""Taking over what a cancelled run left waiting: a judge is asked about the same two only once."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F, Q

from arena.calls.models import MAX_REQUESTS, Call
from arena.models import Comparison, Run
from judges.models import Judge, Judgement
from judges.services.planning import Pick


@transaction.atomic
def adopt(
    *, run: Run, judge: Judge, picks: Sequence[Pick], shares: dict[int, float], now: datetime
) -> None:
    """Move waiting judgements of cancelled runs, with comparison and calls, to `run`.

    Calls that were answered come along and are not paid again; those that failed are tried again.
    """
    share_of = {pick.responses: shares[pick.pair.pk] for pick in picks}
    free = judge.judgements.free().filter(responses__in=share_of).select_related("comparison")
    found = list(free.select_for_update(of=("self",)))
    for judgement in found:
        comparison = judgement.comparison
        comparison.run, comparison.issued_at = run, now
        comparison.draw_probability = share_of[judgement.responses]
    fields = ["run", "issued_at", "draw_probability"]
    Comparison.objects.bulk_update([one.comparison for one in found], fields)
    ids = [judgement.pk for judgement in found]
    Judgement.objects.filter(pk__in=ids).update(run=run)
    _adopt_calls(run, ids, now)


def _adopt_calls(run: Run, judgements: Sequence[int], now: datetime) -> None:
    """A worker may hold one at this moment; what it brings counts for `run`."""
    theirs = Q(forward_of__in=judgements) | Q(reverse_of__in=judgements)
    calls = Call.objects.filter(pk__in=Call.objects.filter(theirs).values("pk"))
    calls.filter(state=Call.State.FAILED).update(
        state=Call.State.WAITING, finished_at=None, requests_allowed=F("requests") + MAX_REQUESTS
    )
    calls.filter(state=Call.State.WAITING).update(due_at=now, ring_after=now, rings=0)
    calls.update(run=run)
