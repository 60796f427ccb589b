"""Telling a page that was stored for everybody whether its reader is signed in."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponse

SIGNED_IN = "signed_in"


def tell_browser(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Keep the cookie `signed_in`, which scripts may read, true to the session beside it.

    It names nobody and opens nothing: it only chooses words on pages that know no request.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        session = request.session
        # A session that was not looked at says nothing, and pages for everybody stay without one.
        if session.accessed:
            is_told = SIGNED_IN in request.COOKIES
            if SESSION_KEY not in session:
                if is_told:
                    response.delete_cookie(SIGNED_IN, samesite="Lax")
            elif session.modified or not is_told:
                _tell(response, session.get_expiry_age())
        return response

    return middleware


def _tell(response: HttpResponse, seconds: int) -> None:
    response.set_cookie(
        SIGNED_IN, "1", max_age=seconds, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE
    )
