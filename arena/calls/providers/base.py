"""What every provider takes, gives and raises."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; `role` is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True)
class Request:
    """One question to a model. `parameters` are the sampling parameters by their usual names."""

    model: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What a model answered, and what the server said about it."""

    text: str
    model: str = ""
    fingerprint: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cut_off: bool = False


class Provider(Protocol):
    """A client that sends one request once; whoever calls it decides about trying again."""

    def complete(self, request: Request) -> Reply: ...


class ProviderError(Exception):
    """A request that brought no answer. `reply` is what was paid for all the same, if anything."""

    def __init__(self, message: str, reply: Reply | None = None) -> None:
        super().__init__(message)
        self.reply = reply


class Retryable(ProviderError):
    """The server is busy, broken or out of reach; `retry_after` in seconds if it said so."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Stopped(ProviderError):
    """No request can succeed until an operator acts: a wrong key, no permission, no such model."""


class Rejected(ProviderError):
    """The server does not take this request, and would not take it a second time."""


class Refused(ProviderError):
    """The model, or a filter before it, declines to answer."""


class TooLong(ProviderError):
    """The request does not fit into the model's context."""
