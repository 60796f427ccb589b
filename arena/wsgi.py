"""The WSGI entry point that the web server calls."""

import os
from collections.abc import Callable, Iterable
from http import HTTPStatus
from tempfile import SpooledTemporaryFile
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")

LARGEST_BODY = 1 << 28
IN_MEMORY = 1 << 20
PIECE = 1 << 16
_pages = get_wsgi_application()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request once its body has arrived.

    Bodies are read here, before the request takes its turn (`arena.middleware.take_turns`), so that
    clients which send slowly keep nobody from theirs.
    """
    declared = environ.get("CONTENT_LENGTH", "")
    if declared or "HTTP_TRANSFER_ENCODING" in environ:
        # Closed with the last reference to it: a page may keep a file that was uploaded.
        body, size = SpooledTemporaryFile(IN_MEMORY), 0  # noqa: SIM115
        while size <= LARGEST_BODY and (piece := environ["wsgi.input"].read(PIECE)):
            size += body.write(piece)
        if size > LARGEST_BODY:
            return _refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, start_response)
        if declared and size != int(declared):  # the client has gone, or never sent it all
            return _refuse(HTTPStatus.BAD_REQUEST, start_response)
        body.seek(0)
        environ |= {"wsgi.input": body, "CONTENT_LENGTH": str(size)}
    return _pages(environ, start_response)


def _refuse(status: HTTPStatus, start_response: Callable[..., Any]) -> list[bytes]:
    start_response(f"{status} {status.phrase}", [("Content-Type", "text/plain")])
    return [status.description.encode()]
