"""The WSGI entry point that the web server calls.

The server has a thread for each client. That thread reads the request's body, however slowly it
arrives, and then waits until one of our own WEB_THREADS has answered. So slow clients keep nobody
from their turn, and only our threads, which last, have connections to the database.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from io import BytesIO
from tempfile import SpooledTemporaryFile
from threading import Semaphore
from typing import IO, Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.wsgi import WSGIRequest
from django.core.wsgi import get_wsgi_application
from django.db import DatabaseError, close_old_connections
from django.http import HttpResponse
from django.urls import Resolver404, resolve
from django.utils import timezone

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")

# Beyond WEB_THREADS, so many requests wait for so many seconds; others are refused.
WAITING, PATIENCE = 200, 20.0
LARGEST_BODY = 1 << 20  # unless whoever is signed in sends it where files are imported
IN_MEMORY, PIECE = 1 << 20, 1 << 16
_pages: Any = get_wsgi_application()

from arena.errors import is_disk_full  # noqa: E402  (the apps have to be loaded before)
from arena.services.tokens import find_token  # noqa: E402

_threads = ThreadPoolExecutor(settings.WEB_THREADS, thread_name_prefix="web")
_places = Semaphore(settings.WEB_THREADS + WAITING)
Start = Callable[..., Any]


def application(environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
    """Answer a request once its body is here."""
    declared = environ.get("CONTENT_LENGTH", "")
    if not declared and "HTTP_TRANSFER_ENCODING" not in environ:
        return _take_turn(environ, start_response)
    with SpooledTemporaryFile(IN_MEMORY) as body:
        try:
            size, limit = _read_body(environ, body)
        except (TimeoutError, DatabaseError):  # nobody can say now who sends it
            return _refuse_request(environ, start_response, is_crowded=True)
        except OSError as error:
            if not is_disk_full(error):
                raise
            return _refuse_request(environ, start_response, is_full=True)
        if size > limit:
            return _refuse_request(environ, start_response, body_limit=limit)
        if declared and size != int(declared):  # the client has gone
            return _refuse_body(HTTPStatus.BAD_REQUEST, start_response)
        body.seek(0)
        # A body in chunks has no length, without which Django would not read it.
        complete = {"wsgi.input": body, "CONTENT_LENGTH": str(size)}
        return _take_turn(environ | complete, start_response)


def _read_body(environ: dict[str, Any], body: IO[bytes]) -> tuple[int, int]:
    """Copy the body and return its size and limit; of one that is too large, no more is read."""
    size, limit = int(environ.get("CONTENT_LENGTH") or 0), LARGEST_BODY
    if size > limit and size > (limit := _body_limit(environ)):
        return size, limit
    size = 0
    while piece := environ["wsgi.input"].read(PIECE):
        size += len(piece)
        if size > limit and size > (limit := _body_limit(environ)):
            break
        body.write(piece)
    return size, limit


def _body_limit(environ: dict[str, Any]) -> int:
    """How many bytes may be sent there, by whoever sends it; asked about large bodies alone. Raises
    TimeoutError and DatabaseError.

    A view that takes files has a `body_limit`, and so have endpoints of the API.
    """
    request = WSGIRequest(environ)
    try:
        view: Any = resolve(request.path_info).func
    except Resolver404:
        return LARGEST_BODY
    limit: int = getattr(getattr(view, "cls", view), "body_limit", LARGEST_BODY)
    if limit > LARGEST_BODY and _threads.submit(_is_signed_in, request).result(PATIENCE):
        return limit
    return LARGEST_BODY


def _is_signed_in(request: Any) -> bool:
    close_old_connections()
    try:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and find_token(secret, now=timezone.now()):
            return True
        SessionMiddleware(lambda _: HttpResponse()).process_request(request)
        return bool(get_user(request).is_authenticated)
    finally:
        close_old_connections()


def _refuse_body(status: HTTPStatus, start_response: Start) -> list[bytes]:
    start_response(f"{status:d} {status.phrase}", [("Content-Type", "text/plain")])
    return [status.phrase.encode()]


def _take_turn(environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
    """Wait for one of our threads; refuse the request if too many wait, or it has for too long."""
    if environ["PATH_INFO"] == "/healthz" and not environ["QUERY_STRING"]:
        return _answer_request(environ, start_response)  # a busy process is alive
    if not _places.acquire(blocking=False):
        return _refuse_request(environ, start_response, is_crowded=True)
    try:
        answer = _threads.submit(_answer_request, environ, start_response)
        try:
            return answer.result(PATIENCE)
        except TimeoutError:
            if answer.cancel():
                return _refuse_request(environ, start_response, is_crowded=True)
            return answer.result()
    finally:
        _places.release()


def _answer_request(environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
    response = _pages(environ, start_response)
    if response.streaming:  # the server's thread goes on, maybe for long
        close_old_connections()
        return response
    body = [b"".join(response)]
    response.close()
    return body


def _refuse_request(environ: dict[str, Any], start_response: Start, **why: int) -> Iterable[bytes]:
    """Let `arena.middleware.refuse_requests` say why, without a turn and the database."""
    marks = {f"ringside.{name}": value for name, value in why.items()}
    unread = {"wsgi.input": BytesIO(), "CONTENT_LENGTH": "0"}
    return _answer_request(environ | unread | marks, start_response)
