"""The page that answers an error, which Django calls outside of any view."""

import sys
from http import HTTPStatus

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from arena.errors import is_disk_full
from arena.language import translated
from arena.middleware import RETRY_AFTER


@translated
def fault(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is busy or unavailable or a disk is full, 500 to other errors.

    Django calls this while it handles the exception. The page must not use the database.
    """
    error = sys.exc_info()[1]
    is_full = is_disk_full(error)
    if not (is_full or isinstance(error, OperationalError | InterfaceError)):
        return server_error(request)
    return HttpResponse(
        render_to_string("503.html", {"is_full": is_full}),
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": RETRY_AFTER},
    )
