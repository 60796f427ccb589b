"""Hands calls out to workers, and recovers what killed workers left behind.

A call is handed out to one worker at a time, and only shortly before it is made. An endpoint with a
limit per minute hands out no more than it can answer in a few seconds; the rest would only be told
to wait.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import islice, zip_longest

from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import Count, Exists, OuterRef, Value
from django.db.models.functions import Coalesce

from arena.calls import leases, runs
from arena.calls.models import Call, CallQuerySet, RunAsker
from arena.calls.runs import cancel_run
from arena.endpoints import Endpoint
from arena.models import Run

# A worker that has not begun a call by then may have died: somebody else may take it.
HANDED_OUT = timedelta(seconds=30)
PACED_AHEAD = timedelta(seconds=10)
PACED_AT_LEAST = 2
PACED_BY_TOKENS = 50
AT_MOST = 500  # recovered per sweep
_random = secrets.SystemRandom()


def endpoints_with_work(*, now: datetime) -> dict[str, int]:
    """Return how many calls nobody has taken are due, by the name of their endpoint."""
    waiting = _not_taken(now).order_by().values("endpoint").annotate(calls=Count("pk"))
    return dict(waiting.values_list("endpoint", "calls"))


@transaction.atomic
def take_calls(*, endpoint: str, at_most: int, now: datetime) -> list[tuple[int, str]]:
    """Take calls due at an endpoint, from its runs in turn; return (id, kind of run) of each.

    Nobody else is given them for 30 s.
    """
    at_most = max(0, min(at_most, _room_at(endpoint, now)))
    due = _not_taken(now).filter(endpoint=endpoint).order_by("due_at", "pk")
    free = due.select_for_update(skip_locked=True, of=("self",), no_key=True)
    with_kind = free.annotate(kind=Coalesce("run__kind", Value(Run.Kind.JUDGE.value)))
    groups = [
        with_kind.filter(run=run).values_list("pk", "kind")[:at_most] for run in _runs_at(endpoint)
    ]
    turns = (call for turn in zip_longest(*groups) for call in turn if call)
    taken = list(islice(turns, at_most))
    Call.objects.filter(pk__in=[pk for pk, _ in taken]).update(ring_after=now + HANDED_OUT)
    return taken


def _not_taken(now: datetime) -> CallQuerySet:
    return Call.objects.claimable(now).filter(ring_after__lte=now)


def _runs_at(endpoint: str) -> Sequence[int | None]:
    """None, for calls without a run, and the open runs that may have calls there, shuffled."""
    askers = RunAsker.objects.filter(run=OuterRef("pk"))
    runs = Run.objects.exclude(kind=Run.Kind.PERSON).filter(
        Exists(askers.filter(endpoint=endpoint, paused_at=None)) | ~Exists(askers),
        state=Run.State.OPEN,
    )
    ids = list(runs.values_list("pk", flat=True))
    return [None, *_random.sample(ids, len(ids))]


def calls_under_way(*, run: Run, now: datetime) -> dict[str, int]:
    """How many requests, of all runs, the endpoints of an unfinished run are answering, by name."""
    if run.state not in (Run.State.ORDERED, Run.State.OPEN):
        return {}
    endpoints = RunAsker.objects.filter(run=run).values("endpoint")
    calls = Call.objects.under_way(now).filter(endpoint__in=endpoints).order_by("endpoint")
    counted = calls.values("endpoint").annotate(calls=Count("pk"))
    return dict(counted.values_list("endpoint", "calls"))


def is_paced(endpoint: Endpoint) -> bool:
    """Whether the operator limited this endpoint's requests or tokens per minute."""
    return bool(endpoint.requests_per_minute or endpoint.tokens_per_minute)


def _room_at(name: str, now: datetime) -> int:
    """How many calls of an endpoint may be taken: those it answers soon, less those taken."""
    endpoint = settings.MODEL_ENDPOINTS.get(name)
    if endpoint is None or not is_paced(endpoint):
        return AT_MOST
    answered_soon = PACED_BY_TOKENS
    if endpoint.requests_per_minute:
        answered_soon = int(endpoint.requests_per_minute * PACED_AHEAD / timedelta(minutes=1))
    on_their_way = Call.objects.in_progress().filter(
        endpoint=name, state=Call.State.WAITING, ring_after__gt=now
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


def is_idle() -> bool:
    """Whether no run is under way and no call is left to be made: sweeps have nothing to do."""
    runs = Run.objects.exclude(kind=Run.Kind.PERSON)
    unfinished = runs.filter(state__in=[Run.State.ORDERED, Run.State.OPEN])
    return not (Call.objects.filter(state__in=Call.GOING_ON).exists() or unfinished.exists())


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
