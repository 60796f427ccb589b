"""Ringside's own middleware."""

import logging
import time
from collections.abc import Callable
from http import HTTPStatus

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponse

from arena.logs import begin_request, safe_path

SIGNED_IN = "signed_in"
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
        # Do not load a session that the page did not use: cached pages must stay without one.
        # Behind a fault there may be no session to read: the database is away.
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
