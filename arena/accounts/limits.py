"""Limits on attempts per network address and per account."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from arena.services.rate_limits import allow, client_address

LONGEST_ADDRESS = 254  # as in the account tables; user names are shorter
MINUTES, HOUR = timedelta(minutes=5), timedelta(hours=1)


@dataclass(frozen=True)
class Limit:
    """Attempts within `window`: per address, per account and address, and per account.

    One address alone must not use up `per_account`, or it could lock the owner out.
    """

    per_address: int
    per_account_here: int
    per_account: int
    window: timedelta


LIMITS = {
    "sign-in": Limit(20, 10, 500, MINUTES),
    # Each of these attempts sends an email.
    "sign-up": Limit(60, 5, 10, HOUR),
    "forgotten-password": Limit(20, 5, 10, HOUR),
    "new-password": Limit(20, 20, 20, MINUTES),
    "invitation": Limit(60, 60, 60, MINUTES),
}
WAIT = {MINUTES: "five minutes", HOUR: "an hour"}
FROM_ADDRESS = "Too many attempts from your network address."
FOR_ACCOUNT_FROM_ADDRESS = (
    "Too many attempts with this user name or email address from your network address."
)
FOR_ACCOUNT = (
    "Too many attempts with this user name or email address, including from other networks."
)


def too_many(request: HttpRequest, action: str, name: str = "") -> str:
    """Count an attempt at `action`, for the account `name` if there is one.

    Return '' if it is allowed, else a message that says how long to wait.
    """
    limit, now = LIMITS[action], timezone.now()
    # An attempt that exceeds one limit is not counted against the next. The address comes first,
    # before any account is looked up, so that attempts are counted whatever the name.
    for key, attempts, message in _counters(action, limit, client_address(request), name.strip()):
        if not allow(key=key, limit=attempts, window=limit.window, now=now):
            return f"{message} Wait {WAIT[limit.window]}, then try again."
    return ""


def _counters(action: str, limit: Limit, address: str, name: str) -> Iterator[tuple[str, int, str]]:
    """Yield, in order, the key, the limit and the message of each counter."""
    yield f"{action}:{address}", limit.per_address, FROM_ADDRESS
    if not name:
        return
    account = _account_key(name)
    here = _digest(f"{account} {address}")
    yield f"{action}:here:{here}", limit.per_account_here, FOR_ACCOUNT_FROM_ADDRESS
    yield f"{action}:{account}", limit.per_account, FOR_ACCOUNT


def _account_key(name: str) -> str:
    """Return the same key for all names of an account, and a digest for an unknown name.

    So unknown names are counted too, without storing addresses in the table of limits.
    """
    # PostgreSQL rejects some unprintable characters, SQLite very long texts.
    if name.isprintable() and len(name) <= LONGEST_ADDRESS:
        named = Q(username__iexact=name) | Q(email__iexact=name)
        users = get_user_model().objects.filter(named | Q(emailaddress__email__iexact=name))
        if user_id := users.order_by("pk").values_list("pk", flat=True).first():
            return f"account:{user_id}"
    return f"name:{_digest(name.upper().casefold())}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
