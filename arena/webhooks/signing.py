"""Signatures of webhooks after the Standard Webhooks specification, version 1.0.0."""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping

SECRET_PREFIX = "whsec_"  # noqa: S105 - how every secret begins, and no secret
SECRET_BYTES = 32
VERSION = "v1"
TOLERANCE = 5 * 60

# A dot would let one delivery's id pass for another's id and timestamp.
DELIVERY_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
TIMESTAMP = re.compile(r"[0-9]{1,12}")


def new_secret() -> str:
    """Return a fresh secret, to be shown to the receiver once."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sign(secret: str, *, body: bytes, timestamp: int, delivery_id: str) -> dict[str, str]:
    """Return the headers that prove who sent `body`, and when (seconds since 1970).

    The id stays the same when a delivery is tried again; the timestamp is that of the attempt.
    Raises ValueError for a secret or an id that is none.
    """
    if not DELIVERY_ID.fullmatch(delivery_id):
        raise ValueError("The id of a delivery has letters, digits, _ and - only.")
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": _signature(secret, delivery_id, str(timestamp), body),
    }


def verify(secret: str, *, body: bytes, headers: Mapping[str, str], now: float) -> bool:
    """Say whether `headers` prove that `body` was signed with `secret` in the last five minutes.

    Any of several signatures will do, so that a receiver lives through a change of secrets. Works
    on the bytes of the body as they came. Raises ValueError for a secret that is none.
    """
    given = {name.lower(): value for name, value in headers.items()}
    delivery_id = given.get("webhook-id", "")
    timestamp = given.get("webhook-timestamp", "")
    if not DELIVERY_ID.fullmatch(delivery_id) or not TIMESTAMP.fullmatch(timestamp):
        return False
    expected = _signature(secret, delivery_id, timestamp, body).encode()
    signatures = given.get("webhook-signature", "").split()
    genuine = any(hmac.compare_digest(one.encode(errors="replace"), expected) for one in signatures)
    return genuine and abs(now - int(timestamp)) <= TOLERANCE


def _signature(secret: str, delivery_id: str, timestamp: str, body: bytes) -> str:
    content = f"{delivery_id}.{timestamp}.".encode() + body
    digest = hmac.new(_key(secret), content, hashlib.sha256).digest()
    return f"{VERSION},{base64.b64encode(digest).decode()}"


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ValueError("The secret of a webhook is whsec_ and Base64.")
    return key
