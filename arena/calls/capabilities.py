"""What the models of a server support: probed once, and learned from servers that reject a
parameter."""

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete, post_save

from arena.calls.models import CachedLookup, Capability
from arena.calls.providers.base import (
    LOGPROBS,
    MAX_TOKENS,
    SCHEMA,
    EndpointStoppedError,
    Message,
    ModelRefusedError,
    Provider,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    RetryableError,
    TooLongError,
    UnsupportedParameterError,
)
from arena.endpoints import endpoint_named, provider_for

LIMIT = "max_tokens"
# A model that thinks needs room before its reply begins; others stop on their own. Some servers
# allow no model as many tokens.
ROOMS = (16_384, 4_096, 512)
# Nothing in the question hints at this word; only a server that enforces the schema, or shows it
# to the model, gets it.
WORD = "ringside-obeys"
ENUM_SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": [WORD]}},
    "required": ["word"],
    "additionalProperties": False,
}
PAUSES = (0.5, 1.0)  # seconds, before a probe's request is sent again
PATIENCE = 15.0  # seconds, in which a probe begins its requests
GREETING = (Message("user", "Say hello, in one word."),)


@dataclass(frozen=True)
class Probed:
    """The result of a probe. If `ok` is false, `problem` says why, and the abilities mean nothing.

    `limit` is the name under which the server accepts a token limit, '' if it accepts none.
    `requests` counts those that were sent; tokens are summed over them, if the server reported any.
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

    A request that fails temporarily is sent again, as one of a run would be, but only for as long
    as somebody may wait for a page. A server that stays busy, is down or denies access says nothing
    about abilities: not ok.
    """
    trial = _Trial(provider, Request(model, GREETING, {LIMIT: ROOMS[0]}))
    try:
        trial.begin()
        schema = trial.try_out(schema=ENUM_SCHEMA)
        logprobs = trial.try_out(logprobs=True)
        abilities: dict[str, Any] = {
            "json_schema": schema is not None and _obeys_schema(schema.text),
            "temperature": trial.try_out(parameters={"temperature": 0}) is not None,
            "seed": trial.try_out(parameters={"seed": 1}) is not None,
            "logprobs": logprobs is not None and bool(logprobs.logprobs),
        }
    except ProviderError as error:
        return replace(trial.so_far, problem=str(error) or type(error).__name__)
    return replace(trial.so_far, ok=True, **abilities)


def measure(
    provider: Provider, requests: Sequence[Request], known: Capability | None
) -> list[Reply | ProviderError]:
    """Send each request once with ample room, and return what came of each, in order.

    The first shows how much room the server allows; the others are sent together.
    """
    ready = [
        fitted(replace(one, parameters={**one.parameters, LIMIT: ROOMS[0]}), known)[0]
        for one in requests
    ]
    trial = _Trial(provider, ready[0], until=0.0)  # a lost request is not paid for again
    limits = [name for name in ready[0].parameters if name in MAX_TOKENS]
    trial.so_far = replace(trial.so_far, limit=limits[0] if limits else "")
    try:
        first = trial.begin()
    except ProviderError as error:
        return [error]

    def ask(request: Request) -> Reply | ProviderError:
        try:
            return provider.complete(replace(request, parameters=trial.plain.parameters))
        except ProviderError as error:
            return error

    with ThreadPoolExecutor(len(ready)) as threads:
        return [first, *threads.map(ask, ready[1:])]


def _obeys_schema(text: str) -> bool:
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
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE)

    def begin(self) -> Reply:
        """Ask the plain request; ask again if the server has another name for the limit, or allows
        the model fewer tokens."""
        smaller = iter(ROOMS[1:])
        while True:
            try:
                return self._ask_patiently(self.plain)
            except UnsupportedParameterError as error:
                if error.parameter != LIMIT:
                    raise
                self.plain = self.plain.without(LIMIT, error.instead)
                self.so_far = replace(self.so_far, limit=error.instead)
            except (RejectedError, TooLongError) as error:
                room, limit = next(smaller, None), self.so_far.limit
                if room is None or not limit or "token" not in str(error).lower():
                    raise
                self.plain = replace(self.plain, parameters={**self.plain.parameters, limit: room})

    def try_out(self, parameters: Mapping[str, Any] | None = None, **more: Any) -> Reply | None:
        """Return the reply, or None if the server or model rejects what is added."""
        with_more = {**self.plain.parameters, **(parameters or {})}
        try:
            return self._ask_patiently(replace(self.plain, parameters=with_more, **more))
        except (RejectedError, ModelRefusedError, TooLongError):
            return None

    def _ask_patiently(self, request: Request) -> Reply:
        for pause in PAUSES:
            try:
                return self._ask_once(request)
            except RetryableError as error:
                wait = max(pause, error.retry_after or 0.0)
                if time.monotonic() + wait > self.until:
                    raise
                time.sleep(wait)
        return self._ask_once(request)

    def _ask_once(self, request: Request) -> Reply:
        try:
            reply = self.provider.complete(request)
        except ProviderError as error:
            sent = not isinstance(error, UnsupportedParameterError) or error.sent
            self._count_usage(int(sent), error.reply)
            raise
        self._count_usage(1, reply)
        return reply

    def _count_usage(self, requests: int, reply: Reply | None) -> None:
        before = self.so_far
        self.so_far = replace(
            before,
            requests=before.requests + requests,
            tokens_in=before.tokens_in + (reply.tokens_in or 0 if reply else 0),
            tokens_out=before.tokens_out + (reply.tokens_out or 0 if reply else 0),
            model_returned=before.model_returned or (reply.model if reply else ""),
        )


