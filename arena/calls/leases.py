"""Leases: one worker at a time claims a call, and its result is written under a fence.

A worker may die at any line. Its claims are free again when their leases expire; ended calls stay
ended. Every write after the claim is fenced by `attempts` and state, so a worker that returns late
changes neither the call nor any money.

Several runs may have the same call. The first claim decides which run makes it, and a unique index
allows no second one. The others wait until that run's lease ends at the latest, then copy the reply
or make the call themselves.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction

from arena.calls import money
from arena.calls.models import MAX_REQUESTS, Call
from arena.db import sql
from arena.models import Run

# A worker that has not begun a call by then may have died: somebody else may take it.
HANDED_OUT = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=30)
LONGEST_JITTER = 60.0
LONGEST_REPLY = 200_000
DIED = "The worker died."
WITHOUT_REPLY = {
    Call.State.UNREADABLE,
    Call.State.REFUSED,
    Call.State.TOO_LONG,
    Call.State.FAILED,
}
_jitter = secrets.SystemRandom()
# One of Call.objects.claimable(); composing it with the ORM takes half of a worker's time.
DUE = """
    SELECT c.*, EXISTS (
        SELECT 1 FROM arena_call o
        WHERE o.requester = c.requester AND o.subject = c.subject AND o.sample = c.sample
            AND o.id <> c.id
    ) AS is_shared, coalesce(e.broken, 0) AS broken
    FROM arena_call c
    LEFT JOIN arena_run r ON r.id = c.run_id
    LEFT JOIN arena_call n ON n.id = c.needs_id
    LEFT JOIN arena_endpointpace e ON e.endpoint = c.endpoint
    WHERE c.id = %s AND coalesce(r.kind, 'judge') = %s
        AND (c.state = 'waiting' AND c.due_at <= %s
            OR c.state = 'running' AND c.lease_expires_at <= %s)
        AND (c.run_id IS NULL OR r.state = 'open')
        AND (c.needs_id IS NULL OR n.state = 'done')
        AND NOT EXISTS (
            SELECT 1 FROM arena_runrequester a
            WHERE a.run_id = c.run_id AND a.requester = c.requester AND a.paused_at IS NOT NULL)
"""

COLUMNS = {field.name: field for field in Call._meta.concrete_fields}
# The columns of a claim or an end: few distinct statements, which PostgreSQL plans once. They
# return whether another run is waiting with the same call.
UPDATE = """
    UPDATE arena_call SET {} WHERE id = %s AND attempts = %s AND state = %s {}
    RETURNING EXISTS (
        SELECT 1 FROM arena_call o
        WHERE o.requester = arena_call.requester AND o.subject = arena_call.subject
            AND o.sample = arena_call.sample AND o.id <> arena_call.id AND o.state = 'waiting')
"""
# No other run is making, or has made, the same call.
NOBODY_ELSE = """
    AND NOT EXISTS (
        SELECT 1 FROM arena_call o
        WHERE o.requester = %s AND o.subject = %s AND o.sample = %s AND o.id <> %s AND NOT o.copied
            AND o.state IN ('running', 'done', 'unreadable', 'refused', 'too_long'))
"""
# Whether the other run's call is still in progress. On PostgreSQL, the lock puts this check before
# or after the end of that call, so that its end misses no call that waits for it.
STILL_ASKED = """
    AND EXISTS (SELECT 1 FROM arena_call o WHERE o.id = %s AND o.state = 'running' {})
"""
MAKE_DUE = """
    UPDATE arena_call SET due_at = %s, enqueue_after = %s
    WHERE requester = %s AND subject = %s AND sample = %s AND id <> %s
        AND state = 'waiting' AND enqueue_after > %s
    RETURNING id
