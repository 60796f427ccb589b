"""Limits on attempts to sign in, to sign up and to have emails sent."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy

from arena.mailboxes import LONGEST_ADDRESS, mailbox
from arena.services.rate_limits import allow, client_address

MINUTES = timedelta(minutes=5)
HOUR = timedelta(hours=1)


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
    "new-email": Limit(20, 5, 10, HOUR),
    "new-password": Limit(20, 20, 20, MINUTES),
    "invitation": Limit(60, 60, 60, MINUTES),
}
WAIT = {
    MINUTES: gettext_lazy("Wait five minutes, then try again."),
    HOUR: gettext_lazy("Wait an hour, then try again."),
}
FROM_ADDRESS = gettext_lazy("Too many attempts from your network address.")
FOR_ACCOUNT_FROM_ADDRESS = gettext_lazy(
    "Too many attempts with this user name or email address from your network address."
)
FOR_ACCOUNT = gettext_lazy(
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
            return f"{message} {WAIT[limit.window]}"
    return ""


def _counters(action: str, limit: Limit, address: str, name: str) -> Iterator[tuple[str, int, Any]]:
    """Yield, in order, the key, the limit and the message of each counter."""
    yield f"{action}:{address}", limit.per_address, FROM_ADDRESS
    if not name:
        return
    account = _account_key(name)
    here = _digest(f"{account} {address}")
    yield f"{action}:here:{here}", limit.per_account_here, FOR_ACCOUNT_FROM_ADDRESS
    yield f"{action}:{account}", limit.per_account, FOR_ACCOUNT


def _account_key(name: str) -> str:
    """Return one key for all names of a mailbox or an account, and a digest for an unknown name.

    So unknown names are counted too, without storing addresses in the table of limits, and nobody
    sends one mailbox many emails by writing its address in many ways.
    """
    # PostgreSQL rejects some unprintable characters, SQLite very long texts.
    if name.isprintable() and len(name) <= LONGEST_ADDRESS:
        named = Q(username__iexact=name) | Q(email__iexact=name)
        users = get_user_model().objects.filter(named | Q(emailaddress__email__iexact=name))
        if user := users.order_by("pk").first():
            if not user.email:
                return f"account:{user.pk}"
            name = user.email
    name = name.upper().casefold()
    return f"name:{_digest(mailbox(name) if '@' in name else name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
