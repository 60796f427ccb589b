"""How often one address may try something, and how often it is tried with one account."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from arena.services.limits import allow
from arena.views.visitors import client_address

LONGEST_ADDRESS = 254  # as the tables of accounts have it; names are shorter
MINUTES, HOUR = timedelta(minutes=5), timedelta(hours=1)


@dataclass(frozen=True)
class Limit:
    """So many tries in `window` from one address; of those with one account, and from all.

    One address alone never uses up what an account takes from all: it would shut its owner out.
    """

    per_address: int
    per_account_here: int
    per_account: int
    window: timedelta


LIMITS = {
    "sign-in": Limit(20, 10, 500, MINUTES),
    # With each of these a mail is sent.
    "sign-up": Limit(60, 5, 10, HOUR),
    "forgotten-password": Limit(20, 5, 10, HOUR),
    "new-password": Limit(20, 20, 20, MINUTES),
    "invitation": Limit(60, 60, 60, MINUTES),
}
WAIT = {MINUTES: "five minutes", HOUR: "an hour"}
FROM_HERE = "Too many tries from your network address."
WITH_IT_FROM_HERE = "Too many tries with this name or e-mail address from your network address."
WITH_IT = "Too many tries with this name or e-mail address, from other places too."


def too_many(request: HttpRequest, action: str, name: str = "") -> str:
    """Count a try at `action`, on the account `name` if it is about one; '' where it may be.

    Else a sentence that says whose tries were too many, and how long to wait.
    """
    limit, now = LIMITS[action], timezone.now()
    # A try that is refused for one reason is not counted for the next. The address is first, before
    # any account is looked up, so that no name keeps a try from being counted.
    for key, most, why in _counted(action, limit, client_address(request), name.strip()):
        if not allow(key=key, limit=most, window=limit.window, now=now):
            return f"{why} Wait {WAIT[limit.window]}, then try again."
    return ""


def _counted(action: str, limit: Limit, address: str, name: str) -> Iterator[tuple[str, int, str]]:
    """What a try counts against, one after the other: a key, how often, and why no more."""
    yield f"{action}:{address}", limit.per_address, FROM_HERE
    if not name:
        return
    account = _account(name)
    here = _digest(f"{account} {address}")
    yield f"{action}:here:{here}", limit.per_account_here, WITH_IT_FROM_HERE
    yield f"{action}:{account}", limit.per_account, WITH_IT


def _account(name: str) -> str:
    """One key for an account, by whatever it is named; what finds none has the name's digest.

    So unknown names are counted too, and the table of limits is no list of addresses.
    """
    # PostgreSQL refuses to look for some of what is not printable, SQLite for what is very long.
    if name.isprintable() and len(name) <= LONGEST_ADDRESS:
        named = Q(username__iexact=name) | Q(email__iexact=name)
        users = get_user_model().objects.filter(named | Q(emailaddress__email__iexact=name))
        if found := users.order_by("pk").values_list("pk", flat=True).first():
            return f"account:{found}"
    return f"name:{_digest(name.upper().casefold())}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
