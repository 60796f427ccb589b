"""The page that answers an error, which Django calls outside of any view."""

import sys
from http import HTTPStatus

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from arena.language import translated
from arena.middleware import RETRY_AFTER


@translated
def fault(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is busy or unavailable, and 500 for all other errors.

    Django calls this while it handles the exception. The page must not use the database.
    """
    if not isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return server_error(request)
    return HttpResponse(
        render_to_string("503.html"),
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": RETRY_AFTER},
    )
