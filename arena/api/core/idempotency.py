"""A POST with an Idempotency-Key, which is carried out once."""

import hashlib
import re
from collections.abc import Callable

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.exceptions import ParseError
from rest_framework.request import Request

from arena.actors import Actor
from arena.api.core.errors import OtherRequest, StillAtWork
from arena.services import idempotency

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY = re.compile(r"[\x21-\x7e]{1,255}")


def key_of(request: Request) -> str:
    """Return the key of a POST, or ''; raises ParseError for an invalid key."""
    key = request.headers.get(HEADER)
    if request.method != "POST" or key is None:
        return ""
    if not KEY.fullmatch(key):
        raise ParseError(f"{HEADER} must have 1 to 255 visible ASCII characters, and no spaces.")
    return key


def run_once(
    request: Request, actor: Actor, key: str, work: Callable[[], HttpResponse]
) -> HttpResponse:
    """Return the response of `work`, or the stored one if the request was sent before."""
    try:
        reply = idempotency.carry_out_once(
            owner=actor.key,
            key=key,
            fingerprint=fingerprint(request),
            rights=actor.rights,
            now=timezone.now(),
            work=lambda: _stored_reply(work()),
        )
    except idempotency.IdempotencyKeyError:
        raise OtherRequest from None
    except idempotency.FirstRequestRunningError:
        raise StillAtWork from None
    response = HttpResponse(reply.body, status=reply.status, headers=reply.headers)
    if reply.is_repeated:
        response.headers[REPLAYED] = "true"
    return response


def fingerprint(request: Request) -> str:
    """Return a digest of the method, the path with its query, and the body."""
    _ = request.data  # reads the body, within its limit
    target = f"{request.method} {request.get_full_path()}\n".encode()
    return hashlib.sha256(target + getattr(request, "raw_body", b"")).hexdigest()


def _stored_reply(response: HttpResponse) -> idempotency.StoredReply:
    return idempotency.StoredReply(response.status_code, dict(response.headers), response.content)
