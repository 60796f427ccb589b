"""What a call is going to send, to whom, and what that may cost: everything before the claim."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from arena.calls import capabilities, money
from arena.calls.endpoints import endpoint_named, provider_for
from arena.calls.models import Call
from arena.calls.prices import Rate, price_of
from arena.calls.providers.base import Message, Provider, Reply, Request
from arena.conf.endpoints import Endpoint

EMPTY_REPLY = "(no answer)"  # some servers take no turn without text


@dataclass(frozen=True)
class Reading:
    """What a reply means: the state of its call, and the verdict where there is one."""

    state: str
    verdict: dict[str, Any] | None = None
    note: str = ""


class Asking(Protocol):
    """What a call is about; all three may use the database.

    `render` puts the request together, or raises CannotAsk; it may ask `capability_of` what the
    model can do. `read` says what the reply to turn `call.turn` means. `repair` is the message that
    asks for the verdict alone after a reply (`call.reply`) that could not be read; None where there
    is no second turn.
    """

    def render(self, call: Call) -> Request: ...

    def read(self, call: Call, reply: Reply) -> Reading: ...

    def repair(self, call: Call) -> str | None: ...


class CannotAsk(Exception):
    """The question itself cannot be put together; whoever asks pauses with this reason."""


class NoPrice(Exception):
    """Nobody has said what the model costs; the run pauses with this reason."""


@dataclass(frozen=True)
class Plan:
    """A request as it will be sent; `amount` is the most it may cost, in nano-dollars.

    `tokens` is the most it may take of the endpoint's pace, `dropped` what its model does not take.
    """

    endpoint: Endpoint
    provider: Provider
    request: Request
    dropped: Sequence[str]
    rate: Rate
    amount: int
    tokens: int


def plan_request(call: Call, asking: Asking) -> Plan:
    """Put together the next request of `call`.

    Raises CannotAsk, NoPrice, UnknownEndpoint, or Stopped where the endpoint's key is not there.
    """
    endpoint = endpoint_named(call.endpoint)
    provider = provider_for(endpoint)
    request = money.limited(_in_turn(call, asking))
    rate = _rate_of(call)
    sent, dropped = _without_unsupported(call, request)
    return Plan(
        endpoint=endpoint,
        provider=provider,
        request=sent,
        dropped=dropped,
        rate=rate,
        amount=money.worst_cost(rate, request),
        tokens=money.expected_tokens_in(request) + money.most_out(request),
    )


def _in_turn(call: Call, asking: Asking) -> Request:
    """The request as rendered; the second turn adds the first reply and asks for the verdict."""
    request = asking.render(call)
    if call.turn == 0:
        return request
    message = asking.repair(call)
    if message is None:
        raise CannotAsk("The first reply cannot be read, and there is no question to ask again.")
    reply = Message("assistant", call.reply if call.reply.strip() else EMPTY_REPLY)
    return replace(request, messages=(*request.messages, reply, Message("user", message)))


def _rate_of(call: Call) -> Rate:
    rate = price_of(call.endpoint, call.model)
    if rate is None:
        raise NoPrice(
            f"Nobody has said what {call.model} at {call.endpoint} costs. Enter it with"
            f" `manage.py price {call.endpoint} {call.model} --input USD --output USD`"
            " (per million tokens, 0 is allowed), then resume the run."
        )
    return rate


def _without_unsupported(call: Call, request: Request) -> tuple[Request, list[str]]:
    """Leave out what the model is known not to take, and what it turned down in this very call."""
    known = capabilities.capability_of(call.endpoint, call.model)
    request, dropped = capabilities.fitted(request, known)
    request, _ = capabilities.without(request, call.dropped)
    return request, [*call.dropped, *(entry for entry in dropped if entry not in call.dropped)]
