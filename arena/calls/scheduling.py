"""Selects the calls to queue, and recovers what killed workers left behind.

The queue stays short. An endpoint with a limit per minute gets no more calls than it can answer in
a few seconds; the rest would only be told to wait.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import F, Q

from arena.calls import leases, runs
from arena.calls.models import Call, CallQuerySet
from arena.calls.runs import cancel_run
from arena.endpoints import Endpoint
from arena.models import Run

MOST_RUNG = 500
RING_AGAIN = timedelta(seconds=30)
MOST_RINGS = 7
PACED_AHEAD = timedelta(seconds=10)
PACED_AT_LEAST = 2
PACED_BY_TOKENS = 50
AT_MOST = 500  # recovered per sweep
QueuedCall = tuple[int, int]  # a call's id, and how often it was queued while it waits


def calls_to_ring(
    *, now: datetime, kind: str = Run.Kind.JUDGE, at_most: int = MOST_RUNG
) -> list[int]:
    """Return the calls of runs of this kind to queue now, and record that they were queued.

    At most `at_most` are queued and waiting at any time. A call that nobody made is queued again
    after 30 s, a minute, two minutes ...: its message may be lost.
    """
    of_kind = _of(kind)
    queued = Call.objects.in_progress().filter(
        of_kind, state=Call.State.WAITING, ring_after__gt=now, rings__gt=0
    )
    room = at_most - queued.count()
    if room <= 0:
        return []
    calls = list(_due(now, room, of_kind))[:room]
    for rings in {rings for _, rings in calls}:
        pause = RING_AGAIN * 2 ** min(rings, MOST_RINGS)
        ids = [pk for pk, count in calls if count == rings]
        Call.objects.filter(pk__in=ids).update(ring_after=now + pause, rings=F("rings") + 1)
    return [pk for pk, _ in calls]


def _of(kind: str) -> Q:
    """Calls of runs of one kind; calls without a run are judges'."""
    of_kind = Q(run__kind=kind)
    return of_kind | Q(run=None) if kind == Run.Kind.JUDGE else of_kind


def _due(now: datetime, room: int, of_kind: Q) -> Iterator[QueuedCall]:
    """The calls due: of paced endpoints as many as they can take, of others all.

    Paced calls come first. They are few, and would starve behind thousands of others.
    """
    due = Call.objects.claimable(now).filter(of_kind, ring_after__lte=now).order_by("due_at", "pk")
    paced = [endpoint for endpoint in settings.MODEL_ENDPOINTS.values() if is_paced(endpoint)]
    for endpoint in paced:
        free = _room_at(endpoint, now)
        if free > 0:
            yield from _rows(due.filter(endpoint=endpoint.name), min(free, room))
    yield from _rows(due.exclude(endpoint__in=[endpoint.name for endpoint in paced]), room)


def _rows(due: CallQuerySet, room: int) -> list[QueuedCall]:
    return list(due.values_list("pk", "rings")[:room])


def is_paced(endpoint: Endpoint) -> bool:
    """Whether the operator limited this endpoint's requests or tokens per minute."""
    return bool(endpoint.requests_per_minute or endpoint.tokens_per_minute)


def _room_at(endpoint: Endpoint, now: datetime) -> int:
    """How many calls may be queued now: those it answers soon, less those queued already."""
    answered_soon = PACED_BY_TOKENS
    if endpoint.requests_per_minute:
        answered_soon = int(endpoint.requests_per_minute * PACED_AHEAD / timedelta(minutes=1))
    on_their_way = Call.objects.in_progress().filter(
        endpoint=endpoint.name, state=Call.State.WAITING, ring_after__gt=now
    )
    return max(answered_soon, PACED_AT_LEAST) - on_their_way.count()


# -- Recovery --------------------------------------------------------------------------------------


@contextmanager
def given_up_on_failure(*, run: Run, now: datetime) -> Iterator[None]:
    """Cancel `run` if the block fails in any way, so that a half-written run holds no money.

    If even that cannot be written, the sweep cancels it later.
    """
    try:
        yield
    except BaseException:  # Ctrl-C gives up, too
        with suppress(DatabaseError, InterfaceError):
            cancel_run(run_id=run.pk, now=now)
        raise


def sweep(*, now: datetime) -> None:
    """Free abandoned calls, end calls that wait in vain, pause stuck runs.

    Calls of paused and cancelled runs are freed too, so that their reservations are released.
    """
    free_abandoned(now=now)
    # Calls that were under way when their run was cancelled, and were then to be tried again.
    runs.cancel_calls(Call.objects.filter(run__state=Run.State.CANCELLED), now)
    end_what_waits_in_vain(now=now)
    runs.pause_stuck_runs()


def free_abandoned(*, now: datetime) -> int:
    """Free the calls whose lease has expired; return their number."""
    left = Call.objects.filter(state=Call.State.RUNNING, lease_expires_at__lte=now)
    calls = list(left.order_by("lease_expires_at")[:AT_MOST])
    return sum(leases.abandon(call=call, now=now) for call in calls)


def end_what_waits_in_vain(*, now: datetime) -> int:
    """End calls that need a call which ended without a reply before they were written."""
    vain = Call.objects.filter(state=Call.State.WAITING, needs__state__in=leases.WITHOUT_REPLY)
    needed = [call.needs_id for call in vain.order_by("pk")[:AT_MOST] if call.needs_id]
    return leases.end_dependents(call_ids=needed, now=now)
