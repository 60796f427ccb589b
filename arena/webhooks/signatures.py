"""Signatures of webhooks: Standard Webhooks 1.0.0."""

import base64
import hashlib
import hmac
import re

SECRET_PREFIX = "whsec_"  # noqa: S105  (the prefix of every secret)
VERSION = "v1"
# Without dots: the id and the timestamp are joined by a dot before signing, and with one in the id
# the same text could stand for another id and timestamp.
DELIVERY_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


def sign(secret: str, *, body: bytes, timestamp: int, delivery_id: str) -> dict[str, str]:
    """Return the signature headers of `body`; `timestamp` is in seconds since 1970.

    A retry keeps the id but has a new timestamp. Raises ValueError for an invalid secret or id.
    """
    if not DELIVERY_ID.fullmatch(delivery_id):
        raise ValueError("The id of a delivery can contain only letters, digits, _ and -.")
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": _signature_of(secret, delivery_id, str(timestamp), body),
    }


def _signature_of(secret: str, delivery_id: str, timestamp: str, body: bytes) -> str:
    content = f"{delivery_id}.{timestamp}.".encode() + body
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ValueError("A webhook secret is whsec_ followed by Base64.")
    digest = hmac.new(key, content, hashlib.sha256).digest()
    return f"{VERSION},{base64.b64encode(digest).decode()}"