# Separates a rejected parameter from the name the server wants instead, as stored.
ARROW = " -> "
# Capabilities by the request parameter that needs them.
ABILITIES = {
    SCHEMA: "json_schema",
    LOGPROBS: "logprobs",
    "temperature": "temperature",
    "seed": "seed",
}


def capability_of(endpoint: str, model: str) -> Capability | None:
    """Return what is known about a model, cached for a few seconds; None if nothing is."""
    return _capabilities.get((endpoint, model))


def probe_endpoint(endpoint: str, model: str, now: datetime) -> Capability:
    """Probe what a model supports with a handful of tiny requests, and store it.

    Raises UnknownEndpointError, or EndpointStoppedError if nothing can be asked.
    """
    result = probe(provider_for(endpoint_named(endpoint)), model)
    if not result.ok:
        raise EndpointStoppedError(result.problem)
    able = {name: getattr(result, name) for name in ABILITIES.values()}
    values = able | {"probed_at": now, "dropped": []}
    capability, _ = Capability.objects.update_or_create(
        endpoint=endpoint, model=model, defaults=values
    )
    return capability


@transaction.atomic
def note_replies(*, endpoint: str, model: str, effort: str, tokens: Sequence[int]) -> None:
    """Remember how long a model's replies were when it was measured with this effort."""
    Capability.objects.get_or_create(endpoint=endpoint, model=model)
    row = Capability.objects.select_for_update().get(endpoint=endpoint, model=model)
    facts = {"mean": sum(tokens) / len(tokens), "longest": max(tokens)}
    row.replies = {**row.replies, effort: facts}
    row.save(update_fields=["replies"])
    transaction.on_commit(_capabilities.forget)


@transaction.atomic
def note_unsupported(*, endpoint: str, model: str, error: UnsupportedParameterError) -> None:
    """Remember that a server rejects a parameter, so that it is not sent again."""
    Capability.objects.get_or_create(endpoint=endpoint, model=model)
    row = Capability.objects.select_for_update().get(endpoint=endpoint, model=model)
    if error.parameter in ABILITIES:
        setattr(row, ABILITIES[error.parameter], False)
    elif (entry := entry_of(error)) not in row.dropped:
        row.dropped = [*row.dropped, entry]
    row.save()
    transaction.on_commit(_capabilities.forget)


def entry_of(error: UnsupportedParameterError) -> str:
    """A rejected parameter as stored, with the name wanted instead if any."""
    return ARROW.join(filter(None, [error.parameter, error.instead]))


def fitted(request: Request, capability: Capability | None) -> tuple[Request, list[str]]:
    """Return `request` without unsupported parameters, and what was left out."""
    if capability is None:
        return request, []
    entries = [name for name, able in ABILITIES.items() if getattr(capability, able) is False]
    return without(request, [*entries, *capability.dropped])


def without(request: Request, entries: Sequence[str]) -> tuple[Request, list[str]]:
    """Return `request` without `entries`, and those that it had."""
    dropped = []
    for entry in entries:
        name, _, instead = entry.partition(ARROW)
        less = request.without(name, instead)
        if less != request:
            dropped.append(entry)
        request = less
    return request, dropped


def _find_capability(key: tuple[str, str]) -> Capability | None:
    return Capability.objects.filter(endpoint=key[0], model=key[1]).first()


_capabilities = CachedLookup(_find_capability, missing_too=True)
post_save.connect(_capabilities.forget, sender=Capability)
post_delete.connect(_capabilities.forget, sender=Capability)
