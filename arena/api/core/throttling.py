"""How often somebody may ask: tokens, the tokens of a team together, people and addresses.

Each is counted by one atomic statement.
"""

import math
from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from arena.access import Ability, Actor
from arena.api.core.problems import TooMany
from arena.services import limits
from arena.views.visitors import client_address

MINUTE = timedelta(minutes=1)
# Tokens cost nothing, so new ones bring no more requests than this many do.
TOKENS_OF_A_TEAM = 3


def count(request: HttpRequest, actor: Actor, ability: Ability) -> None:
    """Count one request of `actor`; raises TooMany beyond what a minute allows."""
    now = timezone.now()
    # A request that is refused for one reason is not counted for the next.
    for who, allowed, by in _counted(request, actor, settings.API_REQUESTS_PER_MINUTE[ability]):
        key = f"api:{ability}:{who}"
        if not limits.allow(key=key, limit=allowed, window=MINUTE, now=now):
            wait = math.ceil(limits.seconds_left(key=key, window=MINUTE, now=now))
            raise TooMany(f"More than {allowed:,} requests to {ability} within a minute{by}.", wait)


def _counted(request: HttpRequest, actor: Actor, allowed: int) -> Iterator[tuple[str, int, str]]:
    """Whom a request counts against, one after the other: a key, how often, and who that is."""
    yield actor.key or client_address(request), allowed, ""
    if actor.token is not None:
        team = f"team:{actor.token.team_id}"
        yield team, allowed * TOKENS_OF_A_TEAM, ", by all tokens of this team"
