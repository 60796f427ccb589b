"""Deletes rows and uploads that are kept for a limited time.

Old rows are deleted in small batches, so that nobody has to wait; every statement repeats its
conditions, and the database's foreign keys refuse the rest.
"""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from arena.models import (
    AuditEntry,
    Comparison,
    Delivery,
    IdempotentRequest,
    KeptUpload,
    LiveConversation,
    NetworkKey,
    Notice,
    RateLimit,
    Rater,
    Vote,
)
from arena.services import idempotency, live, rate_limits

UPLOADS_KEPT_FOR = timedelta(days=1)
BATCH = 500


def delete_old_rows(*, now: datetime) -> None:
    """Delete every row that has been kept long enough; running it twice does no harm."""
    live.delete_old(now=now)
    hits = RateLimit.objects.filter(window_started_at__lte=now - rate_limits.KEPT_FOR)
    keys = IdempotentRequest.objects.filter(created_at__lte=now - idempotency.KEPT_FOR)
    for rows in (
        hits,
        keys,
        KeptUpload.objects.filter(expires_at__lte=now),
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
        ~Exists(LiveConversation.objects.filter(comparison=OuterRef("pk"))),
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
        ~Exists(LiveConversation.objects.filter(rater=OuterRef("pk"))),
        kind=Rater.Kind.PERSON,
        user=None,
        arena=None,
        blocked_at=None,
        created_at__lte=now - timedelta(days=settings.KEEP_RATERS_DAYS),
    )


def _delete_in_batches(rows: QuerySet[Any]) -> None:
    """Delete rows but nothing that refers to them: a cascade could delete a vote just cast."""
    last: Any = None
    while True:
        batch = rows.filter(pk__gt=last) if last is not None else rows
        ids = list(batch.order_by("pk").values_list("pk", flat=True)[:BATCH])
        if not ids:
            return
        last = ids[-1]
        with suppress(IntegrityError), transaction.atomic():
            rows.filter(pk__in=ids)._raw_delete(rows.db)


def delete_old_uploads(*, now: datetime) -> None:
    """Delete temporary files of uploads whose process was killed."""
    folder = Path(settings.FILE_UPLOAD_TEMP_DIR or tempfile.gettempdir())
    oldest = (now - UPLOADS_KEPT_FOR).timestamp()
    for path in folder.glob("tmp*.upload*"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()
