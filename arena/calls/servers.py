"""What is known about model servers: prices, what models support, and limits per minute.

Prices are set by an operator, or in the endpoint's settings. Abilities are
probed once, and learned from servers that reject a parameter. One row per endpoint holds the time
at which all requests so far will be within its limits (the generic cell rate algorithm; ITU-T
I.371, "virtual scheduling"). One statement decides and counts, so no minute holds more requests
than the operator allows, however many workers ask at once. Tokens are counted before the answer,
by the most it can have; unused tokens are returned.
"""

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.db.models.signals import post_delete, post_save

from arena.calls.models import CachedLookup, Capability, EndpointPace, Price
from arena.calls.providers.base import (
    LOGPROBS,
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
from arena.db import sql
from arena.endpoints import Endpoint, ModelPrice, UnknownEndpointError, endpoint_named, provider_for
from arena.validation import MOST, NANO

SCRIPTED_MODEL = "scripted-1"


@dataclass(frozen=True)
class Rate:
    """Nano-dollars per million tokens; cached input costs as much as other input if None."""

    input_per_million: int
    output_per_million: int
    cached_per_million: int | None = None


def price_of(endpoint: str, model: str) -> Rate | None:
    """Return what `model` costs at `endpoint`; None if no price is set.

    The operator's entry comes first, then the settings; scripted models cost nothing.
    """
    return _prices.get((endpoint, model))


@transaction.atomic
def set_price(
    *,
    endpoint: str,
    model: str,
    input_usd: Decimal,
    output_usd: Decimal,
    now: datetime,
    cached_usd: Decimal | None = None,
) -> Price:
    """Set the price of a million tokens, in dollars; 0 is a price. `cached_usd`: of cached input.

    Raises ValidationError for an invalid amount, UnknownEndpointError for an unknown endpoint.
    """
    endpoint_named(endpoint)
    if not model or len(model) > 200:
        raise ValidationError("A model's name must have 1 to 200 characters.")
    rate = {
        "input_per_million": nano_per_million(input_usd),
        "output_per_million": nano_per_million(output_usd),
        "cached_per_million": None if cached_usd is None else nano_per_million(cached_usd),
    }
    if (rate["cached_per_million"] or 0) > (rate["input_per_million"] or 0):
        raise ValidationError("Cached input must not cost more than other input.")
    price, _ = Price.objects.update_or_create(
        endpoint=endpoint, model=model, defaults=rate | {"entered_at": now}
    )
    return price


def nano_per_million(usd: Decimal) -> int:
    """Turn dollars per million tokens into nano-dollars; raises ValidationError for an invalid
    amount."""
    try:
        amount = Decimal(usd)
    except (InvalidOperation, TypeError, ValueError):
        raise ValidationError(f"{usd!r} is not an amount in dollars.") from None
    if not amount.is_finite() or not 0 <= amount <= MOST:
        raise ValidationError(
            f"A price must be between 0 and {MOST:,} dollars per million tokens, not {usd}."
        )
    nano = amount * NANO
    if nano != int(nano):
        raise ValidationError(f"A price can have at most nine decimals, not {usd}.")
    return int(nano)


def all_prices() -> list[tuple[str, str, Rate, str]]:
    """Return (endpoint, model, rate, source) of every known price."""
    known = {
        (endpoint.name, model): (_rate(price), "settings")
        for endpoint in settings.MODEL_ENDPOINTS.values()
        for model, price in endpoint.prices.items()
    }
    entered = {(row.endpoint, row.model): (_rate(row), "entered") for row in Price.objects.all()}
    return [(*names, *details) for names, details in sorted((known | entered).items())]


def known_models() -> list[tuple[str, str]]:
    """Return (endpoint, model) of every model with a price, and one of each scripted endpoint."""
    scripted = [
        (endpoint.name, SCRIPTED_MODEL)
        for endpoint in settings.MODEL_ENDPOINTS.values()
        if endpoint.provider == "scripted"
    ]
    priced = [(endpoint, model) for endpoint, model, *_ in all_prices()]
    priced = [pair for pair in priced if pair[0] in settings.MODEL_ENDPOINTS]
    return [*scripted, *(pair for pair in priced if pair not in scripted)]


def _find_price(key: tuple[str, str]) -> Rate | None:
    name, model = key
    row = Price.objects.filter(endpoint=name, model=model).first()
    if row is not None:
        return _rate(row)
    try:
        given = endpoint_named(name).price_of(model)
    except UnknownEndpointError:
        return None
    return _rate(given) if given else None


def _rate(price: Price | ModelPrice) -> Rate:
    return Rate(price.input_per_million, price.output_per_million, price.cached_per_million)


_prices = CachedLookup(_find_price)
post_save.connect(_prices.forget, sender=Price)
post_delete.connect(_prices.forget, sender=Price)


# -- Probing ---------------------------------------------------------------------------------------

LIMIT = "max_tokens"
# A reasoning model needs room before its reply begins; others say hello and stop.
ROOM = 512
# Nothing in the question hints at this word; only a server that enforces the schema, or shows it
# to the model, gets it.
WORD = "ringside-obeys"
ENUM_SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": [WORD]}},
    "required": ["word"],
    "additionalProperties": False,
}
PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds, before a probe's request is sent again
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
    trial = _Trial(provider, Request(model, GREETING, {LIMIT: ROOM}))
    try:
        trial.greet()
        abilities = _abilities(trial)
    except ProviderError as error:
        return replace(trial.so_far, problem=str(error) or type(error).__name__)
    return replace(trial.so_far, ok=True, **abilities)