"""
FIRST_TURN = ("reply", "nonce", "turn", "prompt_digest", "dropped", "model_returned", "fingerprint")
WHOLE_REPLY = (*FIRST_TURN, "repair_reply", "verdict", "state", "error")


def due_call(*, call_id: int, now: datetime, kind: str = Run.Kind.JUDGE) -> Call | None:
    """Return the call if it may be made now, else None.

    Calls of runs of another kind are not returned; a call without a run is a judge's. A request
    whose worker died is booked as uncertain first; after too many the call is returned as failed.
    A call that another run has made is returned as ended, with a copy of the reply.
    """
    at = sql.stored(now)
    call = next(iter(Call.objects.raw(DUE, [call_id, str(kind), at, at])), None)
    if call is None or (call.state == Call.State.RUNNING and not abandon(call=call, now=now)):
        return None
    if call.is_shared and call.state == Call.State.WAITING:
        return call if _learn_from_other_runs(call, now) else None
    return call


def _learn_from_other_runs(call: Call, now: datetime) -> bool:
    """Copy the reply to the same call of another run; False while that call is in progress."""
    same = Call.objects.filter(requester=call.requester, subject=call.subject, sample=call.sample)
    others = list(same.exclude(pk=call.pk).order_by("copied", "pk"))
    for other in others:
        if other.state in Call.ANSWERED:
            return write(call=call, now=now, **copy_of(other, now))
    for other in others:
        if other.state == Call.State.RUNNING:
            assert other.lease_expires_at is not None, "it is claimed"
            until = other.lease_expires_at
            if until > now:
                if not _wait_for_other_call(other, call, until):  # it has ended meanwhile
                    write(call=call, now=now, due_at=now, enqueue_after=now)
                return False
            abandon(call=other, now=now)  # uncertain in the run that made it
    begun = next((other for other in others if other.turn > call.turn), None)
    if begun is not None:
        copies = {name: getattr(begun, name) for name in FIRST_TURN}
        return write(call=call, now=now, requests_allowed=call.requests + MAX_REQUESTS, **copies)
    return True


def _wait_for_other_call(other: Call, call: Call, until: datetime) -> bool:
    """Postpone `call` until `other` ends or its lease does; return False if it has ended."""
    lock = "FOR SHARE" if connection.features.has_select_for_update else ""
    postponed = {"due_at": until, "enqueue_after": until}
    waits, _ = _update_call(call, postponed, STILL_ASKED.format(lock), other.pk)
    return waits


def copy_of(answered: Call, now: datetime) -> dict[str, Any]:
    """The columns of a call that ends with a copied reply; money and usage stay in the other
    run."""
    copies = {name: getattr(answered, name) for name in WHOLE_REPLY}
    at = max(now, answered.finished_at or now)  # `now` may be from before the reply
    return ended(answered.state, answered.error, at) | copies | {"copied": True}


def claim(*, call: Call, lease: timedelta, now: datetime, amount: int = 0) -> bool:
    """Claim a waiting call for `lease` and reserve `amount` nano-dollars of its run's cap.

    Returns False if another worker was faster, on this call or on the same call of another run.
    Raises BudgetDeniedError if the cap has no room, and then nothing is claimed.
    """
    values = {
        "state": Call.State.RUNNING,
        "attempts": call.attempts + 1,
        "requests": call.requests + 1,
        "reserved": amount,
        "lease_expires_at": now + lease,
        "enqueue_after": now + lease,
    }
    identity = (call.requester, call.subject, call.sample, call.pk)
    try:
        with _in_one_transaction_if_several(amount or connection.in_atomic_block):
            is_taken, _ = _update_call(call, values, NOBODY_ELSE, *identity)
            if not is_taken:
                return False
            if amount:
                money.reserve(run_id=call.run_id, amount=amount)
    except IntegrityError:  # another run's call was claimed at the same moment
        return False
    assign(call, values)
    return True


def abandon(*, call: Call, now: datetime) -> bool:
    """Free a call whose lease has expired, booking the cost of its request as uncertain.

    The call fails if it has used all its requests. Returns False if another process has freed it.
    """
    fields: dict[str, Any] = {"cut_off_requests": call.cut_off_requests + 1}
    if call.requests >= call.requests_allowed:
        fields |= ended(Call.State.FAILED, call.error or DIED, now)
    else:
        fields |= waiting(call.error, now)
    return write(call=call, now=now, uncertain=call.reserved, **fields)


def ended(state: str, error: str, now: datetime) -> dict[str, Any]:
    """The columns of a call that has ended."""
    return {"state": state, "error": error, "finished_at": now, "lease_expires_at": None}


def waiting(error: str, due_at: datetime) -> dict[str, Any]:
    """The columns of a call that waits until `due_at`."""
    return {
        "state": Call.State.WAITING,
        "error": error,
        "lease_expires_at": None,
        "due_at": due_at,
        "enqueue_after": due_at,
    }


def after_failure(call: Call, error: str, now: datetime, retry_after: float | None) -> Any:
    """The columns of a call whose request failed: waiting for the next try, or failed."""
    if call.requests >= call.requests_allowed:
        return ended(Call.State.FAILED, error, now)
    return waiting(error, now + _pause_before_retry(call, retry_after))


def write(*, call: Call, now: datetime, cost: int = 0, uncertain: int = 0, **values: Any) -> bool:
    """Write to a claimed call and book the money of its request in the same transaction.

    The reservation is released; `cost` was billed, `uncertain` may have been (nano-dollars). Calls
    that need this one end with it, unless it is done; other runs' same calls become due. Returns
    False, with nothing changed, if the call is no longer this worker's.
    """
    was_running = call.state == Call.State.RUNNING
    fitted = {name: storable(name, value) for name, value in values.items()}
    fitted |= {"reserved": 0, "cost": call.cost + cost, "uncertain": call.uncertain + uncertain}
    moves = call.reserved or cost or uncertain
    unmet = fitted.get("state") in WITHOUT_REPLY
    with _in_one_transaction_if_several(moves or unmet):
        is_written, others_wait = _update_call(call, fitted)
        if not is_written:
            return False
        if moves:
            money.book(run_id=call.run_id, released=call.reserved, cost=cost, uncertain=uncertain)
        if unmet:
            end_dependents(call_ids=[call.pk], now=now)
    assign(call, fitted)
    if was_running and others_wait:
        # A statement of its own, so that no two workers wait for each other's rows. If it is lost,
        # the others wait until the lease that they have seen ends.
        sql.rows(MAKE_DUE, now, now, call.requester, call.subject, call.sample, call.pk, now)
    return True


def end_dependents(*, call_ids: Sequence[int], now: datetime) -> int:
    """End calls that wait, directly or not, for calls that ended without a reply.

    They end in the same state, with an explanation. Returns their number.
    """
    count, ids = 0, list(call_ids)
    while ids:
        needing = Call.objects.filter(needs__in=ids, state=Call.State.WAITING)
        waiting_now = list(needing.select_related("needs"))
        for call in waiting_now:
            assert call.needs is not None, "found by what it needs"
            why = f"The call that it depends on ended as {call.needs.state}: {call.needs.error}"
            fields = ended(call.needs.state, storable("error", why), now)
            Call.objects.filter(pk=call.pk, state=Call.State.WAITING).update(**fields)
        ids = [call.pk for call in waiting_now]
        count += len(ids)
    return count


def storable(name: str, value: Any) -> Any:
    """Make a server's text fit its column: no NUL, no lone surrogate, not too long."""
    if not isinstance(value, str):
        return value
    length = getattr(Call._meta.get_field(name), "max_length", None) or LONGEST_REPLY
    return value.replace("\x00", "").encode("utf-8", "replace").decode()[:length]


def _update_call(
    call: Call, values: Mapping[str, Any], also: str = "", *given: Any
) -> tuple[bool, bool]:
    """Update the row of a claimed call; return whether it was found, and if other runs wait."""
    columns = ", ".join(f"{name} = %s" for name in values)
    stored = [COLUMNS[name].get_db_prep_save(value, connection) for name, value in values.items()]
    fence = (call.pk, call.attempts, call.state)
    row = sql.one(UPDATE.format(columns, also), *stored, *fence, *given)
    return row is not None, bool(row and row[0])


def _in_one_transaction_if_several(several: object) -> AbstractContextManager[object]:
    """A transaction for several statements; a single one needs none."""
    return transaction.atomic() if several else nullcontext()


def assign(call: Call, values: Mapping[str, Any]) -> None:
    """Set on the instance what was written to its row."""
    for name, value in values.items():
        setattr(call, name, value)


def _pause_before_retry(call: Call, retry_after: float | None) -> timedelta:
    """The server's Retry-After, or exponential backoff with full jitter."""
    if retry_after is not None:
        return min(timedelta(seconds=retry_after), LONGEST_PAUSE)
    return timedelta(seconds=_jitter.uniform(0, min(LONGEST_JITTER, 2.0**call.requests)))
