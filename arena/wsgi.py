"""The WSGI entry point that the web server calls.

The server has a thread for each client. That thread reads the request's body, however slowly it
arrives, and then waits until one of our own WEB_THREADS has answered. So slow clients keep nobody
from their turn, and only our threads, which last, have connections to the database.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from tempfile import SpooledTemporaryFile
from threading import Semaphore
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")

# Beyond WEB_THREADS, so many requests wait for so many seconds; others are refused.
WAITING, PATIENCE = 200, 20.0
LARGEST_BODY = 1 << 28
IN_MEMORY, PIECE = 1 << 20, 1 << 16
_pages: Any = get_wsgi_application()
_threads = ThreadPoolExecutor(settings.WEB_THREADS, thread_name_prefix="web")
_places = Semaphore(settings.WEB_THREADS + WAITING)
Start = Callable[..., Any]


def application(environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
    """Answer a request: read its body, wait for a thread, or refuse it if too many wait."""
    if status := _read_body(environ):
        start_response(f"{status} {status.phrase}", [("Content-Type", "text/plain")])
        return [status.phrase.encode()]
    if environ["PATH_INFO"] == "/healthz" and not environ["QUERY_STRING"]:
        return _answer(environ, start_response)  # a busy process is alive
    if not _places.acquire(blocking=False):
        return _refuse(environ, start_response)
    try:
        answer = _threads.submit(_answer, environ, start_response)
        try:
            return answer.result(PATIENCE)
        except TimeoutError:
            if answer.cancel():
                return _refuse(environ, start_response)
            return answer.result()
    finally:
        _places.release()


def _read_body(environ: dict[str, Any]) -> HTTPStatus | None:
    """Replace `wsgi.input` by a file with the whole body; return what is wrong with it, if it is.

    Django knows the length of a body by its header only, which one in chunks does not have.
    """
    declared = environ.get("CONTENT_LENGTH", "")
    if not declared and "HTTP_TRANSFER_ENCODING" not in environ:
        return None
    body, size = SpooledTemporaryFile(IN_MEMORY), 0  # noqa: SIM115  (pages read it later)
    while size <= LARGEST_BODY and (piece := environ["wsgi.input"].read(PIECE)):
        size += body.write(piece)
    if size > LARGEST_BODY:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    if declared and size != int(declared):  # the client has gone
        return HTTPStatus.BAD_REQUEST
    body.seek(0)
    environ |= {"wsgi.input": body, "CONTENT_LENGTH": str(size)}
    return None


def _answer(environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
    response = _pages(environ, start_response)
    if response.streaming:  # the server's thread goes on, maybe for long
        close_old_connections()
        return response  # type: ignore[no-any-return]
    body = [b"".join(response)]
    response.close()
    return body


def _refuse(environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
    """Let `arena.middleware.refuse_crowds` say so: that takes neither a turn nor the database."""
    return _answer(environ | {"ringside.is_crowded": True}, start_response)
