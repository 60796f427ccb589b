"""Limits per minute at model servers, and the breaker for those that do not answer.

One row per endpoint holds the time at which all requests so far will be within its limits (the
generic cell rate algorithm; ITU-T I.371, "virtual scheduling"). One statement decides and counts,
so no minute holds more requests than the operator allows, however many workers ask at once. Tokens
are counted before the answer, by the most it can have; unused tokens are returned.

A request that gets no answer may be billed. So after ten in a row an endpoint is tried by one
request at a time, at growing intervals, until one is answered.
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
BROKEN_IN_A_ROW = 10
LONGEST_BREAK = 300.0
ASKED_AGAIN = (5.0, 30.0)  # seconds, at random, so that a waiting run does not ask all at once
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


TRY = """
    UPDATE arena_endpointpace SET closed_until = %s WHERE endpoint = %s AND closed_until <= %s
    RETURNING id
"""
BROKEN = """
    INSERT INTO arena_endpointpace AS kept (endpoint, broken, closed_until) VALUES (%s, 1, 0)
    ON CONFLICT (endpoint) DO UPDATE SET broken = kept.broken + 1
    RETURNING broken
"""


def may_try(*, endpoint: Endpoint, broken: int, lease: timedelta, now: datetime) -> datetime | None:
    """Return None if a request may be sent, else when to try again.

    After ten broken requests in a row, it is the only one of the endpoint within its lease.
    """
    at = now.timestamp()
    if broken < BROKEN_IN_A_ROW:
        return None
    if sql.one(TRY, at + lease.total_seconds(), endpoint.name, at):
        return None
    return now + timedelta(seconds=_jitter.uniform(*ASKED_AGAIN))


def note_answered(*, endpoint: Endpoint) -> None:
    """Remember that an endpoint answers, with an error or not."""
    EndpointPace.objects.filter(endpoint=endpoint.name).update(broken=0, closed_until=0.0)


def note_broken(*, endpoint: Endpoint, now: datetime) -> int:
    """Count a request without an answer; return how many there were in a row."""
    row = sql.one(BROKEN, endpoint.name)
    assert row is not None, "it was inserted or updated"
    broken: int = row[0]
    if broken >= BROKEN_IN_A_ROW:
        pause = min(LONGEST_BREAK, 2.0 ** (broken - BROKEN_IN_A_ROW))
        until = now.timestamp() + pause
        EndpointPace.objects.filter(endpoint=endpoint.name).update(closed_until=until)
    return broken


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
