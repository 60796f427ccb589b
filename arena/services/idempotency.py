"""Requests that are carried out once, however often they are sent.

The key is written in the transaction that does the work, and so is the answer: a crash leaves
neither. A second request with the key waits for the first one's transaction, at the unique
constraint on PostgreSQL and for its turn to write on SQLite, so no half-done request is ever seen.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus

from django.db import OperationalError, connection, transaction

from arena.models import IdempotentRequest
from arena.services.deadlocks import tried_twice

KEPT_FOR = timedelta(hours=24)
HALF = 32  # digits: a fingerprint is of what was asked, and then of what whoever asked might do
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
LOCK_NOT_AVAILABLE = "55P03"
# Statements of their own text: PostgreSQL takes no parameters in SET.
WAIT_A_WHILE = "SET LOCAL lock_timeout = '20s'"
WAIT_AS_EVER = "SET LOCAL lock_timeout TO DEFAULT"


class KeyOfAnotherRequest(Exception):
    """The key came with another request before."""


class FirstStillAtWork(Exception):
    """The first request with the key has been at work for longer than the second would wait."""


@dataclass(frozen=True)
class Reply:
    """An answer: status, headers and body to the byte."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_repeated: bool = False


@tried_twice
def carry_out_once(
    *,
    owner: str,
    key: str,
    fingerprint: str,
    now: datetime,
    work: Callable[[], Reply],
    rights: str = "",
) -> Reply:
    """Return what `work` answers, or what it answered when the key came first.

    `work` runs in this transaction. What it raises undoes everything, the key included, and so does
    an answer that asks for another try (429, 5xx). Whoever has other `rights` by now, and would be
    refused, is refused. Raises KeyOfAnotherRequest, FirstStillAtWork.
    """
    with transaction.atomic():
        asked = fingerprint[:HALF] + hashlib.sha256(rights.encode()).hexdigest()[:HALF]
        claim, is_first = _claim(owner, key, asked, now)
        if not is_first:
            return _reply_again(claim, asked, work)
        reply = work()
        if reply.status == HTTPStatus.TOO_MANY_REQUESTS or reply.status >= 500:
            claim.delete()
            return reply
        claim.status, claim.headers, claim.body = reply.status, reply.headers, reply.body
        claim.save(update_fields=["status", "headers", "body"])
    return reply


def forget_old_requests(*, now: datetime) -> int:
    """Delete keys that have had their day; return how many."""
    deleted, _ = IdempotentRequest.objects.filter(created_at__lte=now - KEPT_FOR).delete()
    return deleted


def _claim(owner: str, key: str, fingerprint: str, now: datetime) -> tuple[IdempotentRequest, bool]:
    """Write the key, or find the row of the request that wrote it; say whether this is the first.

    Waits for whoever is at work under the key.
    """
    mine = IdempotentRequest.objects.filter(owner=owner, key=key)
    with _waiting_a_while():
        mine.filter(created_at__lte=now - KEPT_FOR).delete()
        return mine.get_or_create(
            defaults={
                "owner": owner,
                "key": key,
                "fingerprint": fingerprint,
                "created_at": now,
            }
        )


def _reply_again(claim: IdempotentRequest, asked: str, work: Callable[[], Reply]) -> Reply:
    if claim.fingerprint[:-HALF] != asked[:-HALF]:
        raise KeyOfAnotherRequest
    if claim.fingerprint != asked and (reply := _tried(work)).status in REFUSED:
        return reply
    assert claim.status is not None, "a key is committed together with its answer"
    return replace(Reply(claim.status, claim.headers, bytes(claim.body)), is_repeated=True)


def _tried(work: Callable[[], Reply]) -> Reply:
    """Return what `work` would answer; nothing of it is written."""
    with transaction.atomic():
        reply = work()
        transaction.set_rollback(True)
    return reply


@contextmanager
def _waiting_a_while() -> Iterator[None]:
    """Wait for another's lock for seconds, not for ever; raises FirstStillAtWork."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(WAIT_A_WHILE)
    try:
        yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == LOCK_NOT_AVAILABLE:
            raise FirstStillAtWork from None
        raise
    with connection.cursor() as cursor:
        cursor.execute(WAIT_AS_EVER)
