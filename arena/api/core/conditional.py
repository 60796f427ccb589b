"""ETags: what was read is not sent again, and what somebody else changed is not overwritten."""

import hashlib
import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response, patch_cache_control, patch_vary_headers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from arena.api.core.problems import PreconditionFailed

TAG = re.compile(r'(?:W/)?("[^"]*")')


def etag_of(body: bytes) -> str:
    """Return the strong ETag of a body."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def with_etag(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Give a GET's answer its ETag, or answer 304 where the client has it already.

    What one reader sees, another may not: every answer belongs to whoever asked.
    """
    if "Cache-Control" not in response.headers:
        patch_cache_control(response, private=True, no_cache=True)
    patch_vary_headers(response, ["Authorization", "Cookie"])
    if request.method not in ("GET", "HEAD") or response.status_code != 200 or response.streaming:
        return response
    if "ETag" in response.headers:  # of a stored page, and compared already
        return response
    etag = etag_of(_plain(response))
    response.headers["ETag"] = etag
    found = get_conditional_response(request, etag=etag, response=response)
    assert found is not None, "with a response given, one is returned"
    return found


def _plain(response: HttpResponse) -> bytes:
    """The body as it is without `indent=4` in Accept, which a reader's eyes asked for."""
    if "indent" in getattr(response, "accepted_media_type", ""):
        return _rendered(response.data)  # type: ignore[attr-defined]  # it is REST framework's
    return response.content


def _rendered(data: Any) -> bytes:
    return bytes(JSONRenderer().render(data))


def check_match(request: Request, data: Any) -> None:
    """Raise PreconditionFailed unless If-Match names the state that `data` shows, or is absent.

    Proxies that compress make an ETag weak; it names the same state.
    """
    header = request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return
    if etag_of(_rendered(data)) not in TAG.findall(header):
        raise PreconditionFailed
