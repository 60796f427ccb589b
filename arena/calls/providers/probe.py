"""Probes what a model supports with a few tiny requests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from arena.calls.providers.base import (
    Message,
    ModelRefusedError,
    Provider,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    TooLongError,
    UnsupportedParameterError,
)

LIMIT = "max_tokens"
# A reasoning model needs room before its reply begins; others say hello and stop.
ROOM = 512
# Nothing in the question hints at this word; only a server that enforces the schema, or shows it
# to the model, gets it.
WORD = "ringside-obeys"
SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": [WORD]}},
    "required": ["word"],
    "additionalProperties": False,
}
GREETING = (Message("user", "Say hello, in one word."),)


@dataclass(frozen=True)
class Probed:
    """What was found out. Where `ok` is false, `problem` says why and the abilities say nothing.

    `limit` is the name under which the server takes the limit of tokens, '' where it takes none.
    `requests` counts those that were sent; tokens are summed over them, where the server told.
    """

    ok: bool
    problem: str = ""
    json_schema: bool = False
    temperature: bool = False
    seed: bool = False
    logprobs: bool = False
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model_returned: str = ""
    limit: str = LIMIT


def probe(provider: Provider, model: str) -> Probed:
    """Ask `model` once per ability; raises no ProviderError.

    A server that is busy, dead or closed to us gives no answer about abilities: not ok.
    """
    trial = _Trial(provider, Request(model, GREETING, {LIMIT: ROOM}))
    try:
        trial.greet()
        abilities = _abilities(trial)
    except ProviderError as error:
        return replace(trial.so_far, problem=str(error) or type(error).__name__)
    return replace(trial.so_far, ok=True, **abilities)


def _abilities(trial: "_Trial") -> dict[str, Any]:
    schema = trial.try_out(schema=SCHEMA)
    logprobs = trial.try_out(logprobs=True)
    return {
        "json_schema": schema is not None and _obeys(schema.text),
        "temperature": trial.try_out(parameters={"temperature": 0}) is not None,
        "seed": trial.try_out(parameters={"seed": 1}) is not None,
        "logprobs": logprobs is not None and bool(logprobs.logprobs),
    }


def _obeys(text: str) -> bool:
    try:
        return bool(json.loads(text) == {"word": WORD})
    except (ValueError, RecursionError):
        return False


@dataclass
class _Trial:
    """Makes and counts the requests of one probe."""

    provider: Provider
    plain: Request
    so_far: Probed = field(default_factory=lambda: Probed(ok=False))

    def greet(self) -> Reply:
        """Ask for a greeting, again if the server has another name for the limit."""
        try:
            return self._ask(self.plain)
        except UnsupportedParameterError as error:
            if error.parameter != LIMIT:
                raise
            self.plain = self.plain.without(LIMIT, error.instead)
            self.so_far = replace(self.so_far, limit=error.instead)
            return self._ask(self.plain)

    def try_out(self, parameters: Mapping[str, Any] | None = None, **more: Any) -> Reply | None:
        """Return the reply, or None if the server or model rejects what is added."""
        with_more = {**self.plain.parameters, **(parameters or {})}
        try:
            return self._ask(replace(self.plain, parameters=with_more, **more))
        except (RejectedError, ModelRefusedError, TooLongError):
            return None

    def _ask(self, request: Request) -> Reply:
        try:
            reply = self.provider.complete(request)
        except ProviderError as error:
            sent = not isinstance(error, UnsupportedParameterError) or error.sent
            self._count(int(sent), error.reply)
            raise
        self._count(1, reply)
        return reply

    def _count(self, requests: int, reply: Reply | None) -> None:
        before = self.so_far
        self.so_far = replace(
            before,
            requests=before.requests + requests,
            tokens_in=before.tokens_in + (reply.tokens_in or 0 if reply else 0),
            tokens_out=before.tokens_out + (reply.tokens_out or 0 if reply else 0),
            model_returned=before.model_returned or (reply.model if reply else ""),
        )
