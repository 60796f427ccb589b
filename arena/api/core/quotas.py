"""How many requests a caller has left in this minute."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from arena.actors import Actor, TeamPermission
from arena.api.core.errors import TooMany
from arena.services import rate_limits
from arena.services.rate_limits import client_address

MINUTE = timedelta(minutes=1)
# All tokens of a team together get this many times the limit of one token; otherwise a team could
# circumvent the limit by creating tokens.
TOKENS_OF_A_TEAM = 3


@dataclass(frozen=True)
class Quota:
    """What is left of a limit per minute, and the seconds until it resets."""

    limit: int
    left: int
    seconds: int

    def headers(self) -> dict[str, str]:
        values = {"Limit": self.limit, "Remaining": max(self.left, 0), "Reset": self.seconds}
        return {f"RateLimit-{name}": str(value) for name, value in values.items()}


def count(request: HttpRequest, actor: Actor, permission: TeamPermission) -> Iterator[Quota]:
    """Count one request, and yield what is left of each limit per minute; raises TooMany."""
    now = timezone.now()
    # A request that exceeds one limit is not counted against the next.
    for who, allowed, by in _counters(request, actor, settings.API_REQUESTS_PER_MINUTE[permission]):
        hits, seconds = rate_limits.count_use(key=f"api:{permission}:{who}", window=MINUTE, now=now)
        quota = Quota(allowed, allowed - hits, math.ceil(seconds))
        yield quota
        if quota.left < 0:
            limit = f"{allowed:,} requests to {permission}"
            raise TooMany(f"More than {limit} within a minute{by}.", quota.seconds)


def _counters(request: HttpRequest, actor: Actor, allowed: int) -> Iterator[tuple[str, int, str]]:
    """Yield, in order, the key and the limit of each counter, and whose requests it counts."""
    yield actor.key or client_address(request), allowed, ""
    if actor.token is not None:
        team = f"team:{actor.token.team_id}"
        yield team, allowed * TOKENS_OF_A_TEAM, ", by all tokens of this team"
