"""Taking over what a cancelled run left waiting: a judge is asked about the same two only once."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F, Q, QuerySet

from arena.calls.models import MAX_REQUESTS, Call
from arena.models import Comparison, Run
from judges.models import Epoch, Judgement
from judges.services.planning import Pick


@transaction.atomic
def adopt(
    *, run: Run, epoch: Epoch, picks: Sequence[Pick], shares: Mapping[int, float], now: datetime
) -> None:
    """Move waiting judgements of cancelled runs, with comparison and calls, to `run`.

    Calls that were answered are not paid again; those that failed are tried again. What a worker
    holds at this moment stays where it is booked, and is left to a later order.
    """
    share_of = {pick.responses: shares[pick.pair.pk] for pick in picks}
    running = Call.State.RUNNING
    free = (
        epoch.judgements.free()
        .filter(sample=0, responses__in=share_of)
        .exclude(Q(forward__state=running) | Q(reverse__state=running))
    )
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


def _adopt_calls(run: Run, judgements: Sequence[int], now: datetime) -> None:
    theirs = Q(forward_of__in=judgements) | Q(reverse_of__in=judgements)
    calls = Call.objects.filter(pk__in=Call.objects.filter(theirs).values("pk"))
    take_over(run=run, calls=calls, now=now)


def take_over(*, run: Run, calls: QuerySet[Call], now: datetime) -> None:
    """Have `run` make those of `calls` that are still to be made, or failed.

    What they have cost so far stays with the run that paid it.
    """
    calls.filter(state=Call.State.FAILED).update(
        state=Call.State.WAITING, finished_at=None, requests_allowed=F("requests") + MAX_REQUESTS
    )
    waiting = calls.filter(state=Call.State.WAITING)
    waiting.update(run=run, due_at=now, ring_after=now, rings=0)
