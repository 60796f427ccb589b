"""How pages are sent: compressed where that is understood, not at all where they are known."""

import gzip
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from csp.decorators import csp_update
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response, patch_vary_headers

from ranking.pages.reading import find_arena
from ranking.services import pages
from ranking.services.pages import Page

HTML, CSV, JSON = "text/html; charset=utf-8", "text/csv; charset=utf-8", "application/json"
TAKES_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
# Plotly adds one empty <style> element, and fills it through the DOM: this is the hash of nothing.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def allow_plotly(view: View) -> View:
    """Let the page's policy allow the one style element that Plotly adds."""
    return cast(View, csp_update({"style-src": ["'self'", EMPTY_STYLE]})(view))


def send(request: HttpRequest, page: Page, content_type: str) -> HttpResponseBase:
    """Answer with a page, or with 304 where the reader has it."""
    known: HttpResponseBase | None = get_conditional_response(request, etag=page.etag)
    response = known or _full(request, page, content_type)
    response.headers["ETag"] = page.etag
    response.headers["Cache-Control"] = "no-cache"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


def _full(request: HttpRequest, page: Page, content_type: str) -> HttpResponse:
    if not TAKES_GZIP.search(request.headers.get("Accept-Encoding", "")):
        return HttpResponse(gzip.decompress(page.body), content_type=content_type)
    response = HttpResponse(page.body, content_type=content_type)
    response.headers["Content-Encoding"] = "gzip"
    return response


def send_template(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponseBase:
    """Render a page that is not stored, and send it."""
    return send(request, pages.pack(render_to_string(template, context)), HTML)


def send_stored(
    request: HttpRequest,
    slug: str,
    key: str,
    content_type: str,
    make: Callable[[Any], str],
) -> HttpResponseBase:
    """Send the stored page; where there is none, make it from the arena and store it."""
    page = pages.find(slug=slug, key=key)
    if page is None:
        arena = find_arena(slug)
        page = pages.pack(make(arena))
        pages.keep(arena=arena, epoch=arena.page_epoch, key=key, page=page)
    return send(request, page, content_type)
