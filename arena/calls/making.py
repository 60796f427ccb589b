"""Making one call: claim, ask with no transaction open, write down what came of it."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from arena.calls import booking, capabilities, claiming, money, pacing, pausing
from arena.calls.endpoints import UnknownEndpoint, lease_of
from arena.calls.models import MAX_REQUESTS, Call
from arena.calls.planning import Asking, CannotAsk, NoPrice, Plan, Reading, plan_request
from arena.calls.providers.base import (
    ProviderError,
    Refused,
    Reply,
    Retryable,
    Stopped,
    TooLong,
    Unsupported,
)
from arena.calls.ringing import RING_AGAIN
from arena.calls.sent import digest_of
from arena.models import Run

__all__ = ["Asking", "CannotAsk", "CannotAskThis", "Reading", "make_call"]

UNTIL_SETTLED = timedelta(seconds=2)
DATABASE_AGAIN = 0.5
NO_USAGE = "The server named no tokens, so the most that this can have cost is booked."
BILLED_MORE = "The server billed more than the request can have cost, and the cap is passed."


class CannotAskThis(CannotAsk):
    """This one question cannot be put together; its call fails, and whoever asks goes on."""


class Lost(Exception):
    """Another worker has the call, or its lease is over: nothing was written."""


def make_call(*, call_id: int, asking: Asking, kind: str = Run.Kind.JUDGE) -> Call | None:
    """Make one call if it is due, and return it as it stands; None when it was not ours to make.

    Ours are those of runs of this kind: `asking` knows nothing of the others.

    While the model thinks, this thread holds neither a transaction nor a connection. A call that
    takes a second turn, or whose server turned a parameter down, is made again at once.
    """
    call = claiming.due_call(call_id=call_id, now=timezone.now(), kind=kind)
    try:
        while call is not None and not call.has_ended and _make_request(call, asking):
            pass
    except Lost:
        return None
    return call


def _make_request(call: Call, asking: Asking) -> bool:
    """Make one request of a call that waits, if it may; say whether another follows at once."""
    try:
        plan = plan_request(call, asking)
    except NoPrice as error:
        _stop_run(call, str(error))
        return False
    except CannotAskThis as error:
        _write(call, claiming.ended(Call.State.FAILED, str(error), timezone.now()))
        return False
    except (CannotAsk, UnknownEndpoint, Stopped) as error:
        _stop_asker(call, str(error))
        return False
    if not _take(call, plan):
        return False
    _give_connection_back()
    return _ask(call, plan, asking)


# -- Before ----------------------------------------------------------------------------------------


def _take(call: Call, plan: Plan) -> bool:
    """Take a turn of the endpoint's pace, the call, and the money; put the call off without."""
    now = timezone.now()
    later = pacing.take_turn(endpoint=plan.endpoint, tokens=plan.tokens, now=now)
    if later is not None:
        return _put_off(call, later)
    try:
        taken = claiming.claim(
            call=call, lease=lease_of(plan.endpoint), now=now, amount=plan.amount
        )
    except booking.Denied as denied:
        if denied.passes:
            return _put_off(call, now + UNTIL_SETTLED)
        _stop_run(call, str(denied))
        return False
    if not taken:
        raise Lost
    return True


def _put_off(call: Call, until: datetime) -> bool:
    _write(call, {"due_at": until, "ring_after": until, "rings": 0})
    return False


def _give_connection_back() -> None:
    """A pool has fewer connections than a worker has threads that wait for a model."""
    if not connection.in_atomic_block:  # only tests come here inside a transaction
        connection.close()


def _stop_asker(call: Call, reason: str) -> None:
    if call.run_id is None:
        _write(call, claiming.ended(Call.State.FAILED, reason, timezone.now()))
    else:
        pausing.pause_asker(run_id=call.run_id, asker=call.asker, reason=reason, now=timezone.now())


def _stop_run(call: Call, reason: str) -> None:
    if call.run_id is None:
        _write(call, claiming.ended(Call.State.FAILED, reason, timezone.now()))
    else:
        pausing.pause_run(run_id=call.run_id, reason=reason)


# -- Asking ----------------------------------------------------------------------------------------


def _ask(call: Call, plan: Plan, asking: Asking) -> bool:
    """Send the request, and write down what came of it; say whether another follows at once."""
    began = time.monotonic()
    try:
        reply = plan.provider.complete(plan.request)
    except ProviderError as error:
        failed, seconds = error, time.monotonic() - began
        return _surely(call, lambda: _take_error(call, plan, failed, seconds))
    seconds = time.monotonic() - began
    return _surely(call, lambda: _take_reply(call, plan, asking, reply, seconds))


def _surely(call: Call, write_down: Callable[[], bool]) -> bool:
    """Write down what was paid for, though the database may be away, until the lease is over.

    What a broken connection had written all the same is not written twice: the fence sees to it.
    """
    until = call.lease_expires_at
    assert until is not None, "it is claimed"
    while True:
        try:
            return write_down()
        except (OperationalError, InterfaceError):
            if connection.in_atomic_block or timezone.now() >= until:
                raise
            if call.state != Call.State.RUNNING:
                return False
        connection.close()
        time.sleep(DATABASE_AGAIN)


def _take_reply(call: Call, plan: Plan, asking: Asking, reply: Reply, seconds: float) -> bool:
    reading = asking.read(call, reply)
    facts = _facts(call, plan, reply, seconds)
    if reading.state == Call.State.UNREADABLE and call.turn == 0:
        call.reply = claiming.storable("reply", reply.text)
        if asking.repair(call) is not None:
            _begin_second_turn(call, plan, reply, reading, facts)
            return True
    _finish(call, plan, reading, reply, facts)
    return False


