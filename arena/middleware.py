"""Ringside's own middleware."""

import gzip
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers

from arena.api.core.errors import CONTENT_TYPE, Busy, TooLarge, problem
from arena.files.tables import AT_MOST_BYTES
from arena.language import translated
from arena.logs import begin_request, safe_path

SIGNED_IN = "signed_in"
COMPRESSIBLE = ("text/css", "text/javascript", "application/javascript", "image/svg+xml")
access = logging.getLogger("arena.access")


def log_requests(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Log each request with its id, and return the id as X-Request-ID.

    The line has neither address nor cookies, and nothing of the query string.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        request_id = begin_request(request)
        response = get_response(request)
        response["X-Request-ID"] = request_id
        fields = {
            "method": request.method,
            "path": safe_path(request),
            "status": response.status_code,
            "milliseconds": round(1000 * (time.monotonic() - started), 1),
        }
        access.info("%(method)s %(path)s %(status)s", fields, extra={"fields": fields})
        return response

    return middleware


RETRY_AFTER = "5"  # seconds
REFUSED = {f"ringside.{why}" for why in ("is_crowded", "is_full", "body_limit")}
MOST_MEGABYTES = f"{AT_MOST_BYTES // 1_000_000:,}"


def refuse_requests(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Refuse a request that `arena.wsgi` has marked, and whose body it has not read: with 413 if it
    is too large, and with 503 if no thread is free for it, or the disk has no room for it."""

    @translated
    def refuse(request: HttpRequest) -> HttpResponse:
        marks = request.META
        error: TooLarge | Busy
        if limit := marks.get("ringside.body_limit", 0) >> 20:
            is_bulk = limit > 1
            error = TooLarge(
                f"The body is larger than the limit of {limit} MB."
                + ("" if is_bulk else " Larger ones are read from whoever may import files there.")
            )
            context = {"limit": limit, "is_file": is_bulk, "max_file_size": MOST_MEGABYTES}
            page = render_to_string("413.html", context)
        elif "ringside.is_full" in marks:
            error = Busy("The disk of this site is full. Nothing was saved.")
            page = render_to_string("503.html", {"is_full": True})
        else:
            error = Busy("Too many people are using this site at once. Nothing was saved.")
            page = render_to_string("503.html", {"is_crowded": True})
        headers = {"Retry-After": RETRY_AFTER} if isinstance(error, Busy) else {}
        if not request.path.startswith("/api/"):
            return HttpResponse(page, status=error.status_code, headers=headers)
        about = problem(error, instance=request.path)
        return JsonResponse(
            about, status=error.status_code, content_type=CONTENT_TYPE, headers=headers
        )

    def middleware(request: HttpRequest) -> HttpResponseBase:
        is_marked = not REFUSED.isdisjoint(request.META)
        return refuse(request) if is_marked else get_response(request)

    return middleware


def forget_impossible_cookies(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Drop cookies that contain NUL: we never set one, and PostgreSQL cannot store NUL."""

    def middleware(request: HttpRequest) -> HttpResponse:
        for name in [name for name, value in request.COOKIES.items() if "\0" in value]:
            del request.COOKIES[name]
        return get_response(request)

    return middleware


def set_signed_in_cookie(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Keep the cookie `signed_in`, which scripts can read, in step with the session.

    The cookie identifies nobody and grants nothing. Pages that are cached for everybody use it to
    choose between "Sign in" and "Your account".
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        session = request.session
        # Do not load a session that the page did not use: cached pages must stay without one. After
        # an error the session may be unreadable, because the database is away.
        if session.accessed and response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
            has_cookie = SIGNED_IN in request.COOKIES
            if SESSION_KEY not in session:
                if has_cookie:
                    response.delete_cookie(SIGNED_IN, samesite="Lax")
            elif session.modified or not has_cookie:
                response.set_cookie(
                    SIGNED_IN,
                    "1",
                    max_age=session.get_expiry_age(),
                    samesite="Lax",
                    secure=settings.SESSION_COOKIE_SECURE,
                )
        return response

    return middleware


def compress_static(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Compress scripts and stylesheets when they are first requested, and keep them compressed.

    In production they are compressed on disk, so none comes here without its encoding.
    """
    kept: dict[tuple[str, str], bytes] = {}

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not (
            request.method == "GET"
            and request.path.startswith(settings.STATIC_URL)
            and response.status_code == HTTPStatus.OK
            and response.get("Content-Type", "").startswith(COMPRESSIBLE)
            and not response.has_header("Content-Encoding")
        ):
            return response
        patch_vary_headers(response, ["Accept-Encoding"])
        if "gzip" not in request.headers.get("Accept-Encoding", ""):
            return response
        key = request.path, response["ETag"]
        if key not in kept:
            kept[key] = gzip.compress(b"".join(cast("Any", response)), mtime=0)
        compressed = HttpResponse(kept[key], headers=dict(response.items()))
        compressed["Content-Encoding"] = "gzip"
        compressed["Content-Length"] = str(len(kept[key]))
        response.close()
        return compressed

    return middleware


def believe_trusted_proxies(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Keep only the value of X-Forwarded-Proto that the outermost trusted proxy set.

    Django reads the first of several values, which a client may have sent.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        protocols = request.META.get("HTTP_X_FORWARDED_PROTO", "").split(",")
        if settings.TRUSTED_PROXIES and len(protocols) > 1:
            outermost = protocols[-min(settings.TRUSTED_PROXIES, len(protocols))]
            request.META["HTTP_X_FORWARDED_PROTO"] = outermost.strip()
        return get_response(request)

    return middleware
