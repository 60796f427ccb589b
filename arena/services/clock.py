"""Corrects times that were written while the clock was ahead.

Such times are too far in the future to wait for. A stored time further ahead than the longest pause
of its kind counts as past. Queries that can check this themselves do; a sweep corrects the times
listed here.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic, time
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import QuerySet

from arena.calls.leases import HANDED_OUT, LONGEST_PAUSE
from arena.calls.models import Call, EndpointPace
from arena.endpoints import all_endpoints, lease_of
from arena.models import Delivery, RateLimit
from arena.services import deliveries

TOLERANCE = timedelta(minutes=1)  # the clocks of two servers may differ by less
# A worker may still be alive and at work: its lease is shortened, not ended.
REST_OF_LEASE = timedelta(seconds=30)


def make_clock_check() -> Callable[[], bool]:
    """Return a function that says whether the clock has run evenly since it was last called."""
    offset = time() - monotonic()

    def is_even() -> bool:
        nonlocal offset
        before, offset = offset, time() - monotonic()
        return abs(offset - before) < TOLERANCE.total_seconds()

    return is_even


def bring_back_times(*, now: datetime) -> None:
    """Correct the times of calls, endpoints, deliveries, rate limits and sessions."""
    _bring_back_calls(now)
    _bring_back_paces(now)
    _bring_back_deliveries(now)
    age = timedelta(seconds=settings.SESSION_COOKIE_AGE)
    _bring_back_field(Session.objects.all(), "expire_date", now + age, now + age + TOLERANCE)
    windows = RateLimit.objects.filter(window_started_at__gt=now + TOLERANCE)
    if windows.exists():  # on SQLite, a DELETE of nothing would still wait for its turn
        windows.delete()


def _bring_back_field(rows: QuerySet[Any], field: str, to: Any, latest: Any) -> None:
    """Set `field` to `to` where it is later than `latest`; write nothing if it never is."""
    late = rows.filter(**{f"{field}__gt": latest})
    if late.exists():
        late.update(**{field: to})


def _bring_back_calls(now: datetime) -> None:
    waiting = Call.objects.filter(state=Call.State.WAITING)
    for field in ("due_at", "enqueue_after"):
        _bring_back_field(waiting, field, now, now + LONGEST_PAUSE + TOLERANCE)
    handed_out = waiting.filter(due_at__lte=now)
    _bring_back_field(handed_out, "enqueue_after", now, now + HANDED_OUT + TOLERANCE)
    held = Call.objects.filter(state=Call.State.RUNNING)
    longest = max(map(lease_of, all_endpoints().values()), default=LONGEST_PAUSE)
    _bring_back_field(held, "lease_expires_at", now + REST_OF_LEASE, now + longest + TOLERANCE)


def _bring_back_paces(now: datetime) -> None:
    """An endpoint is paused for a minute's limit or the longest Retry-After at most."""
    latest = (now + LONGEST_PAUSE + 3 * TOLERANCE).timestamp()
    for field in ("requests_until", "tokens_until"):
        _bring_back_field(EndpointPace.objects.all(), field, now.timestamp(), latest)


def _bring_back_deliveries(now: datetime) -> None:
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING)
    for attempts, pause in enumerate((timedelta(0), *deliveries.PAUSES)):
        rows = waiting.filter(attempts=attempts)
        _bring_back_field(rows, "due_at", now, now + pause + TOLERANCE)
    _bring_back_field(waiting, "lease_expires_at", now, now + deliveries.ENQUEUE_AGAIN + TOLERANCE)
    held = Delivery.objects.filter(state=Delivery.State.RUNNING)
    latest = now + deliveries.LEASE + TOLERANCE
    _bring_back_field(held, "lease_expires_at", now + REST_OF_LEASE, latest)
