"""Upkeep of the database: deletes what is kept for a limited time, and corrects wrong times.

Rows are deleted in small batches, so that nobody has to wait. Votes and what they refer to are
never deleted: every statement repeats its conditions, and the database's foreign keys refuse the
rest.

A clock that was wrong for a while leaves times too far in the future to wait for. A stored
time further ahead than the longest pause of its kind counts as past. Queries that can check this
themselves do; a sweep corrects the times listed here.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, time
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from arena.calls.leases import HANDED_OUT, LONGEST_PAUSE
from arena.calls.models import Call, EndpointPace
from arena.endpoints import lease_of
from arena.models import (
    AuditEntry,
    Comparison,
    Delivery,
    IdempotentRequest,
    NetworkKey,
    Notice,
    RateLimit,
    Rater,
    Vote,
)
from arena.services import idempotency, notices, rate_limits

UPLOADS_KEPT_FOR = timedelta(days=1)
BATCH = 500


def delete_old_rows(*, now: datetime) -> None:
    """Delete every row that has been kept long enough; running it twice does no harm."""
    hits = RateLimit.objects.filter(window_started_at__lte=now - rate_limits.KEPT_FOR)
    keys = IdempotentRequest.objects.filter(created_at__lte=now - idempotency.KEPT_FOR)
    for rows in (
        hits,
        keys,
        Session.objects.filter(expire_date__lt=now),
        NetworkKey.objects.filter(period__lt=rate_limits.key_period(now)),
        unanswered_comparisons(now),
        raters_without_votes(now),
        *kept_for_days(now),
    ):
        _delete_in_batches(rows)


def kept_for_days(now: datetime) -> Iterator[QuerySet[Any]]:
    """Yield what is kept forever unless a setting limits it: deliveries are deleted before
    notices."""
    if days := settings.KEEP_NOTICES_DAYS:
        old = Notice.objects.filter(created_at__lte=now - timedelta(days=days))
        yield Delivery.objects.filter(notice__in=old)
        yield old
    if days := settings.KEEP_AUDIT_DAYS:
        yield AuditEntry.objects.filter(at__lte=now - timedelta(days=days))


def unanswered_comparisons(now: datetime) -> QuerySet[Comparison]:
    """Comparisons left open or skipped long ago; a rater who returns later may get such a pair
    again.

    Those of a run stay, because they count in its progress; how often a pair was shown is counted
    on the pair. Judges' comparisons belong to their judgements.
    """
    return Comparison.objects.filter(
        ~Exists(Vote.objects.filter(comparison=OuterRef("pk"))),
        Exists(Rater.objects.filter(pk=OuterRef("rater"), kind=Rater.Kind.PERSON)),
        run=None,
        source=None,
        issued_at__isnull=False,
        expires_at__lte=now - timedelta(days=settings.KEEP_UNANSWERED_DAYS),
    )


def raters_without_votes(now: datetime) -> QuerySet[Rater]:
    """Old anonymous raters who have neither voted nor been blocked."""
    return Rater.objects.filter(
        ~Exists(Vote.objects.filter(rater=OuterRef("pk"))),
        ~Exists(Comparison.objects.filter(rater=OuterRef("pk"))),
        kind=Rater.Kind.PERSON,
        user=None,
        arena=None,
        blocked_at=None,
        created_at__lte=now - timedelta(days=settings.KEEP_RATERS_DAYS),
    )


def _delete_in_batches(rows: QuerySet[Any]) -> None:
    """Delete rows without what refers to them: a cascade would also delete a vote cast
    meanwhile."""
    last: Any = None
    while True:
        batch = rows.filter(pk__gt=last) if last is not None else rows
        ids = list(batch.order_by("pk").values_list("pk", flat=True)[:BATCH])
        if not ids:
            return
        last = ids[-1]
        with suppress(IntegrityError), transaction.atomic():
            rows.filter(pk__in=ids)._raw_delete(rows.db)


# -- Files -----------------------------------------------------------------------------------------


def delete_old_uploads(*, now: datetime) -> None:
    """Delete temporary files of uploads whose process was killed."""
    folder = Path(settings.FILE_UPLOAD_TEMP_DIR or tempfile.gettempdir())
    oldest = (now - UPLOADS_KEPT_FOR).timestamp()
    for path in folder.glob("tmp*.upload*"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


# -- A clock that was wrong ------------------------------------------------------------------------

TOLERANCE = timedelta(minutes=1)  # the clocks of two servers may differ by less
# A worker may still be alive and at work: its lease is shortened, not ended.
REST_OF_LEASE = timedelta(seconds=30)


def make_clock_check() -> Callable[[], bool]:
    """Return a function that says whether the clock ran evenly since the function's last call."""
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
    _bring_back(Session.objects.all(), "expire_date", now + age, now + age + TOLERANCE)
    windows = RateLimit.objects.filter(window_started_at__gt=now + TOLERANCE)
    if windows.exists():  # on SQLite, a DELETE of nothing would still wait for its turn
        windows.delete()


def _bring_back(rows: QuerySet[Any], field: str, to: Any, latest: Any) -> None:
    """Set `field` to `to` where it is later than `latest`; write nothing if it never is."""
    late = rows.filter(**{f"{field}__gt": latest})
    if late.exists():
        late.update(**{field: to})


def _bring_back_calls(now: datetime) -> None:
    waiting = Call.objects.filter(state=Call.State.WAITING)
    for field in ("due_at", "enqueue_after"):
        _bring_back(waiting, field, now, now + LONGEST_PAUSE + TOLERANCE)
    handed_out = waiting.filter(due_at__lte=now)
    _bring_back(handed_out, "enqueue_after", now, now + HANDED_OUT + TOLERANCE)
    held = Call.objects.filter(state=Call.State.RUNNING)
    longest = max(map(lease_of, settings.MODEL_ENDPOINTS.values()), default=LONGEST_PAUSE)
    _bring_back(held, "lease_expires_at", now + REST_OF_LEASE, now + longest + TOLERANCE)


def _bring_back_paces(now: datetime) -> None:
    """An endpoint is paused for a minute's limit or the longest Retry-After at most."""
    latest = (now + LONGEST_PAUSE + 3 * TOLERANCE).timestamp()
    for field in ("requests_until", "tokens_until"):
        _bring_back(EndpointPace.objects.all(), field, now.timestamp(), latest)


def _bring_back_deliveries(now: datetime) -> None:
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING)
    for attempts, pause in enumerate((timedelta(0), *notices.PAUSES)):
        rows = waiting.filter(attempts=attempts)
        _bring_back(rows, "due_at", now, now + pause + TOLERANCE)
    _bring_back(waiting, "lease_expires_at", now, now + notices.ENQUEUE_AGAIN + TOLERANCE)
    held = Delivery.objects.filter(state=Delivery.State.RUNNING)
    latest = now + notices.LEASE + TOLERANCE
    _bring_back(held, "lease_expires_at", now + REST_OF_LEASE, latest)
