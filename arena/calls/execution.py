"""Makes a call: plans the request, claims the call and its money, sends it, records the reply."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone
from django.utils.crypto import salted_hmac

from arena.calls import capabilities, leases, money, paces
from arena.calls.capabilities import entry_of
from arena.calls.models import MAX_REQUESTS, Call
from arena.calls.prices import Rate, price_of
from arena.calls.providers.base import (
    EndpointStoppedError,
    Message,
    ModelRefusedError,
    Provider,
    ProviderError,
    Reply,
    Request,
    RetryableError,
    TooLongError,
    UnsupportedParameterError,
    digest_of,
)
from arena.endpoints import Endpoint, UnknownEndpointError, endpoint_named, lease_of, provider_for
from arena.services import runs

EMPTY_REPLY = "(no answer)"  # some servers take no turn without text


@dataclass(frozen=True)
class ReplyReading:
    """The state a reply gives its call, and the verdict if there is one."""

    state: str
    verdict: dict[str, Any] | None = None
    note: str = ""


class CallHandler(Protocol):
    """Builds requests and reads replies for calls of one `kind` of run. All may use the database.

    `render` builds the request or raises CannotAskError. `read` interprets the reply to turn
    `call.turn`. `repair` returns the message that asks for the verdict again after an unreadable
    `call.reply`, or None if there is no second turn. `settle` does what an ended call allows.
    """

    kind: str

    def render(self, call: Call) -> Request: ...

    def read(self, call: Call, reply: Reply) -> ReplyReading: ...

    def repair(self, call: Call) -> str | None: ...

    def settle(self, call: Call) -> None: ...


class CannotAskError(Exception):
    """The request cannot be built; the requester is paused with this reason."""


class NoPriceError(Exception):
    """The model has no price; the run is paused with this reason."""


@dataclass(frozen=True)
class PlannedRequest:
    """A request ready to send.

    `amount` is the most it can cost, in nano-dollars; `tokens` the most it can take from the
    endpoint's limit per minute; `dropped` the parameters that the model does not accept.
    """

    endpoint: Endpoint
    provider: Provider
    request: Request
    dropped: Sequence[str]
    rate: Rate
    amount: int
    tokens: int


def plan_request(call: Call, handler: CallHandler) -> PlannedRequest:
    """Build the next request of `call`.

    Raises CannotAskError, NoPriceError, UnknownEndpointError, or EndpointStoppedError if the
    endpoint's key is missing.
    """
    endpoint = endpoint_named(call.endpoint)
    provider = provider_for(endpoint)
    request = money.with_room(money.limited(_request_of_turn(call, handler)), call.room)
    rate = price_of(call.endpoint, call.model)
    if rate is None:
        raise NoPriceError(
            f"{call.model} at {call.endpoint} has no price. An administrator can set one"
            f" at /operators/models/, or with `manage.py price {call.endpoint} {call.model}"
            " --input USD --output USD` (per million tokens, 0 is allowed), then resume the run."
        )
    sent, dropped = _without_unsupported(call, request)
    if endpoint.idempotent:
        sent = replace(sent, idempotency_key=_idempotency_key(call, sent))
    return PlannedRequest(
        endpoint=endpoint,
        provider=provider,
        request=sent,
        dropped=dropped,
        rate=rate,
        amount=money.worst_cost(rate, request),
        tokens=money.expected_tokens_in(request) + money.most_out(request),
    )


def _request_of_turn(call: Call, handler: CallHandler) -> Request:
    """Render the request; the second turn adds the first reply and asks for nothing but the
    verdict.
    """
    request = handler.render(call)
    request = replace(request, stable=len(request.messages) - 1)
    if call.turn == 0:
        return request
    message = handler.repair(call)
    if message is None:
        raise CannotAskError("The first reply is unreadable, and this judge has no repair turn.")
    reply = Message("assistant", call.reply if call.reply.strip() else EMPTY_REPLY)
    return replace(request, messages=(*request.messages, reply, Message("user", message)))


def _idempotency_key(call: Call, request: Request) -> str:
    """Return the same key for a request that is repeated because its answer was lost.

    A request that was answered with an error gets a new key: the server may have stored the error.
    """
    answered = call.requests - call.cut_off_requests
    facts = [call.pk, call.nonce, call.turn, answered, digest_of(request)]
    return salted_hmac("arena.calls.idempotency", repr(facts), algorithm="sha256").hexdigest()


def _without_unsupported(call: Call, request: Request) -> tuple[Request, list[str]]:
    """Leave out parameters the model is known not to accept, or rejected earlier in this call."""
    known = capabilities.capability_of(call.endpoint, call.model)
    request, dropped = capabilities.fitted(request, known)
    request, _ = capabilities.without(request, call.dropped)
    return request, [*call.dropped, *(entry for entry in dropped if entry not in call.dropped)]


UNTIL_SETTLED = timedelta(seconds=2)
DATABASE_AGAIN = 0.5
NO_USAGE = "The server reported no token counts, so the highest possible cost is booked."
# A reply that reached its limit is asked for once more, with this many times the room.
MORE_ROOM = 4
WITHOUT_ROOM = {Call.State.UNREADABLE, Call.State.TOO_LONG}
NO_MORE_ROOM = "{} The server does not allow {} times as many: {}"
# Requests in a row without an answer: ten, and ten attempts within a quarter of an hour.
GIVEN_UP = 2 * paces.BROKEN_IN_A_ROW
NO_ANSWERS = (
    "{} has left {} requests in a row without an answer. The last one: {} Resume the run once the"
    " server answers again."
)
BILLED_MORE = "The server billed more than the request's maximum cost, so the cap is exceeded."


class CannotAskCallError(CannotAskError):
    """This one request cannot be built; its call fails, and the requester continues."""


class LeaseLostError(Exception):
    """Another worker holds the call, or the lease has expired; nothing was written."""


def execute_call(*, call_id: int, handler: CallHandler) -> Call | None:
    """Make one call if it is due, and settle it once it has ended.

    Returns the call in its new state, or None if it was not due, belonged to another worker, or to
    a kind of run that `handler` does not know. During the request this thread holds neither a
    transaction nor a connection. A second turn, or a retry without a rejected parameter, follows at
    once.
    """
    call = leases.due_call(call_id=call_id, now=timezone.now(), kind=handler.kind)
    try:
        while call is not None and not call.has_ended and _make_request(call, handler):
            pass
    except LeaseLostError:
        return None
    if call is not None and call.has_ended:
        handler.settle(call)
    return call


def _make_request(call: Call, handler: CallHandler) -> bool:
    """Make one request of a waiting call, if allowed; return whether another follows at once."""
    plan = _plan_or_stop(call, handler)
    if plan is None or not _claim_call(call, plan):
        return False
    give_connection_back()
    result: Reply | ProviderError
    began = time.monotonic()
    try:
        result = plan.provider.complete(plan.request)
    except ProviderError as error:
        result = error
    return record_outcome(call, plan, handler, result, time.monotonic() - began)


def _plan_or_stop(call: Call, handler: CallHandler) -> PlannedRequest | None:
    """Plan the request; if that is impossible, end the call, or pause the judge or run at fault."""
    try:
        return plan_request(call, handler)
    except NoPriceError as error:
        _stop_run(call, str(error))
    except CannotAskCallError as error:
        _write_call(call, leases.ended(Call.State.FAILED, str(error), timezone.now()))
    except (CannotAskError, UnknownEndpointError, EndpointStoppedError) as error:
        _stop_requester(call, str(error))
    return None


def _claim_call(call: Call, plan: PlannedRequest) -> bool:
    """Take a turn of the endpoint's limit, the call and its money; otherwise postpone the call."""
    now, lease = timezone.now(), lease_of(plan.endpoint)
    later = paces.take_turn(endpoint=plan.endpoint, tokens=plan.tokens, now=now)
    later = later or paces.may_try(endpoint=plan.endpoint, broken=call.broken, lease=lease, now=now)
    if later is not None:
        return _put_off_call(call, later)
    try:
        taken = leases.claim(call=call, lease=lease, now=now, amount=plan.amount)
    except money.BudgetDeniedError as denied:
        if denied.passes:
            return _put_off_call(call, now + UNTIL_SETTLED)
        _stop_run(call, str(denied))
        return False
    if not taken:
        raise LeaseLostError
    return True


