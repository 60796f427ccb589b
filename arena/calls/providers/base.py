"""What every provider takes, gives and raises."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

SCHEMA = "json_schema"
LOGPROBS = "logprobs"
# What the two are called on the wire, where an operator's parameters may name them as well.
ON_THE_WIRE = {SCHEMA: ("response_format", "output_config"), LOGPROBS: ("top_logprobs",)}


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; `role` is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True)
class Request:
    """One question to a model. `parameters` are the sampling parameters by their usual names.

    With a JSON `schema` the reply is to be an object that obeys it; `logprobs` asks for the
    probabilities of the reply's tokens and of their alternatives.
    """

    model: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    logprobs: bool = False

    def without(self, parameter: str, instead: str = "") -> "Request":
        """Return this request less what `Unsupported.parameter` names, or with it renamed."""
        gone = {parameter, *ON_THE_WIRE.get(parameter, ())}
        left = {name: value for name, value in self.parameters.items() if name not in gone}
        if instead and parameter in self.parameters:
            left[instead] = self.parameters[parameter]
        return replace(
            self,
            parameters=left,
            schema=None if parameter == SCHEMA else self.schema,
            logprobs=self.logprobs and parameter != LOGPROBS,
        )


@dataclass(frozen=True)
class TokenLogprob:
    """One token of a reply: the natural logarithm of its probability, and its alternatives'.

    `top` holds (token, logprob), the likeliest first; the token itself is usually among them.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Reply:
    """What a model answered, and what the server said about it.

    `tokens_out` counts what is billed, so it includes tokens of reasoning that nobody is shown.
    """

    text: str
    model: str = ""
    fingerprint: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cut_off: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()


class Provider(Protocol):
    """A client that sends one request once; whoever calls it decides about trying again."""

    def complete(self, request: Request) -> Reply: ...


class ProviderError(Exception):
    """A request that brought no answer. `reply` is what was paid for all the same, if anything."""

    def __init__(self, message: str, reply: Reply | None = None) -> None:
        super().__init__(message)
        self.reply = reply


class Retryable(ProviderError):
    """The server is busy, broken or out of reach; `retry_after` in seconds if it said so.

    `maybe_billed` where the request had been sent and its answer was lost on the way: the server
    may have done the work, and may ask for its money.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, maybe_billed: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.maybe_billed = maybe_billed


class Stopped(ProviderError):
    """No request can succeed until an operator acts: a wrong key, no permission, no such model."""


class Rejected(ProviderError):
    """The server does not take this request, and would not take it a second time."""


class Unsupported(Rejected):
    """The server does not know a parameter that was sent; `Request.without` takes it out.

    `parameter` is a key of `Request.parameters`, or "json_schema", or "logprobs". `instead` is the
    name under which the server says it wants the value. `sent` is false where the provider knew
    beforehand and spared the request.
    """

    def __init__(
        self, message: str, parameter: str, instead: str = "", *, sent: bool = True
    ) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.instead = instead
        self.sent = sent


class Refused(ProviderError):
    """The model, or a filter before it, declines to answer."""


class TooLong(ProviderError):
    """The request does not fit into the model's context."""
