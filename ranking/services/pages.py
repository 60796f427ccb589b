"""Pages of boards, made once and kept as the bytes that are sent."""

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache

from django.db import connection

from arena.models import Arena
from ranking.models import BoardPage

LEVEL = 6


@dataclass(frozen=True)
class Page:
    """Gzip bytes, and the ETag of what they hold."""

    etag: str
    body: bytes


def find(*, slug: str, key: str) -> Page | None:
    """The stored page, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(_statement(), [slug, key])
        row = cursor.fetchone()
    return None if row is None else Page(row[0], bytes(row[1]))


@cache
def _statement() -> str:
    """The SQL of `BoardPage.fresh`, built once: building it takes ten times as long as running it,
    and more than all the rest of the request."""
    query = BoardPage.objects.fresh("slug", "key").values_list("etag", "body").query
    sql, parameters = query.sql_with_params()
    assert list(parameters) == ["slug", "key"]
    return str(sql)


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
