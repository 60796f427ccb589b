"""Rate limits that hold under concurrency: one statement counts and decides."""

from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address

from django.conf import settings
from django.db import connection
from django.http import HttpRequest

from arena.db import sql
from arena.models import RateLimit

KEPT_FOR = timedelta(hours=24)  # longer than any window
# Starts a new window if the last one has passed. Both databases support upserts with RETURNING.
COUNT_HIT = """
    INSERT INTO arena_ratelimit AS kept (key, window_started_at, hits) VALUES (%s, %s, 1)
    ON CONFLICT (key) DO UPDATE SET
        hits = CASE WHEN kept.window_started_at <= %s THEN 1 ELSE kept.hits + 1 END,
        window_started_at = CASE
            WHEN kept.window_started_at <= %s THEN excluded.window_started_at
            ELSE kept.window_started_at END
    RETURNING hits
"""


# COUNT_HIT that also locks a rater's row until the end of the transaction. PostgreSQL only.
COUNT_AND_LOCK = COUNT_HIT.replace(
    "VALUES (%s, %s, 1)",
    "SELECT %s, %s, 1 FROM (SELECT id FROM arena_rater WHERE id = %s FOR NO KEY UPDATE) AS rater",
)


def allow(*, key: str, limit: int, window: timedelta, now: datetime) -> bool:
    """Count one use of `key`; return whether it is within the `limit` of the current window."""
    with sql.single_statement():
        row = sql.one(COUNT_HIT, key, now, now - window, now - window)
    assert row is not None, "an upsert always returns its row"
    return bool(row[0] <= limit)


def allow_rater(*, key: str, rater_id: int, limit: int, window: timedelta, now: datetime) -> bool:
    """Like `allow`, but also lock the rater's row until the end of the transaction."""
    if not connection.features.has_select_for_update:
        return allow(key=key, limit=limit, window=window, now=now)
    row = sql.one(COUNT_AND_LOCK, key, now, rater_id, now - window, now - window)
    assert row is not None, "the rater exists, and an upsert returns its row"
    return bool(row[0] <= limit)


def seconds_left(*, key: str, window: timedelta, now: datetime) -> float:
    """Return the seconds until the current window of `key` ends."""
    starts = RateLimit.objects.filter(key=key).values_list("window_started_at", flat=True)
    started_at = starts.first()
    return max((started_at + window - now).total_seconds(), 0) if started_at else 0


def client_address(request: HttpRequest) -> str:
    """Return the address that limits count: the client's IPv4 address, or the /64 of its IPv6 one.

    X-Forwarded-For counts only behind trusted proxies.
    """
    hops = request.headers.get("X-Forwarded-For", "").split(",")
    if 0 < settings.TRUSTED_PROXIES <= len(hops):
        return _counted_as(hops[-settings.TRUSTED_PROXIES].strip()[:64])
    return _counted_as(str(request.META["REMOTE_ADDR"]))


def _counted_as(address: str) -> str:
    """Unwrap an IPv4-mapped address; reduce IPv6 to its /64, all of which belongs to one client."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"
