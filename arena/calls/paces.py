"""Limits per minute at model servers.

One row per endpoint holds the time at which all requests so far will be within its limits (the
generic cell rate algorithm; ITU-T I.371, "virtual scheduling"). One statement decides and counts,
so no minute holds more requests than the operator allows, however many workers ask at once. Tokens
are counted before the answer, by the most it can have; unused tokens are returned.
"""

import secrets
from datetime import datetime, timedelta

from django.db.models import F

from arena.calls.models import EndpointPace
from arena.db import sql
from arena.endpoints import Endpoint

MINUTE = 60.0
BURST = 20  # one twentieth of a minute's requests may be sent at once
ALWAYS = 1e15  # seconds: the leeway without a limit
LEAST_JITTER = 0.05
MOST_JITTER = 5.0
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
    step, leeway = _pace_of_requests(endpoint)
    token_step, token_leeway = _pace_of_tokens(endpoint)
    wide = tokens * token_step
    new = (endpoint.name, at + step, at + wide)
    grown = (at, at, step, at, at, wide)
    taken = sql.one(TAKE, *new, *grown, at + leeway, at + token_leeway)
    return None if taken else _next_turn(endpoint, now, leeway, token_leeway)


def hold(*, endpoint: Endpoint, until: datetime) -> None:
    """Send nothing to a paced endpoint before `until`, because its server asked for a pause."""
    if not endpoint.is_paced:
        return
    at, limits = until.timestamp(), (_pace_of_requests(endpoint), _pace_of_tokens(endpoint))
    full = [at + leeway if step else at for step, leeway in limits]
    sql.one(HOLD, endpoint.name, *full, *(time for time in full for _ in range(2)))


def give_back(*, endpoint: Endpoint, tokens: int) -> None:
    """Return tokens that were counted but not used."""
    step, _ = _pace_of_tokens(endpoint)
    if tokens > 0 and step > 0:
        pace = EndpointPace.objects.filter(endpoint=endpoint.name)
        pace.update(tokens_until=F("tokens_until") - tokens * step)


def _pace_of_requests(endpoint: Endpoint) -> tuple[float, float]:
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


def _pace_of_tokens(endpoint: Endpoint) -> tuple[float, float]:
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


def _next_turn(endpoint: Endpoint, now: datetime, leeway: float, token_leeway: float) -> datetime:
    """When to try again, with jitter."""
    kept = EndpointPace.objects.get(endpoint=endpoint.name)
    at = now.timestamp()
    wait = max(0.0, kept.requests_until - leeway - at, kept.tokens_until - token_leeway - at)
    spread = min(MOST_JITTER, max(LEAST_JITTER, wait))
    return now + timedelta(seconds=wait + _jitter.uniform(0, spread))
