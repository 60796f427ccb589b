"""Board pages: stored compressed, once per snapshot, and sent only if they changed."""

import gzip
import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from csp.decorators import csp, csp_update
from django.conf import settings
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.utils.translation import get_language

from arena.actors import actor_of
from arena.models import Arena
from ranking.board_data import find_arena
from ranking.models import BoardPage, HomePage
from ranking.models.pages import BoardPageQuerySet

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


def pack(content: str | bytes) -> Page:
    """Compress a page. The ETag is weak, because it identifies the content in any encoding."""
    data = content.encode() if isinstance(content, str) else content
    # Without a time in the gzip header, equal pages are equal bytes.
    return Page(f'W/"{hashlib.sha256(data).hexdigest()[:32]}"', gzip.compress(data, LEVEL, mtime=0))


def store(*, arena: Arena, epoch: int | None, key: str, page: Page) -> None:
    """Store a page made from the arena's boards as of `epoch`, in one statement."""
    if epoch is None:  # not opened yet: nothing would mark the page as outdated
        return
    row = BoardPage(arena=arena, key=key, epoch=epoch, etag=page.etag, body=page.body)
    with suppress(OperationalError):  # a full disk must not keep anybody from the page
        BoardPage.objects.bulk_create(
            [row],
            update_conflicts=True,
            unique_fields=["arena", "key"],
            update_fields=["epoch", "etag", "body"],
        )


def find_home(language: str) -> Page | None:
    """The stored home page, if no arena has changed since; one query."""
    return _fetch(*_home(language))


@cache
def _home(language: str) -> tuple[str, list[Any]]:
    rows = HomePage.objects.fresh(language).values_list("etag", "body")
    sql, parameters = rows.query.sql_with_params()
    return str(sql), list(parameters)


def store_home(*, language: str, state: dict[str, int], page: Page) -> None:
    """Store the home page made from arenas that were in this state."""
    with suppress(OperationalError):
        HomePage.objects.bulk_create(
            [HomePage(language=language, **state, etag=page.etag, body=page.body)],
            update_conflicts=True,
            unique_fields=["language"],
            update_fields=[*state, "etag", "body"],
        )


HTML, CSV, JSON = "text/html; charset=utf-8", "text/csv; charset=utf-8", "application/json"
TAKES_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
# Plotly adds an empty <style> element and fills it through the DOM: the hash of an empty string.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def allow_plotly(view: View) -> View:
    """Let the page's policy allow the one style element that Plotly adds."""
    return cast(View, csp_update({"style-src": ["'self'", EMPTY_STYLE]})(view))


def policy(directives: dict[str, Any]) -> Callable[[View], View]:
    """Replace the site's content security policy for a page."""
    return cast(Callable[[View], View], csp(directives))


def send(
    request: HttpRequest, page: Page, content_type: str, *, private: bool = False
) -> HttpResponseBase:
    """Answer with a page, or 304 if the reader has it; `private` ones are never cached."""
    if private:
        response = _full(request, page, content_type)
        response.headers["Cache-Control"] = "private, no-store"
        patch_vary_headers(response, ["Accept-Encoding", "Cookie"])
        return response
    not_modified: HttpResponseBase | None = get_conditional_response(request, etag=page.etag)
    answer = not_modified or _full(request, page, content_type)
    answer.headers["ETag"] = page.etag
    answer.headers["Cache-Control"] = "no-cache"
    patch_vary_headers(answer, ["Accept-Encoding"])
    return answer


def _full(request: HttpRequest, page: Page, content_type: str) -> HttpResponse:
    if not TAKES_GZIP.search(request.headers.get("Accept-Encoding", "")):
        return HttpResponse(gzip.decompress(page.body), content_type=content_type)
    response = HttpResponse(page.body, content_type=content_type)
    response.headers["Content-Encoding"] = "gzip"
    return response


def send_template(
    request: HttpRequest, template: str, context: dict[str, Any], *, private: bool = False
) -> HttpResponseBase:
    """Render a page that is not stored, and send it."""
    return send(request, pack(render_to_string(template, context)), HTML, private=private)


def send_stored(
    request: HttpRequest,
    slug: str,
    key: str,
    content_type: str,
    make: Callable[[Any], str],
) -> HttpResponseBase:
    """Send the stored page; if there is none, make it from the arena and store it.

    Pages found by the slug alone are public. Otherwise the reader must be allowed to see the arena;
    a private arena answers like a missing one.
    """
    key = in_language(key, content_type)
    page = find(slug=slug, key=key)
    if page is not None:
        return send(request, page, content_type)
    return send_made(request, find_arena(slug, actor_of(request)), key, content_type, make)


def in_language(key: str, content_type: str) -> str:
    """The key of the page in the reader's language; files are in English."""
    language = get_language() or settings.LANGUAGE_CODE
    is_translated = content_type == HTML and language != settings.LANGUAGE_CODE
    return f"{key}|{language}" if is_translated else key


def send_made(
    request: HttpRequest,
    arena: Any,
    key: str,
    content_type: str,
    make: Callable[[Any], str],
) -> HttpResponseBase:
    """`send_stored` for an arena that `find_arena` found for this reader."""
    page = find_for_members(arena=arena, key=key) if arena.is_private else None
    return send(request, page or _make(arena, key, make), content_type, private=arena.is_private)


def send_to_anybody(
    request: HttpRequest,
    slug: str,
    key: str,
    content_type: str,
    make: Callable[[Any], str | bytes],
) -> HttpResponseBase:
    """Send a page for embedding in other sites; private arenas have none, even for their teams."""
    page = find(slug=slug, key=key) or _make(find_arena(slug), key, make)
    return send(request, page, content_type)


def _make(arena: Any, key: str, make: Callable[[Any], str | bytes]) -> Page:
    page = pack(make(arena))
    store(arena=arena, epoch=arena.page_epoch, key=key, page=page)
    return page
