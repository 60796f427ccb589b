"""What is only kept for a while is deleted: counts of rate limits, and sessions that expired."""

from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone

from arena.accounts.limits import LIMITS
from arena.models import RateLimit
from arena.services.rate_limits import KEPT_FOR, allow, forget_old_windows
from arena.tasks import forget_expired_sessions
from arena.tasks import forget_old_windows as ring_for_old_windows

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def use(key: str, now: datetime) -> bool:
    return allow(key=key, limit=1, window=HOUR, now=now)


def test_only_windows_that_began_more_than_a_day_ago_are_deleted() -> None:
    use("old", NOW - KEPT_FOR)
    use("young", NOW - KEPT_FOR + timedelta(seconds=1))
    use("came back", NOW - 2 * KEPT_FOR)
    use("came back", NOW)
    assert forget_old_windows(now=NOW) == 1
    assert set(RateLimit.objects.values_list("key", flat=True)) == {"young", "came back"}


def test_a_limit_that_is_reached_stays_reached() -> None:
    use("greedy", NOW)
    forget_old_windows(now=NOW + timedelta(minutes=59))
    assert not use("greedy", NOW + timedelta(minutes=59))


def test_every_window_is_shorter_than_what_is_kept() -> None:
    assert max(limit.window for limit in LIMITS.values()) < KEPT_FOR


def test_sessions_that_expired_are_deleted_and_others_are_kept() -> None:
    for age in (-1, 3600):
        store = SessionStore()
        store.set_expiry(age)
        store.create()
    forget_expired_sessions()
    assert [session.expire_date > timezone.now() for session in Session.objects.all()] == [True]


def test_both_are_looked_for_every_hour() -> None:
    use("old", timezone.now() - KEPT_FOR)
    ring_for_old_windows()
    assert not RateLimit.objects.exists()
    for task in (ring_for_old_windows, forget_expired_sessions):
        assert settings.CELERY_BEAT_SCHEDULE[task.name]["schedule"] == HOUR.total_seconds()