def _abilities(trial: "_Trial") -> dict[str, Any]:
    schema = trial.try_out(schema=ENUM_SCHEMA)
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
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE)

    def greet(self) -> Reply:
        """Ask for a greeting; ask again if the server has another name for the limit."""
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


# -- What is known of a model ----------------------------------------------------------------------

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


# -- Limits per minute -----------------------------------------------------------------------------

MINUTE = 60.0
BURST = 20  # one twentieth of a minute's requests may be sent at once
ALWAYS = 1e15  # seconds: the leeway without a limit
LEAST_JITTER, MOST_JITTER = 0.05, 5.0
_jitter = secrets.SystemRandom()

LATER = "CASE WHEN kept.{0} > %s THEN kept.{0} ELSE %s END"
TAKE = f"""
    INSERT INTO arena_endpointpace AS kept (endpoint, requests_until, tokens_until)
    VALUES (%s, %s, %s)
    ON CONFLICT (endpoint) DO UPDATE SET
        requests_until = {LATER.format("requests_until")} + %s,
        tokens_until = {LATER.format("tokens_until")} + %s
    WHERE kept.requests_until <= %s AND kept.tokens_until <= %s
    RETURNING id
"""  # noqa: S608  (made of constants alone)
HOLD = f"""
    INSERT INTO arena_endpointpace AS kept (endpoint, requests_until, tokens_until)
    VALUES (%s, %s, %s)
    ON CONFLICT (endpoint) DO UPDATE SET
        requests_until = {LATER.format("requests_until")},
        tokens_until = {LATER.format("tokens_until")}
    RETURNING id
"""  # noqa: S608  (made of constants alone)


def take_turn(*, endpoint: Endpoint, tokens: int, now: datetime) -> datetime | None:
    """Count one request of `tokens` and return None, or return when to try again.

    An endpoint without limits costs no query.
    """
    if not endpoint.is_paced:
        return None
    at = now.timestamp()
    step, leeway = _requests(endpoint)
    token_step, token_leeway = _tokens(endpoint)
    wide = tokens * token_step
    new = (endpoint.name, at + step, at + wide)
    grown = (at, at, step, at, at, wide)
    taken = sql.one(TAKE, *new, *grown, at + leeway, at + token_leeway)
    return None if taken else _when(endpoint, now, leeway, token_leeway)


def hold(*, endpoint: Endpoint, until: datetime) -> None:
    """Send nothing to a paced endpoint before `until`, because its server asked for a pause."""
    if not endpoint.is_paced:
        return
    at, limits = until.timestamp(), (_requests(endpoint), _tokens(endpoint))
    full = [at + leeway if step else at for step, leeway in limits]
    sql.one(HOLD, endpoint.name, *full, *(time for time in full for _ in range(2)))


def give_back(*, endpoint: Endpoint, tokens: int) -> None:
    """Return tokens that were counted but not used."""
    step, _ = _tokens(endpoint)
    if tokens > 0 and step > 0:
        pace = EndpointPace.objects.filter(endpoint=endpoint.name)
        pace.update(tokens_until=F("tokens_until") - tokens * step)


def _requests(endpoint: Endpoint) -> tuple[float, float]:
    """Return (seconds per request, seconds of leeway).

    With b requests at once and one per T seconds, b - 1 + ceil(60 / T) can fall into a minute;
    T is chosen so that this is the limit.
    """
    limit = endpoint.requests_per_minute
    if not limit:
        return 0.0, ALWAYS
    burst = 1 + limit // BURST
    step = MINUTE / (limit - burst + 1)
    return step, (burst - 1) * step


def _tokens(endpoint: Endpoint) -> tuple[float, float]:
    """Return (seconds per token, seconds of leeway).

    A request larger than the leeway is let in when nothing is owed, so a minute holds the limit and
    at most one request more.
    """
    limit = endpoint.tokens_per_minute
    if not limit:
        return 0.0, ALWAYS
    burst = limit // BURST
    step = MINUTE / (limit - burst)
    return step, burst * step


def _when(endpoint: Endpoint, now: datetime, leeway: float, token_leeway: float) -> datetime:
    """When to try again, with jitter."""
    kept = EndpointPace.objects.get(endpoint=endpoint.name)
    at = now.timestamp()
    wait = max(0.0, kept.requests_until - leeway - at, kept.tokens_until - token_leeway - at)
    spread = min(MOST_JITTER, max(LEAST_JITTER, wait))
    return now + timedelta(seconds=wait + _jitter.uniform(0, spread))
