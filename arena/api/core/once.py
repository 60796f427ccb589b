"""Idempotency-Key: a POST that is sent again is answered again, and carried out once."""

import hashlib
import re
from collections.abc import Callable

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.exceptions import ParseError
from rest_framework.request import Request

from arena.access import Actor
from arena.api.core.problems import OtherRequest, StillAtWork
from arena.services import idempotency

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY = re.compile(r"[\x21-\x7e]{1,255}")


def key_of(request: Request) -> str:
    """Return the key of a POST, '' without one; raises ParseError for one that cannot be kept."""
    key = request.headers.get(HEADER)
    if request.method != "POST" or key is None:
        return ""
    if not KEY.fullmatch(key):
        raise ParseError(f"{HEADER} must have 1 to 255 visible ASCII characters, and no spaces.")
    return key


def answered(
    request: Request, actor: Actor, key: str, work: Callable[[], HttpResponse]
) -> HttpResponse:
    """Return the answer to a request with a key: of `work`, or as it was the first time."""
    try:
        reply = idempotency.carry_out_once(
            owner=actor.key,
            key=key,
            fingerprint=fingerprint(request),
            rights=actor.rights,
            now=timezone.now(),
            work=lambda: _reply(work()),
        )
    except idempotency.KeyOfAnotherRequest:
        raise OtherRequest from None
    except idempotency.FirstStillAtWork:
        raise StillAtWork from None
    response = HttpResponse(reply.body, status=reply.status, headers=reply.headers)
    if reply.is_repeated:
        response.headers[REPLAYED] = "true"
    return response


def fingerprint(request: Request) -> str:
    """Return the digest of what was asked: method, path with its query, and every byte sent."""
    _ = request.data  # reads the body, within its limit
    asked = f"{request.method} {request.get_full_path()}\n".encode()
    return hashlib.sha256(asked + getattr(request, "raw_body", b"")).hexdigest()


def _reply(response: HttpResponse) -> idempotency.Reply:
    return idempotency.Reply(response.status_code, dict(response.headers), response.content)
