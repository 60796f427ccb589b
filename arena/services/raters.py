"""Raters who come through the API: the person signed in, and those whom a team's program names."""

from datetime import datetime, timedelta

from django.conf import settings

from arena.importers.base import BadRow, checked_name
from arena.models import Arena, Rater
from arena.services.issuing import VoteRefused
from arena.services.limits import allow
from arena.services.refusals import Refused

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


class RaterRefused(Refused):
    """A name that no rater can have."""


class TooManyNames(VoteRefused):
    sentence = "More new raters were named in this arena than an hour allows."


def rater_of_person(*, user_id: int) -> Rater:
    """Return the rater that a signed-in person is, everywhere on the site."""
    rater, _ = Rater.objects.get_or_create(user_id=user_id, defaults={"kind": Rater.Kind.PERSON})
    return rater


def rater_of_name(*, arena: Arena, name: str, now: datetime) -> Rater:
    """Return the person that `name` means in this arena; raises RaterRefused, TooManyNames."""
    try:
        name = checked_name(name, "rater")
    except BadRow as bad:
        raise RaterRefused(f"The name of the rater {bad.reason}.", field="rater") from None
    found = Rater.objects.filter(arena=arena, kind=Rater.Kind.PERSON, name=name).first()
    if found is not None:
        return found
    limit = settings.NEW_RATERS_PER_HOUR
    if not allow(key=f"new-raters:arena:{arena.pk}", limit=limit, window=HOUR, now=now):
        raise TooManyNames
    rater, _ = Rater.objects.get_or_create(arena=arena, kind=Rater.Kind.PERSON, name=name)
    return rater


def may_have_another(*, rater: Rater, now: datetime) -> bool:
    """Count one more comparison for `rater`; say whether this minute has room for it."""
    limit = settings.VOTES_PER_MINUTE
    return allow(key=f"issue:{rater.pk}", limit=limit, window=MINUTE, now=now)
