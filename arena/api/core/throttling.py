"""How often somebody may ask: counted by one atomic statement, for tokens, people and addresses."""

import math
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from arena.access import Ability, Actor
from arena.api.core.problems import TooMany
from arena.services import limits
from arena.views.visitors import client_address

MINUTE = timedelta(minutes=1)


def count(request: HttpRequest, actor: Actor, ability: Ability) -> None:
    """Count one request of `actor`; raises TooMany beyond what a minute allows."""
    allowed, now = settings.API_REQUESTS_PER_MINUTE[ability], timezone.now()
    key = f"api:{ability}:{actor.key or client_address(request)}"
    if limits.allow(key=key, limit=allowed, window=MINUTE, now=now):
        return
    wait = math.ceil(limits.seconds_left(key=key, window=MINUTE, now=now))
    raise TooMany(f"More than {allowed:,} requests to {ability} within a minute.", wait)
