"""A rate limit that holds under concurrency: one statement counts and decides."""

from datetime import datetime, timedelta

from arena.services import statements

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
