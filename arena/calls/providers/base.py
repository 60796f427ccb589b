"""Requests, replies and errors that all providers share."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

SCHEMA = "json_schema"
LOGPROBS = "logprobs"
# Their names on the wire, which an operator's parameters may use as well.
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
        """Return this request without an unsupported parameter, or with it renamed."""
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
    """A client that sends one request once; callers decide about retries."""

    def complete(self, request: Request) -> Reply: ...


class ProviderError(Exception):
    """A request without an answer. `reply` is what was billed all the same, if anything."""

    def __init__(self, message: str, reply: Reply | None = None) -> None:
        super().__init__(message)
        self.reply = reply


class RetryableError(ProviderError):
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


class EndpointStoppedError(ProviderError):
    """No request can succeed until the operator acts: wrong key, no permission, no such model."""


class RejectedError(ProviderError):
    """The server rejects this request, and would reject it again."""


class UnsupportedParameterError(RejectedError):
    """The server does not know a parameter that was sent; `Request.without` removes it.

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


class ModelRefusedError(ProviderError):
    """The model, or a filter in front of it, declines to answer."""


class TooLongError(ProviderError):
    """The request exceeds the model's context."""


# -- What is sent ----------------------------------------------------------------------------------


def what_is_sent(request: Request) -> tuple[Sequence[str], int]:
    """Return every text that `request` sends, and the number of its messages.

    Parameters that hold texts or objects (tools, stop words) may be read by the model, so they
    count as texts too.
    """
    texts = [message.content for message in request.messages]
    texts += [_as_json(value) for value in request.parameters.values() if _is_long(value)]
    if request.schema is not None:
        texts.append(_as_json(request.schema))
    return texts, len(request.messages)


def digest_of(request: Request) -> str:
    """Return the SHA-256 of everything that is sent."""
    messages = [[message.role, message.content] for message in request.messages]
    sent: list[object] = [request.model, messages, dict(request.parameters)]
    if request.schema is not None or request.logprobs:
        sent.append({"schema": request.schema, "logprobs": request.logprobs})
    return hashlib.sha256(_as_json(sent).encode("utf-8", "surrogatepass")).hexdigest()


def _is_long(value: object) -> bool:
    return isinstance(value, str | list | tuple | dict)


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
