"""What a page says that could not be made."""

import sys
from http import HTTPStatus

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

TRY_AGAIN_AFTER = "5"  # seconds


def fault(request: HttpRequest) -> HttpResponse:
    """Answer 503 where the database was busy or away, which passes, and 500 for all other faults.

    The page asks nothing of the database. Django calls this while it handles the exception.
    """
    if not isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return server_error(request)
    return HttpResponse(
        render_to_string("503.html"),
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": TRY_AGAIN_AFTER},
    )
