"""Ringside's own middleware."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponse

SIGNED_IN = "signed_in"


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
        if session.accessed:
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
