"""Whose votes may narrow people's intervals: judges and juries that were found to agree."""

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef

from arena.models import Arena, Rater, Vote
from arena.signals import announce, votes_changed


class NotAJudge(ValueError):
    """Trust was to be given to somebody who is no judge and no jury; the message is a sentence."""


@transaction.atomic
def set_trust(*, rater_id: int, trusted: bool, now: datetime) -> bool:
    """Give or withdraw trust in a judge's or jury's votes, old and new; say whether that is news.

    The arenas where it has voted are told on commit. Raises NotAJudge.
    """
    rater = Rater.objects.select_for_update().filter(pk=rater_id).first()
    if rater is None or rater.kind == Rater.Kind.PERSON:
        raise NotAJudge(f"Rater {rater_id} is no judge and no jury: only those are trusted or not.")
    if trusted == (rater.trusted_at is not None):
        return False
    rater.trusted_at = now if trusted else None
    rater.save(update_fields=["trusted_at"])
    voted = Vote.objects.filter(arena=OuterRef("pk"), rater=rater_id)
    for arena_id in Arena.objects.filter(Exists(voted)).values_list("pk", flat=True):
        announce(votes_changed, arena_id=arena_id, reason="trust")
    return True
