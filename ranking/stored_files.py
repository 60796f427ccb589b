"""Stored exports as responses, with ETags and ranges; only so many are downloaded at once."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import IO, Any
from weakref import finalize

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response

from arena.api.core.errors import TooMany
from ranking.models import ExportFile
from ranking.services.exports import storage

PIECE = 1 << 18
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
# A download that is slowly read keeps a thread of the server, not one of those that make pages.
_downloads = BoundedSemaphore(100)
RETRY_AFTER = 5  # seconds
OUTDATED = "The file is outdated. Request the export again."


class Download(StreamingHttpResponse):
    """Part of a stored file; it keeps its place until it is sent, fails, or its client hangs up."""

    def __init__(self, file: IO[bytes], start: int, length: int, **about: Any) -> None:
        if not _downloads.acquire(blocking=False):
            file.close()
            raise TooMany("Too many downloads at a time. Try again in a few seconds.", RETRY_AFTER)
        # Not a plain release: a server may close an answer twice, or drop it without closing.
        self._end = finalize(self, _end_download, file, _downloads)
        super().__init__(_pieces(file, start, length), **about)

    def close(self) -> None:
        super().close()
        self._end()


def _end_download(file: IO[bytes], places: BoundedSemaphore) -> None:
    file.close()
    places.release()


def _pieces(file: IO[bytes], start: int, length: int) -> Iterator[bytes]:
    file.seek(start)
    while length > 0 and (piece := file.read(min(PIECE, length))):
        length -= len(piece)
        yield piece


def send_stored(
    request: HttpRequest, file: ExportFile, *, content_type: str, name: str
) -> HttpResponseBase:
    """Send a file that is ready, the range of it that is asked for, or 304 if the client has it.

    Raises Http404 if the file was deleted a moment ago.
    """
    response: HttpResponseBase | None = get_conditional_response(request, etag=file.etag)
    if response is None:
        response = _send_range(request, file, content_type)
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["ETag"] = file.etag
    response.headers["Accept-Ranges"] = "bytes"
    return response


def _send_range(request: HttpRequest, file: ExportFile, content_type: str) -> HttpResponseBase:
    wanted = request.headers.get("Range", "") if request.method == "GET" else ""
    # Of other units, of several ranges, and of a file that has changed since, all is sent.
    is_range = wanted.startswith("bytes=") and "," not in wanted
    is_range &= request.headers.get("If-Range", file.etag) == file.etag
    start, end = range_of(wanted, file.size) if is_range else (0, file.size)
    if is_range and start >= end:
        refused = HttpResponse(status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
        refused.headers["Content-Range"] = f"bytes */{file.size}"
        return refused
    response: HttpResponseBase
    if request.method == "HEAD":
        response = HttpResponse(content_type=content_type)
    else:
        try:
            opened: IO[bytes] = storage().open(file.stored_as, "rb")
        except FileNotFoundError:
            raise Http404(OUTDATED) from None
        response = Download(opened, start, end - start, content_type=content_type)
    response.headers["Content-Length"] = str(end - start)
    if is_range:
        response.status_code = HTTPStatus.PARTIAL_CONTENT
        response.headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    return response


def range_of(wanted: str, size: int) -> tuple[int, int]:
    """The first byte, and the one after the last; an empty range for one that cannot be sent."""
    found = RANGE.fullmatch(wanted.strip())
    if found is None or found[0] == "bytes=-":
        return 0, 0
    first, last = found.groups()
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last), size - 1) + 1 if last else size
