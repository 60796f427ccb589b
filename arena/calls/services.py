"""Writes to the ledger of calls: created once, claimed by one worker at a time, ended once.

A worker may die at any line. What it claimed is free again when its lease expires; what it ended
stays ended. Every write after the claim is fenced by `attempts`, so a worker that comes back late
changes nothing.
"""

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from arena.calls.models import MAX_REQUESTS, Call
from arena.models import Run

BATCH = 500
MOST_RUNG = 500
RING_AGAIN = timedelta(seconds=30)
MOST_RINGS = 7
LONGEST_PAUSE = timedelta(minutes=30)
LONGEST_JITTER = 60.0
LONGEST_REPLY = 200_000
IN_A_ROW = 10
_jitter = secrets.SystemRandom()


# -- Creating --------------------------------------------------------------------------------------


@transaction.atomic
def create_calls(*, drafts: Sequence[Call]) -> dict[tuple[str, str, int], Call]:
    """Write `drafts`, keep those that are there already; return all of them by their identity."""
    Call.objects.bulk_create(drafts, batch_size=BATCH, ignore_conflicts=True)
    askers = {draft.asker for draft in drafts}
    subjects = [draft.subject for draft in drafts]
    found = Call.objects.filter(asker__in=askers, subject__in=subjects)
    return {(call.asker, call.subject, call.sample): call for call in found}


# -- Ringing ---------------------------------------------------------------------------------------


def calls_to_ring(*, now: datetime, at_most: int = MOST_RUNG) -> list[int]:
    """Return the calls whose doorbell is to be rung now, and note that it was.

    At most `at_most` are rung and waiting at any time, so the queue stays short. One that nobody
    answered is rung again after 30 s, a minute, two minutes ...: its message may be lost.
    """
    rung = Call.objects.in_progress().filter(
        state=Call.State.WAITING, ring_after__gt=now, rings__gt=0
    )
    room = at_most - rung.count()
    if room <= 0:
        return []
    wanted = Call.objects.claimable(now).filter(ring_after__lte=now)
    rows = list(wanted.order_by("due_at", "pk").values_list("pk", "rings")[:room])
    for rings in {rings for _, rings in rows}:
        pause = RING_AGAIN * 2 ** min(rings, MOST_RINGS)
        ids = [pk for pk, count in rows if count == rings]
        Call.objects.filter(pk__in=ids).update(ring_after=now + pause, rings=rings + 1)
    return [pk for pk, _ in rows]


# -- Making ----------------------------------------------------------------------------------------


def claim(*, call_id: int, lease: timedelta, now: datetime) -> Call | None:
    """Take a call for `lease`; None when it is not due, held by somebody, ended, or paused.

    A call that was begun as often as it may be, and whose worker died each time, ends as failed.
    """
    call = Call.objects.claimable(now).filter(pk=call_id).first()
    if call is None:
        return None
    if call.requests >= call.requests_allowed:
        finish(call=call, state=Call.State.FAILED, now=now, error=call.error or "The worker died.")
        return None
    # No join in this statement: two workers that meet here must both look at the row itself.
    taken = Call.objects.filter(pk=call_id, attempts=call.attempts, state=call.state).update(
        state=Call.State.RUNNING,
        attempts=F("attempts") + 1,
        requests=F("requests") + 1,
        lease_expires_at=now + lease,
        ring_after=now + lease,
    )
    return Call.objects.get(pk=call_id, attempts=call.attempts + 1) if taken else None


def finish(*, call: Call, state: str, now: datetime, **result: Any) -> bool:
    """End a call with its result, in one statement; False when the lease was lost meanwhile."""
    return _write(call, state=state, finished_at=now, lease_expires_at=None, **result)


def try_again(*, call: Call, error: str, now: datetime, retry_after: float | None = None) -> bool:
    """Put a call back until the server may be asked again; after the last try it has failed."""
    if call.requests >= call.requests_allowed:
        return finish(call=call, state=Call.State.FAILED, now=now, error=error)
    due_at = now + _pause(call, retry_after)
    return _write(
        call,
        state=Call.State.WAITING,
        error=error,
        lease_expires_at=None,
        due_at=due_at,
        ring_after=due_at,
        rings=0,
    )


def put_back(*, call: Call, error: str, now: datetime) -> bool:
    """Put a call back whose run is being paused: it is made when the run goes on."""
    return _write(
        call,
        state=Call.State.WAITING,
        error=error,
        lease_expires_at=None,
        due_at=now,
        ring_after=now,
        rings=0,
    )


def _write(call: Call, **values: Any) -> bool:
    going_on = [Call.State.WAITING, Call.State.RUNNING]
    held = Call.objects.filter(pk=call.pk, attempts=call.attempts, state__in=going_on)
    fitted = {name: storable(name, value) for name, value in values.items()}
    return bool(held.update(**fitted))


def storable(name: str, value: Any) -> Any:
    """Fit what a server said into its column: no NUL, no lone surrogate, not too long."""
    if not isinstance(value, str):
        return value
    length = getattr(Call._meta.get_field(name), "max_length", None) or LONGEST_REPLY
    return value.replace("\x00", "").encode("utf-8", "replace").decode()[:length]


def _pause(call: Call, retry_after: float | None) -> timedelta:
    """What the server asked for, else full jitter over a doubling span."""
    if retry_after is not None:
        return min(timedelta(seconds=retry_after), LONGEST_PAUSE)
    return timedelta(seconds=_jitter.uniform(0, min(LONGEST_JITTER, 2.0**call.requests)))


# -- Pausing ---------------------------------------------------------------------------------------


def pause_run(*, run_id: int, reason: str) -> bool:
    """Stop claiming calls of an open run; calls that are under way end as they will."""
    run = Run.objects.filter(pk=run_id, state=Run.State.OPEN)
    return bool(run.update(state=Run.State.PAUSED, pause_reason=reason[:300]))


def pause_if_failing(*, run_id: int) -> bool:
    """Pause a run whose last ten calls all failed."""
    ended = Call.objects.filter(run=run_id, finished_at__isnull=False).order_by("-finished_at")
    last = list(ended.values_list("state", "error")[:IN_A_ROW])
    if len(last) < IN_A_ROW or any(state != Call.State.FAILED for state, _ in last):
        return False
    return pause_run(
        run_id=run_id, reason=f"{IN_A_ROW} calls in a row failed. The last one: {last[0][1]}"
    )


@transaction.atomic
def resume_run(*, run_id: int, now: datetime) -> None:
    """Open a run again: what waits is due at once, and what failed may be tried as often again."""
    Run.objects.filter(pk=run_id).update(state=Run.State.OPEN, pause_reason="", closed_at=None)
    calls = Call.objects.filter(run=run_id)
    calls.filter(state=Call.State.FAILED).update(
        state=Call.State.WAITING,
        finished_at=None,
        requests_allowed=F("requests") + MAX_REQUESTS,
    )
    calls.filter(state=Call.State.WAITING).update(due_at=now, ring_after=now, rings=0)