def give_connection_back() -> None:
    """Free the connection: a worker has more threads waiting for models than connections."""
    if not connection.in_atomic_block:  # only tests call this inside a transaction
        connection.close()


def _put_off_call(call: Call, until: datetime) -> bool:
    _write_call(call, {"due_at": until, "enqueue_after": until})
    return False


def _stop_requester(call: Call, reason: str) -> None:
    if call.run_id is None:
        _write_call(call, leases.ended(Call.State.FAILED, reason, timezone.now()))
    else:
        runs.pause_requester(
            run_id=call.run_id, requester=call.requester, reason=reason, now=timezone.now()
        )


def _stop_run(call: Call, reason: str) -> None:
    if call.run_id is None:
        _write_call(call, leases.ended(Call.State.FAILED, reason, timezone.now()))
    else:
        runs.pause_run(run_id=call.run_id, reason=reason)


def record_outcome(
    call: Call,
    plan: PlannedRequest,
    handler: CallHandler,
    result: Reply | ProviderError,
    seconds: float,
) -> bool:
    """Record what was paid for, retrying until the lease expires while the database is down.

    The fence keeps a write that a broken connection had committed from happening twice. Returns
    whether another request follows at once.
    """
    until = call.lease_expires_at
    assert until is not None, "it is claimed"
    while True:
        try:
            if call.broken and not (isinstance(result, RetryableError) and result.is_broken):
                paces.note_answered(endpoint=plan.endpoint)
            if isinstance(result, ProviderError):
                return _record_error(call, plan, result, seconds)
            return _record_reply(call, plan, handler, result, seconds)
        except (OperationalError, InterfaceError):
            if connection.in_atomic_block or timezone.now() >= until:
                raise
            if call.state != Call.State.RUNNING:
                return False
        connection.close()
        time.sleep(DATABASE_AGAIN)


