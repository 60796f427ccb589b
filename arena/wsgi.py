"""The WSGI entry point that the web server calls."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")

_pages = get_wsgi_application()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request; a HEAD request gets only the headers.

    Neither Django nor waitress leaves out the body, and on a connection that stays open, a proxy
    would take it for the response to somebody else's request.
    """
    response = _pages(environ, start_response)
    if environ["REQUEST_METHOD"] != "HEAD":
        return response
    if close := getattr(response, "close", None):
        close()
    return []
