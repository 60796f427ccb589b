"""Idempotency keys: a request is carried out once, however often it is sent.

The key and the reply are written in the transaction that does the work, so a crash leaves neither.
A second request with the same key waits for the first one's transaction: at the unique constraint
on PostgreSQL, at the write lock on SQLite. A half-done request is never visible.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus

from django.db import OperationalError, connection, transaction

from arena.models import IdempotentRequest
from arena.services.locks import retry_on_deadlock

KEPT_FOR = timedelta(hours=24)
HALF = 32  # hex digits of a fingerprint for the request; the other half is for the rights
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
LOCK_NOT_AVAILABLE = "55P03"
# Literal statements, because PostgreSQL takes no parameters in SET.
SET_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '20s'"
RESET_LOCK_TIMEOUT = "SET LOCAL lock_timeout TO DEFAULT"


class IdempotencyKeyError(Exception):
    """The key was already used for a different request."""


class FirstRequestRunningError(Exception):
    """The first request with the key is still running after the longest wait."""


@dataclass(frozen=True)
class StoredReply:
    """A reply, byte for byte."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_repeated: bool = False


@retry_on_deadlock
def carry_out_once(
    *,
    owner: str,
    key: str,
    fingerprint: str,
    now: datetime,
    work: Callable[[], StoredReply],
    rights: str = "",
) -> StoredReply:
    """Return the reply of `work`, or its stored reply if the key was used before.

    `work` runs in this transaction. An exception rolls back everything, including the key; a reply
    that asks for a retry (429, 5xx) removes the key. If the caller's `rights` have changed and the
    request would now be refused, the refusal is returned. Raises IdempotencyKeyError and
    FirstRequestRunningError.
    """
    with transaction.atomic():
        fingerprint = fingerprint[:HALF] + hashlib.sha256(rights.encode()).hexdigest()[:HALF]
        claim, is_first = _claim_key(owner, key, fingerprint, now)
        if not is_first:
            if claim.fingerprint[:-HALF] != fingerprint[:-HALF]:
                raise IdempotencyKeyError
            if claim.fingerprint != fingerprint and (reply := _carry_out(work)).status in REFUSED:
                return reply
            assert claim.status is not None, "a key is committed together with its answer"
            return replace(
                StoredReply(claim.status, claim.headers, bytes(claim.body)), is_repeated=True
            )
        reply = work()
        if reply.status == HTTPStatus.TOO_MANY_REQUESTS or reply.status >= 500:
            claim.delete()
            return reply
        claim.status, claim.headers, claim.body = reply.status, reply.headers, reply.body
        claim.save(update_fields=["status", "headers", "body"])
    return reply


def _claim_key(
    owner: str, key: str, fingerprint: str, now: datetime
) -> tuple[IdempotentRequest, bool]:
    """Write the key, or find its row; return whether this is the first request with it.

    Waits for a running request with the same key.
    """
    rows = IdempotentRequest.objects.filter(owner=owner, key=key)
    with _lock_timeout():
        rows.filter(created_at__lte=now - KEPT_FOR).delete()
        return rows.get_or_create(
            defaults={
                "owner": owner,
                "key": key,
                "fingerprint": fingerprint,
                "created_at": now,
            }
        )


def _carry_out(work: Callable[[], StoredReply]) -> StoredReply:
    """Return the reply that `work` would give; roll back its writes."""
    with transaction.atomic():
        reply = work()
        transaction.set_rollback(True)
    return reply


@contextmanager
def _lock_timeout() -> Iterator[None]:
    """Limit the wait for another request's lock; raise FirstRequestRunningError after it."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(SET_LOCK_TIMEOUT)
    try:
        yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == LOCK_NOT_AVAILABLE:
            raise FirstRequestRunningError from None
        raise
    with connection.cursor() as cursor:
        cursor.execute(RESET_LOCK_TIMEOUT)