def _record_reply(
    call: Call, plan: PlannedRequest, handler: CallHandler, reply: Reply, seconds: float
) -> bool:
    reading = handler.read(call, reply)
    facts = _facts_of(call, plan, reply, seconds)
    limit = money.output_limit(plan.request)
    if reply.cut_off and limit and reading.state in WITHOUT_ROOM:
        reading = replace(reading, note=runs.CUT_OFF.format(limit))
        if call.room == 1:
            _ask_for_repair(call, plan, reply, reading, facts | {"room": MORE_ROOM})
            return True
    # A model that was still thinking has said nothing that could be asked for again.
    was_thinking = reply.cut_off and not reply.text.strip()
    if reading.state == Call.State.UNREADABLE and call.turn == 0 and not was_thinking:
        call.reply = leases.storable("reply", reply.text)
        if handler.repair(call) is not None:
            _ask_for_repair(call, plan, reply, reading, facts | {"turn": 1})
            return True
    _finish_call(call, plan, reading, reply, facts)
    return False


def _ask_for_repair(
    call: Call, plan: PlannedRequest, reply: Reply, reading: ReplyReading, facts: dict[str, Any]
) -> None:
    """Store the reply that was paid for; what is asked next has its own number of attempts."""
    allowed = {"requests_allowed": call.requests + MAX_REQUESTS}
    _write_call(call, facts | _due_now(reading.note) | allowed, cost=_cost_of(plan, reply))
    _settle_usage(call, plan, reply)


def _due_now(note: str) -> dict[str, Any]:
    """The columns of a call that this worker continues; it becomes due again if the worker dies."""
    now = timezone.now()
    return leases.waiting(note, now) | {"enqueue_after": now + leases.HANDED_OUT}


def _finish_call(
    call: Call,
    plan: PlannedRequest,
    reading: ReplyReading,
    reply: Reply | None,
    facts: dict[str, Any],
) -> None:
    cost, note = _cost_of(plan, reply), reading.note
    if cost and not _has_usage(reply):
        note = f"{note} {NO_USAGE}".strip()
    ended = leases.ended(reading.state, note, timezone.now()) | {"verdict": reading.verdict}
    _write_call(call, facts | ended, cost=cost)
    _settle_usage(call, plan, reply)
    _pause_if_failing(call)
    if call.run_id and call.state in WITHOUT_ROOM:
        runs.pause_if_cut_off(run_id=call.run_id, requester=call.requester, now=timezone.now())


def _record_error(call: Call, plan: PlannedRequest, error: ProviderError, seconds: float) -> bool:
    if isinstance(error, UnsupportedParameterError) and entry_of(error) not in plan.dropped:
        return _drop_parameter(call, error)
    if isinstance(error, RetryableError):
        _schedule_retry(call, plan, error)
    elif isinstance(error, EndpointStoppedError):
        # The request was not answered, so it must not count once the run resumes with another key.
        allowed = {"requests_allowed": call.requests_allowed + 1}
        _write_call(call, leases.waiting(str(error), timezone.now()) | allowed)
        _stop_requester(call, str(error))
    else:
        reading = ReplyReading(_state_after(call, error), note=_note_on(call, plan, error))
        _finish_call(call, plan, reading, error.reply, _facts_of(call, plan, error.reply, seconds))
    return False


