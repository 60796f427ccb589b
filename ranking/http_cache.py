"""Sending stored and rendered pages: compressed, and only if the reader has no current copy."""

import gzip
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from csp.decorators import csp, csp_update
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response, patch_vary_headers

from arena.actors import actor_of
from ranking.board_data import find_arena
from ranking.services import page_cache
from ranking.services.page_cache import Page

HTML, CSV, JSON = "text/html; charset=utf-8", "text/csv; charset=utf-8", "application/json"
TAKES_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
# Plotly adds one empty <style> element, and fills it through the DOM: this is the hash of nothing.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def allow_plotly(view: View) -> View:
    """Let the page's policy allow the one style element that Plotly adds."""
    return cast(View, csp_update({"style-src": ["'self'", EMPTY_STYLE]})(view))


def policy(directives: dict[str, Any]) -> Callable[[View], View]:
    """Give a page this policy in place of the site's."""
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
    return send(
        request, page_cache.pack(render_to_string(template, context)), HTML, private=private
    )


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
    page = page_cache.find(slug=slug, key=key)
    if page is not None:
        return send(request, page, content_type)
    return send_made(request, find_arena(slug, actor_of(request)), key, content_type, make)


def send_made(
    request: HttpRequest,
    arena: Any,
    key: str,
    content_type: str,
    make: Callable[[Any], str],
) -> HttpResponseBase:
    """The same for an arena that `find_arena` has found for this reader."""
    page = page_cache.find_for_members(arena=arena, key=key) if arena.is_private else None
    return send(request, page or _make(arena, key, make), content_type, private=arena.is_private)


def send_to_anybody(
    request: HttpRequest,
    slug: str,
    key: str,
    content_type: str,
    make: Callable[[Any], str],
) -> HttpResponseBase:
    """Send what other sites show; private arenas have none of it, whoever asks."""
    page = page_cache.find(slug=slug, key=key) or _make(find_arena(slug), key, make)
    return send(request, page, content_type)


def _make(arena: Any, key: str, make: Callable[[Any], str]) -> Page:
    page = page_cache.pack(make(arena))
    page_cache.store(arena=arena, epoch=arena.page_epoch, key=key, page=page)
    return page