def _begin_second_turn(
    call: Call, plan: Plan, reply: Reply, reading: Reading, facts: dict[str, Any]
) -> None:
    """Keep the reply that was paid for; each turn may be tried as often as a call."""
    allowed = {"turn": 1, "requests_allowed": call.requests + MAX_REQUESTS}
    _write(call, facts | _at_once(reading.note) | allowed, cost=_cost(plan, reply))
    _after_payment(call, plan, reply)


def _at_once(note: str) -> dict[str, Any]:
    """The columns of a call that this worker goes on with; rung again in case it does not."""
    now = timezone.now()
    return claiming.waiting(note, now) | {"ring_after": now + RING_AGAIN, "rings": 1}


def _finish(
    call: Call, plan: Plan, reading: Reading, reply: Reply | None, facts: dict[str, Any]
) -> None:
    cost, note = _cost(plan, reply), reading.note
    if cost and not _has_usage(reply):
        note = f"{note} {NO_USAGE}".strip()
    ended = claiming.ended(reading.state, note, timezone.now()) | {"verdict": reading.verdict}
    _write(call, facts | ended, cost=cost)
    _after_payment(call, plan, reply)
    _mind_failure(call)


# -- Errors ----------------------------------------------------------------------------------------


def _take_error(call: Call, plan: Plan, error: ProviderError, seconds: float) -> bool:
    if isinstance(error, Unsupported) and capabilities.entry_of(error) not in plan.dropped:
        return _drop(call, error)
    if isinstance(error, Retryable):
        _try_again(call, plan, error)
    elif isinstance(error, Stopped):
        # The request was not answered: it must not count when the run goes on with another key.
        allowed = {"requests_allowed": call.requests_allowed + 1}
        _write(call, claiming.waiting(str(error), timezone.now()) | allowed)
        _stop_asker(call, str(error))
    else:
        reading = Reading(_state_of(call, error), note=str(error))
        _finish(call, plan, reading, error.reply, _facts(call, plan, error.reply, seconds))
    return False


def _drop(call: Call, error: Unsupported) -> bool:
    """Remember what the server does not take, and let the call go on without it."""
    capabilities.note_unsupported(endpoint=call.endpoint, model=call.model, error=error)
    counts = {
        "dropped": [*call.dropped, capabilities.entry_of(error)],
        "requests": call.requests - (not error.sent),
        "requests_allowed": call.requests_allowed + error.sent,
    }
    _write(call, counts | _at_once(""))
    return True


def _try_again(call: Call, plan: Plan, error: Retryable) -> None:
    """Put a call back until the server may be asked again; what was cut off may have cost."""
    now = timezone.now()
    fields = claiming.after_failure(call, str(error), now, error.retry_after)
    if error.maybe_billed:
        fields["cut_off_requests"] = call.cut_off_requests + 1
    _write(call, fields, uncertain=call.reserved if error.maybe_billed else 0)
    if error.retry_after:
        pause = min(timedelta(seconds=error.retry_after), claiming.LONGEST_PAUSE)
        pacing.hold(endpoint=plan.endpoint, until=now + pause)
    _mind_failure(call)


def _state_of(call: Call, error: ProviderError) -> str:
    """A first reply that cannot be read stays so where the second question is not taken."""
    if isinstance(error, Refused):
        return Call.State.REFUSED
    if call.turn:
        return Call.State.UNREADABLE
    return Call.State.TOO_LONG if isinstance(error, TooLong) else Call.State.FAILED


# -- Writing down ----------------------------------------------------------------------------------


def _write(call: Call, fields: dict[str, Any], cost: int = 0, uncertain: int = 0) -> None:
    if not claiming.write(call=call, now=timezone.now(), cost=cost, uncertain=uncertain, **fields):
        raise Lost


def _facts(call: Call, plan: Plan, reply: Reply | None, seconds: float) -> dict[str, Any]:
    """What was sent and what the server answered, as columns of the ledger."""
    facts: dict[str, Any] = {"dropped": plan.dropped, "seconds": (call.seconds or 0.0) + seconds}
    if call.turn == 0:
        facts["prompt_digest"] = digest_of(plan.request)
    if reply is None:
        return facts
    return facts | {
        "repair_reply" if call.turn else "reply": reply.text,
        "model_returned": reply.model,
        "fingerprint": reply.fingerprint,
        "tokens_in": _sum(call.tokens_in, reply.tokens_in),
        "tokens_out": _sum(call.tokens_out, reply.tokens_out),
    }


def _sum(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more


def _cost(plan: Plan, reply: Reply | None) -> int:
    return 0 if reply is None else money.billed(plan.rate, reply, plan.amount)


def _has_usage(reply: Reply | None) -> bool:
    return reply is not None and None not in (reply.tokens_in, reply.tokens_out)


def _after_payment(call: Call, plan: Plan, reply: Reply | None) -> None:
    """Correct the pace, and stop a run whose server bills more than it can have cost."""
    if reply is not None and _has_usage(reply):
        used = (reply.tokens_in or 0) + (reply.tokens_out or 0)
        pacing.give_back(endpoint=plan.endpoint, tokens=plan.tokens - used)
    if call.run_id and _cost(plan, reply) > plan.amount and booking.is_over_its_cap(call.run_id):
        pausing.pause_run(run_id=call.run_id, reason=BILLED_MORE)


def _mind_failure(call: Call) -> None:
    if call.run_id and call.state == Call.State.FAILED:
        pausing.pause_if_failing(run_id=call.run_id, asker=call.asker, now=timezone.now())
