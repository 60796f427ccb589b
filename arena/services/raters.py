"""Raters: people and programs who vote, and the trust in judges."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import Arena, ArenaTrust, Rater, Vote
from arena.services import audit
from arena.services.comparisons import VoteError
from arena.services.rate_limits import allow
from arena.signals import trust_changed
from arena.validation import InputError, clean_name

NAME_LENGTH = 16  # of a pseudonym, in hexadecimal digits
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


class RaterError(ServiceError):
    """An invalid rater name."""


class TooManyNamesError(VoteError):
    message = gettext_lazy(
        "Too many new raters were named in this arena within an hour. Try again later."
    )


class NotAJudgeError(ValueError):
    """Only judges and juries can be trusted; the message is a sentence for people."""


def pseudonym(*, arena_id: int, rater_id: int) -> str:
    """A person's name on pages and in exports: it differs between arenas, stays the same in each,
    and cannot be traced back to the person."""
    digest = salted_hmac("ringside.rater", f"{arena_id}:{rater_id}", algorithm="sha256")
    return f"rater-{digest.hexdigest()[:NAME_LENGTH]}"


def create_anonymous_rater() -> Rater:
    return Rater.objects.create(kind=Rater.Kind.PERSON)


def rater_of_person(*, user_id: int) -> Rater:
    """Return the rater of a signed-in person, the same one in every arena."""
    rater, _ = Rater.objects.get_or_create(user_id=user_id, defaults={"kind": Rater.Kind.PERSON})
    return rater


def rater_of_name(*, arena: Arena, name: str, now: datetime) -> Rater:
    """Return the rater that a team's program calls `name` in this arena; create one if needed.

    Raises RaterError and TooManyNamesError.
    """
    try:
        name = clean_name(name)
    except InputError as error:
        raise RaterError(f"The rater's name {error.reason}.", field="rater") from None
    known = Rater.objects.filter(arena=arena, kind=Rater.Kind.PERSON, name=name).first()
    if known is not None:
        return known
    limit = settings.NEW_RATERS_PER_HOUR
    if not allow(key=f"new-raters:arena:{arena.pk}", limit=limit, window=HOUR, now=now):
        raise TooManyNamesError
    rater, _ = Rater.objects.get_or_create(arena=arena, kind=Rater.Kind.PERSON, name=name)
    return rater


def allow_comparison(*, rater: Rater, now: datetime) -> bool:
    """Count one more comparison for `rater`; return whether it is within this minute's limit."""
    limit = settings.VOTES_PER_MINUTE
    return allow(key=f"issue:{rater.pk}", limit=limit, window=MINUTE, now=now)


@transaction.atomic
def set_trust(*, rater_id: int, trusted: bool, now: datetime) -> bool:
    """Set whether a judge's or jury's votes, past and future, are trusted wherever it was not
    measured; return whether that changed.

    Trusted votes narrow people's intervals, in each arena where the rater has voted. Raises
    NotAJudgeError.
    """
    rater = Rater.objects.select_for_update().filter(pk=rater_id).first()
    if rater is None or rater.kind == Rater.Kind.PERSON:
        raise NotAJudgeError(f"Rater {rater_id} is not a judge or jury, so it cannot be trusted.")
    if trusted == (rater.trusted_at is not None):
        return False
    rater.trusted_at = now if trusted else None
    rater.save(update_fields=["trusted_at"])
    votes = Vote.objects.filter(arena=OuterRef("pk"), rater=rater_id)
    for arena_id in Arena.objects.filter(Exists(votes)).order_by("pk").values_list("pk", flat=True):
        trust_changed.send(sender=None, arena_id=arena_id)
    return True


@transaction.atomic
def set_arena_trust(*, rater_id: int, arena_id: int, trusted: bool | None, now: datetime) -> bool:
    """Set whether a measured judge or jury is trusted in one arena; return whether that changed.

    None: it was not measured there, so `Rater.trusted_at` decides.
    """
    rows = ArenaTrust.objects.select_for_update().filter(rater=rater_id, arena=arena_id)
    before = rows.values_list("trusted", flat=True).first()
    if trusted == before:
        return False
    if trusted is None:
        rows.delete()
    else:
        facts = {"trusted": trusted, "decided_at": now}
        rows.update_or_create(rater_id=rater_id, arena_id=arena_id, defaults=facts)
    trust_changed.send(sender=None, arena_id=arena_id)
    return True


@transaction.atomic
def unblock_rater(*, rater: Rater, by: Actor, reason: str) -> bool:
    """Let a blocked rater vote again; voided votes stay void. Return whether that was a change."""
    unblocked = Rater.objects.filter(pk=rater.pk).exclude(blocked_at=None).update(blocked_at=None)
    if unblocked and rater.arena is not None:
        audit.record_in(rater.arena, by, "unblocked a rater", rater, reason=reason)
    return bool(unblocked)
