"""Making one call: claim, ask with no transaction open, write down what came of it."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from arena.calls import services
from arena.calls.endpoints import UnknownEndpoint, endpoint_named, lease_of, provider_for
from arena.calls.models import Call
from arena.calls.providers.base import (
    Provider,
    Refused,
    Rejected,
    Reply,
    Request,
    Retryable,
    Stopped,
    TooLong,
)


@dataclass(frozen=True)
class Reading:
    """What a reply means: the state of its call, and the verdict where there is one."""

    state: str
    verdict: dict[str, Any] | None = None
    note: str = ""


Render = Callable[[Call], Request]
Read = Callable[[Call, Reply], Reading]


class CannotAsk(Exception):
    """The question itself cannot be put together; the run pauses with this reason."""


SHORT_LEASE = timedelta(minutes=1)


def make_call(*, call_id: int, render: Render, read: Read) -> Call | None:
    """Make one call if it is due, and return it as it stands; None when it was not ours to make.

    `render` puts the request together, `read` says what the reply means; both may use the
    database. While the model thinks, this thread holds neither a transaction nor a connection.
    """
    call = _claim(call_id)
    if call is None:
        return None
    try:
        request = render(call)
        provider = provider_for(endpoint_named(call.endpoint))
    except (CannotAsk, UnknownEndpoint, Stopped) as error:
        _stop(call, str(error))
        return _as_it_stands(call)
    _give_connection_back()
    _ask(call, provider, request, read)
    return _as_it_stands(call)


def _claim(call_id: int) -> Call | None:
    named = Call.objects.filter(pk=call_id).values_list("endpoint", flat=True).first()
    if named is None:
        return None
    try:
        lease = lease_of(endpoint_named(named))
    except UnknownEndpoint:
        lease = SHORT_LEASE
    return services.claim(call_id=call_id, lease=lease, now=timezone.now())


def _give_connection_back() -> None:
    """A pool has fewer connections than a worker has threads that wait for a model."""
    if not connection.in_atomic_block:  # only tests come here inside a transaction
        connection.close()


def _ask(call: Call, provider: Provider, request: Request, read: Read) -> None:
    began = time.monotonic()
    facts: dict[str, Any] = {"prompt_digest": digest_of(request)}
    try:
        reply = provider.complete(request)
    except Retryable as error:
        _try_again(call, error)
    except Stopped as error:
        _stop(call, str(error))
    except (Rejected, Refused, TooLong) as error:
        facts |= _billed(error.reply, began)
        _finish(call, Reading(_state_of(error), note=str(error)), facts)
    else:
        facts |= _billed(reply, began)
        _finish(call, read(call, reply), facts)


def _state_of(error: Exception) -> str:
    if isinstance(error, Refused):
        return Call.State.REFUSED
    return Call.State.TOO_LONG if isinstance(error, TooLong) else Call.State.FAILED


def _billed(reply: Reply | None, began: float) -> dict[str, Any]:
    """What the server answered and will bill, as columns of the ledger."""
    took = {"seconds": time.monotonic() - began}
    if reply is None:
        return took
    return took | {
        "reply": reply.text,
        "model_returned": reply.model,
        "fingerprint": reply.fingerprint,
        "tokens_in": reply.tokens_in,
        "tokens_out": reply.tokens_out,
    }


def _finish(call: Call, reading: Reading, facts: dict[str, Any]) -> None:
    services.finish(
        call=call,
        state=reading.state,
        verdict=reading.verdict,
        error=reading.note,
        now=timezone.now(),
        **facts,
    )
    _mind_failures(call)


def _try_again(call: Call, error: Retryable) -> None:
    services.try_again(
        call=call, error=str(error), now=timezone.now(), retry_after=error.retry_after
    )
    _mind_failures(call)


def _stop(call: Call, reason: str) -> None:
    services.put_back(call=call, error=reason, now=timezone.now())
    if call.run_id:
        services.pause_run(run_id=call.run_id, reason=reason)


def _mind_failures(call: Call) -> None:
    if call.run_id and Call.objects.filter(pk=call.pk, state=Call.State.FAILED).exists():
        services.pause_if_failing(run_id=call.run_id)


def _as_it_stands(call: Call) -> Call:
    return Call.objects.get(pk=call.pk)


def digest_of(request: Request) -> str:
    """Return the SHA-256 of everything that is sent."""
    messages = [[message.role, message.content] for message in request.messages]
    sent = json.dumps([request.model, messages, dict(request.parameters)], sort_keys=True)
    return hashlib.sha256(sent.encode("utf-8", "surrogatepass")).hexdigest()
