"""Hands calls out to a worker's threads, and recovers the calls of killed workers.

A message only names an endpoint, and wakes one thread. The thread makes calls of that endpoint
until none is due or other endpoints need the thread. While there are more calls and free slots, it
wakes another one. So a lost message delays calls only until the next sweep, and a slow endpoint
holds only its own slots.

A call is handed out to one worker at a time, and only shortly before it is made. An endpoint with a
limit per minute hands out no more than it can answer in a few seconds; the rest would only have to
wait.
"""

import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice, zip_longest
from threading import Event, Lock
from typing import Any

from celery.signals import worker_init, worker_shutting_down
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Value
from django.db.models.functions import Coalesce
from django.utils import timezone
from kombu.exceptions import OperationalError

from arena.calls import leases
from arena.calls.execution import execute_call
from arena.calls.models import Call, CallQuerySet, RunRequester
from arena.endpoints import all_endpoints
from arena.models import Run
from arena.services import runs

PACED_AHEAD = timedelta(seconds=10)
PACED_AT_LEAST = 2
PACED_BY_TOKENS = 50
AT_MOST = 500  # recovered per sweep
_random = secrets.SystemRandom()
stopping = Event()


class Slots:
    """The model calls that this worker may make at once, shared between endpoints.

    An endpoint uses at most as many as its operator set (`concurrency`), and never more than stay
    free (the dynamic threshold of Choudhury and Hahne, 1998, with alpha = 1): a single endpoint
    gets at most half of them, two get at most a third each.
    """

    def __init__(self, size: int = 16) -> None:
        self.size = size
        self._used: Counter[str] = Counter()
        self._lock = Lock()

    def used(self, endpoint: str) -> int:
        return self._used[endpoint]

    def has_room(self, endpoint: str) -> bool:
        return self._has_room(endpoint, _wanted_by(endpoint))

    def _has_room(self, endpoint: str, wanted: int) -> bool:
        return self._used[endpoint] < min(wanted, self.size - self._used.total())

    def take(self, endpoint: str) -> bool:
        # Read before the lock: whoever waits for a connection must not keep others from a slot,
        # who have one.
        wanted = _wanted_by(endpoint)
        with self._lock:
            granted = self._has_room(endpoint, wanted)
            self._used[endpoint] += granted
            return granted

    def release(self, endpoint: str) -> None:
        with self._lock:
            self._used[endpoint] -= 1


def _wanted_by(endpoint: str) -> int:
    config = all_endpoints().get(endpoint)
    return config.concurrency if config else 1  # calls of a removed endpoint fail at once


class CallBuffer:
    """Calls of one endpoint that this worker has taken but not begun."""

    def __init__(self) -> None:
        self._calls: deque[tuple[int, str]] = deque()
        self._kept_until = 0.0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._calls)

    def next_call(self, endpoint: str) -> tuple[int, str] | None:
        """Return the next call (id, kind of run), or None if none is due."""
        with self._lock:
            if time.monotonic() > self._kept_until:
                self._calls.clear()  # another worker may have taken them since
            if not self._calls:
                # Only a few at first, twice as many each time, so that other workers find some too.
                at_most = 2 * SLOTS.used(endpoint)
                self._kept_until = time.monotonic() + leases.HANDED_OUT.total_seconds()
                self._calls.extend(
                    take_calls(endpoint=endpoint, at_most=at_most, now=timezone.now())
                )
            return self._calls.popleft() if self._calls else None


SLOTS = Slots()
BUFFERS: defaultdict[str, CallBuffer] = defaultdict(CallBuffer)


def make_calls(*, endpoint: str, wake_another: Callable[[], object]) -> None:
    """Make calls of an endpoint one after another, while any is due and there is a slot."""
    buffer = BUFFERS[endpoint]
    while not stopping.is_set() and SLOTS.take(endpoint):
        try:
            taken = buffer.next_call(endpoint)
            if taken is None:
                return
            if len(buffer) and SLOTS.has_room(endpoint):
                with suppress(OperationalError):  # the next sweep wakes it
                    wake_another()
            call_id, kind = taken
            execute_call(call_id=call_id, handler=runs.HANDLERS[kind]().calls)
        finally:
            SLOTS.release(endpoint)


