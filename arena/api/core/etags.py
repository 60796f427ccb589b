"""ETags of responses, and requests that depend on them."""

import hashlib
import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response, patch_cache_control, patch_vary_headers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from arena.api.core.errors import PreconditionFailed

TAG = re.compile(r'(?:W/)?("[^"]*")')


def etag_of(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def with_etag(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Add the ETag to a GET's response, or return 304 if the client has it already.

    Responses depend on the actor, so they are marked as private.
    """
    if "Cache-Control" not in response.headers:
        patch_cache_control(response, private=True, no_cache=True)
    patch_vary_headers(response, ["Authorization", "Cookie"])
    if request.method not in ("GET", "HEAD") or response.status_code != 200 or response.streaming:
        return response
    if "ETag" in response.headers:  # a cached page, which has been compared already
        return response
    etag = etag_of(_body_without_indent(response))
    response.headers["ETag"] = etag
    conditional = get_conditional_response(request, etag=etag, response=response)
    assert conditional is not None, "never None if a response is given"
    return conditional


def _body_without_indent(response: HttpResponse) -> bytes:
    """Return the body unindented: the ETag must not depend on `indent=4` in Accept."""
    if "indent" in getattr(response, "accepted_media_type", ""):
        return _json_bytes(response.data)  # type: ignore[attr-defined]  # it is REST framework's
    return response.content


def _json_bytes(data: Any) -> bytes:
    return bytes(JSONRenderer().render(data))


def check_match(request: Request, data: Any) -> None:
    """Raise PreconditionFailed if there is an If-Match without the ETag of `data`.

    Weak ETags match too, because compressing proxies weaken them.
    """
    header = request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return
    if etag_of(_json_bytes(data)) not in TAG.findall(header):
        raise PreconditionFailed
