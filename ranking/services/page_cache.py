"""Pages of boards, rendered once and stored as the bytes that are sent."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import connection

from arena.models import Arena
from ranking.models import BoardPage
from ranking.models.tallies import BoardPageQuerySet

LEVEL = 6
PRIVATE = Arena.Visibility.PRIVATE.value
PUBLIC = Arena.Visibility.PUBLIC.value


@dataclass(frozen=True)
class Page:
    """Gzip bytes, and the ETag of their content."""

    etag: str
    body: bytes


def find(*, slug: str, key: str) -> Page | None:
    """The stored page of a public or unlisted arena; one query."""
    return _fetch(_by_slug(), [PRIVATE, slug, key])


def find_of_board(*, board: int, key: str) -> Page | None:
    """The stored page of the public arena that a board belongs to; one query."""
    return _fetch(_by_board(), [PUBLIC, board, key])


def _fetch(statement: str, parameters: list[Any]) -> Page | None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        row = cursor.fetchone()
    return None if row is None else Page(row[0], bytes(row[1]))


@cache
def _by_slug() -> str:
    return _sql(BoardPage.objects.fresh("slug", "key"), [PRIVATE, "slug", "key"])


@cache
def _by_board() -> str:
    return _sql(BoardPage.objects.fresh_of_board(1, "key"), [PUBLIC, 1, "key"])


def _sql(rows: BoardPageQuerySet, parameters: list[Any]) -> str:
    """Build the query once: that takes ten times as long as running it, and longer than the rest
    of the request."""
    sql, actual = rows.values_list("etag", "body").query.sql_with_params()
    assert list(actual) == parameters
    return str(sql)


def find_for_members(*, arena: Arena, key: str) -> Page | None:
    """The stored page of any arena; the caller has checked access to the arena."""
    row = BoardPage.objects.of_arena(arena, key).values_list("etag", "body").first()
    return None if row is None else Page(row[0], bytes(row[1]))


def pack(content: str) -> Page:
    """Compress a page. The ETag is weak, as it stands for the content in any encoding."""
    data = content.encode()
    # Without a time in the gzip header, equal pages are equal bytes.
    return Page(f'W/"{hashlib.sha256(data).hexdigest()[:32]}"', gzip.compress(data, LEVEL, mtime=0))


def store(*, arena: Arena, epoch: int | None, key: str, page: Page) -> None:
    """Store a page made from the arena's boards as of `epoch`, in one statement."""
    if epoch is None:  # not opened yet: nothing would mark the page as outdated
        return
    row = BoardPage(arena=arena, key=key, epoch=epoch, etag=page.etag, body=page.body)
    BoardPage.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["arena", "key"],
        update_fields=["epoch", "etag", "body"],
    )
