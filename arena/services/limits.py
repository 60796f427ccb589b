"""A rate limit that holds under concurrency: one statement counts and decides."""

from datetime import datetime, timedelta

from arena.models import RateLimit
from arena.services import statements

KEPT_FOR = timedelta(hours=24)  # longer than any window
# A window that has passed begins anew; both databases know UPSERT with RETURNING.
COUNT_HIT = """
    INSERT INTO arena_ratelimit AS kept (key, window_started_at, hits) VALUES (%s, %s, 1)
    ON CONFLICT (key) DO UPDATE SET
        hits = CASE WHEN kept.window_started_at <= %s THEN 1 ELSE kept.hits + 1 END,
        window_started_at = CASE
            WHEN kept.window_started_at <= %s THEN excluded.window_started_at
            ELSE kept.window_started_at END
    RETURNING hits
"""


def allow(*, key: str, limit: int, window: timedelta, now: datetime) -> bool:
    """Count one use of `key`; say whether it is among the first `limit` of its window."""
    with statements.alone():
        row = statements.one(COUNT_HIT, key, now, now - window, now - window)
    assert row is not None, "an upsert always returns its row"
    return bool(row[0] <= limit)


def seconds_left(*, key: str, window: timedelta, now: datetime) -> float:
    """Return in how many seconds the window of `key` ends."""
    began = RateLimit.objects.filter(key=key).values_list("window_started_at", flat=True).first()
    return max((began + window - now).total_seconds(), 0) if began else 0


def forget_old_windows(*, now: datetime) -> int:
    """Delete what was counted in windows that are long over; return how many they were."""
    deleted, _ = RateLimit.objects.filter(window_started_at__lte=now - KEPT_FOR).delete()
    return deleted
