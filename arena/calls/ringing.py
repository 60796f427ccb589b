"""Which calls' doorbells are rung, and when: the queue stays short, and no message is needed twice.

An endpoint with a limit per minute gets no more rings than it can answer in a few seconds: the
others would be told to wait, and asking costs too. How fast it is asked is shared by all runs;
whose doorbell is rung depends on what a run is for: judges' calls are made by judges, answers by
the arena.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q

from arena.calls.models import Call
from arena.calls.models.calls import CallQuerySet
from arena.conf.endpoints import Endpoint
from arena.models import Run

MOST_RUNG = 500
RING_AGAIN = timedelta(seconds=30)
MOST_RINGS = 7
PACED_AHEAD = timedelta(seconds=10)
PACED_AT_LEAST = 2
PACED_BY_TOKENS = 50
Ringing = tuple[int, int]  # a call's id, and how often it was rung since it waits


def calls_to_ring(
    *, now: datetime, kind: str = Run.Kind.JUDGE, at_most: int = MOST_RUNG
) -> list[int]:
    """Return the calls of runs of this kind whose doorbell is to be rung, and note that it was.

    At most `at_most` are rung and waiting at any time, so the queue stays short. One that nobody
    answered is rung again after 30 s, a minute, two minutes ...: its message may be lost.
    """
    theirs = _of(kind)
    rung = Call.objects.in_progress().filter(
        theirs, state=Call.State.WAITING, ring_after__gt=now, rings__gt=0
    )
    room = at_most - rung.count()
    if room <= 0:
        return []
    calls = list(_wanted(now, room, theirs))[:room]
    for rings in {rings for _, rings in calls}:
        pause = RING_AGAIN * 2 ** min(rings, MOST_RINGS)
        ids = [pk for pk, count in calls if count == rings]
        Call.objects.filter(pk__in=ids).update(ring_after=now + pause, rings=F("rings") + 1)
    return [pk for pk, _ in calls]


def _of(kind: str) -> Q:
    """Calls of runs of one kind; those of no run are judges'."""
    theirs = Q(run__kind=kind)
    return theirs | Q(run=None) if kind == Run.Kind.JUDGE else theirs


def _wanted(now: datetime, room: int, theirs: Q) -> Iterator[Ringing]:
    """The calls to ring: of paced endpoints as many as they can take, of the others all there is.

    What is paced goes first. It is little, and would starve behind thousands that are not.
    """
    due = Call.objects.claimable(now).filter(theirs, ring_after__lte=now).order_by("due_at", "pk")
    paced = [one for one in settings.MODEL_ENDPOINTS.values() if is_paced(one)]
    for endpoint in paced:
        free = _room_at(endpoint, now)
        if free > 0:
            yield from _rows(due.filter(endpoint=endpoint.name), min(free, room))
    yield from _rows(due.exclude(endpoint__in=[one.name for one in paced]), room)


def _rows(due: CallQuerySet, room: int) -> list[Ringing]:
    return list(due.values_list("pk", "rings")[:room])


def is_paced(endpoint: Endpoint) -> bool:
    """Has the operator limited how much this endpoint is asked per minute?"""
    return bool(endpoint.requests_per_minute or endpoint.tokens_per_minute)


def _room_at(endpoint: Endpoint, now: datetime) -> int:
    """How many calls may be rung now: what it answers soon, less those that are on their way."""
    soon = PACED_BY_TOKENS
    if endpoint.requests_per_minute:
        soon = int(endpoint.requests_per_minute * PACED_AHEAD / timedelta(minutes=1))
    on_their_way = Call.objects.in_progress().filter(
        endpoint=endpoint.name, state=Call.State.WAITING, ring_after__gt=now
    )
    return max(soon, PACED_AT_LEAST) - on_their_way.count()
