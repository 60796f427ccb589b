"""Pages of boards, made once and kept as the bytes that are sent."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import connection

from arena.models import Arena
from ranking.models import BoardPage
from ranking.models.refreshing import BoardPageQuerySet

LEVEL = 6
PRIVATE = Arena.Visibility.PRIVATE.value
PUBLIC = Arena.Visibility.PUBLIC.value


@dataclass(frozen=True)
class Page:
    """Gzip bytes, and the ETag of what they hold."""

    etag: str
    body: bytes


def find(*, slug: str, key: str) -> Page | None:
    """The stored page that anybody may have, in one query; none of a private arena."""
    return _found(_by_slug(), [PRIVATE, slug, key])


def find_of_board(*, board: int, key: str) -> Page | None:
    """The same of the public arena that a board belongs to."""
    return _found(_by_board(), [PUBLIC, board, key])


def _found(statement: str, parameters: list[Any]) -> Page | None:
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
    """The SQL of finding a page, built once: building it takes ten times as long as running it,
    and more than all the rest of the request."""
    sql, given = rows.values_list("etag", "body").query.sql_with_params()
    assert list(given) == parameters
    return str(sql)


def find_for_members(*, arena: Arena, key: str) -> Page | None:
    """The stored page of an arena that whoever asks was let into."""
    row = BoardPage.objects.of_arena(arena, key).values_list("etag", "body").first()
    return None if row is None else Page(row[0], bytes(row[1]))


def pack(content: str) -> Page:
    """Compress a page. The ETag is weak: it stands for the content in any encoding."""
    data = content.encode()
    # Without a time in the header, equal pages are equal bytes.
    return Page(f'W/"{hashlib.sha256(data).hexdigest()[:32]}"', gzip.compress(data, LEVEL, mtime=0))


def keep(*, arena: Arena, epoch: int | None, key: str, page: Page) -> None:
    """Store a page made from what the arena's boards said in `epoch`. One statement."""
    if epoch is None:  # the arena has not been opened yet: there is nothing to tell pages apart by
        return
    row = BoardPage(arena=arena, key=key, epoch=epoch, etag=page.etag, body=page.body)
    BoardPage.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["arena", "key"],
        update_fields=["epoch", "etag", "body"],
    )