@worker_init.connect
def _size_slots(sender: Any, **kwargs: object) -> None:
    """Keep an eighth of a worker's threads for other tasks, such as sweeps."""
    SLOTS.size = sender.concurrency - max(1, sender.concurrency // 8)


@worker_shutting_down.connect
def _stop_workers(**kwargs: object) -> None:
    stopping.set()


def endpoints_with_work(*, now: datetime) -> dict[str, int]:
    """Return how many untaken calls are due, by the name of their endpoint."""
    waiting = _calls_not_taken(now).order_by().values("endpoint").annotate(calls=Count("pk"))
    return dict(waiting.values_list("endpoint", "calls"))


@transaction.atomic
def take_calls(*, endpoint: str, at_most: int, now: datetime) -> list[tuple[int, str]]:
    """Take calls due at an endpoint, from its runs in turn; return (id, kind of run) of each.

    No other worker gets them for 30 s.
    """
    at_most = max(0, min(at_most, _room_at_endpoint(endpoint, now)))
    due = _calls_not_taken(now).filter(endpoint=endpoint).order_by("due_at", "pk")
    free = due.select_for_update(skip_locked=True, of=("self",), no_key=True)
    with_kind = free.annotate(kind=Coalesce("run__kind", Value(Run.Kind.JUDGE.value)))
    groups = [
        with_kind.filter(run=run).values_list("pk", "kind")[:at_most]
        for run in _runs_with_calls_at(endpoint)
    ]
    turns = (call for turn in zip_longest(*groups) for call in turn if call)
    taken = list(islice(turns, at_most))
    Call.objects.filter(pk__in=[pk for pk, _ in taken]).update(
        enqueue_after=now + leases.HANDED_OUT
    )
    return taken


def _calls_not_taken(now: datetime) -> CallQuerySet:
    return Call.objects.claimable(now).filter(enqueue_after__lte=now)


def _runs_with_calls_at(endpoint: str) -> Sequence[int | None]:
    """None, for calls without a run, and the open runs that may have calls there, shuffled."""
    requesters = RunRequester.objects.filter(run=OuterRef("pk"))
    open_runs = Run.objects.of_calls().filter(
        Exists(requesters.filter(endpoint=endpoint, paused_at=None)) | ~Exists(requesters),
        state=Run.State.OPEN,
    )
    ids = list(open_runs.values_list("pk", flat=True))
    return [None, *_random.sample(ids, len(ids))]


def calls_under_way(*, run: Run, now: datetime) -> dict[str, int]:
    """How many requests, of all runs, the endpoints of an unfinished run are answering, by name."""
    if run.state not in (Run.State.ORDERED, Run.State.OPEN):
        return {}
    endpoints = RunRequester.objects.filter(run=run).values("endpoint")
    calls = Call.objects.under_way(now).filter(endpoint__in=endpoints).order_by("endpoint")
    counted = calls.values("endpoint").annotate(calls=Count("pk"))
    return dict(counted.values_list("endpoint", "calls"))


def _room_at_endpoint(name: str, now: datetime) -> int:
    """How many calls of an endpoint may be taken: as many as it can answer soon, minus those
    already taken."""
    endpoint = all_endpoints().get(name)
    if endpoint is None or not endpoint.is_paced:
        return AT_MOST
    answered_soon = PACED_BY_TOKENS
    if endpoint.requests_per_minute:
        answered_soon = int(endpoint.requests_per_minute * PACED_AHEAD / timedelta(minutes=1))
    on_their_way = Call.objects.in_progress().filter(
        endpoint=name, state=Call.State.WAITING, enqueue_after__gt=now
    )
    return max(answered_soon, PACED_AT_LEAST) - on_their_way.count()


def sweep(*, now: datetime) -> None:
    """Free abandoned calls, end calls that wait in vain, pause stuck runs.

    Calls of paused and cancelled runs are freed too, so that their reservations are released.
    """
    free_abandoned(now=now)
    # Calls that were under way when their run was cancelled, and then failed with retries left.
    runs.cancel_calls(Call.objects.filter(run__state=Run.State.CANCELLED), now)
    end_what_waits_in_vain(now=now)
    runs.pause_stuck_runs()


def is_idle() -> bool:
    """Whether no run is under way and no call is left to be made: sweeps have nothing to do."""
    unfinished = Run.objects.of_calls().filter(state__in=[Run.State.ORDERED, Run.State.OPEN])
    return not (Call.objects.filter(state__in=Call.GOING_ON).exists() or unfinished.exists())


def free_abandoned(*, now: datetime) -> int:
    """Free the calls whose lease has expired; return their number."""
    left = Call.objects.filter(state=Call.State.RUNNING, lease_expires_at__lte=now)
    calls = list(left.order_by("lease_expires_at")[:AT_MOST])
    return sum(leases.abandon(call=call, now=now) for call in calls)


def end_what_waits_in_vain(*, now: datetime) -> int:
    """End calls that depend on a call which had ended without a reply before they were written."""
    vain = Call.objects.filter(state=Call.State.WAITING, needs__state__in=leases.WITHOUT_REPLY)
    needed = [call.needs_id for call in vain.order_by("pk")[:AT_MOST] if call.needs_id]
    return leases.end_dependents(call_ids=needed, now=now)