def _drop_parameter(call: Call, error: UnsupportedParameterError) -> bool:
    """Remember the rejected parameter, and continue the call without it."""
    capabilities.note_unsupported(endpoint=call.endpoint, model=call.model, error=error)
    counts = {
        "dropped": [*call.dropped, entry_of(error)],
        "requests": call.requests - (not error.sent),
        "requests_allowed": call.requests_allowed + error.sent,
    }
    _write_call(call, counts | _due_now(""))
    return True


def _schedule_retry(call: Call, plan: PlannedRequest, error: RetryableError) -> None:
    """Postpone a call until the server may be asked again; it may have been billed."""
    now = timezone.now()
    fields = leases.after_failure(call, str(error), now, error.retry_after)
    if error.maybe_billed or error.in_progress:
        fields["cut_off_requests"] = call.cut_off_requests + 1
    _write_call(call, fields, uncertain=call.reserved if error.maybe_billed else 0)
    if error.retry_after:
        pause = min(timedelta(seconds=error.retry_after), leases.LONGEST_PAUSE)
        paces.hold(endpoint=plan.endpoint, until=now + pause)
    _pause_if_failing(call)
    if error.is_broken:
        broken = paces.note_broken(endpoint=plan.endpoint, now=now)
        if broken >= GIVEN_UP and call.run_id:
            _stop_requester(call, NO_ANSWERS.format(plan.endpoint.name, broken, error))


def _state_after(call: Call, error: ProviderError) -> str:
    """An unreadable first reply stays unreadable if the second turn fails."""
    if isinstance(error, ModelRefusedError):
        return Call.State.REFUSED
    if call.turn:
        return Call.State.UNREADABLE
    is_too_long = isinstance(error, TooLongError) or call.room > 1
    return Call.State.TOO_LONG if is_too_long else Call.State.FAILED


def _note_on(call: Call, plan: PlannedRequest, error: ProviderError) -> str:
    """Many models allow no more tokens than they were first asked for."""
    limit = money.output_limit(plan.request)
    if call.room == 1 or call.turn or not limit or isinstance(error, ModelRefusedError):
        return str(error)
    return NO_MORE_ROOM.format(runs.CUT_OFF.format(limit // call.room), call.room, error)


def _write_call(call: Call, fields: dict[str, Any], cost: int = 0, uncertain: int = 0) -> None:
    if not leases.write(call=call, now=timezone.now(), cost=cost, uncertain=uncertain, **fields):
        raise LeaseLostError


def _facts_of(
    call: Call, plan: PlannedRequest, reply: Reply | None, seconds: float
) -> dict[str, Any]:
    """What was sent and what the server answered, as columns."""
    facts: dict[str, Any] = {"dropped": plan.dropped, "seconds": (call.seconds or 0.0) + seconds}
    if call.turn == 0:
        facts["prompt_digest"] = digest_of(plan.request)
    if reply is None:
        return facts
    return facts | {
        "repair_reply" if call.turn else "reply": reply.text,
        "model_returned": reply.model,
        "fingerprint": reply.fingerprint,
        "tokens_in": _sum_of_known(call.tokens_in, reply.tokens_in),
        "tokens_out": _sum_of_known(call.tokens_out, reply.tokens_out),
    }


def _sum_of_known(before: int | None, more: int | None) -> int | None:
    return before if more is None else (before or 0) + more


def _cost_of(plan: PlannedRequest, reply: Reply | None) -> int:
    return 0 if reply is None else money.billed(plan.rate, reply, plan.amount)


def _has_usage(reply: Reply | None) -> bool:
    return reply is not None and None not in (reply.tokens_in, reply.tokens_out)


def _settle_usage(call: Call, plan: PlannedRequest, reply: Reply | None) -> None:
    """Return unused tokens to the limit; pause a run whose server billed more than possible."""
    if reply is not None and _has_usage(reply):
        used = (reply.tokens_in or 0) + (reply.tokens_out or 0)
        paces.give_back(endpoint=plan.endpoint, tokens=plan.tokens - used)
    if call.run_id and _cost_of(plan, reply) > plan.amount and money.is_over_its_cap(call.run_id):
        runs.pause_run(run_id=call.run_id, reason=BILLED_MORE)


def _pause_if_failing(call: Call) -> None:
    if call.run_id and call.state == Call.State.FAILED:
        runs.pause_if_failing(run_id=call.run_id, requester=call.requester, now=timezone.now())
