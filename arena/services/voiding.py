"""Votes taken out of every count: by an operator, or by whoever cast them."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from arena.access import Actor
from arena.models import Arena, AuditEntry, Rater, Vote
from arena.services import audit
from arena.signals import announce, votes_changed

VOIDED_AT_ONCE = 1000
Entries = dict[int, AuditEntry | None]  # of one act, by arena; None where the trail has no reader


@transaction.atomic
def take_out(*, votes: Mapping[int, int], reason: str, now: datetime) -> dict[int, int]:
    """Take votes out of every count, given by id with the arena of each; return how many by arena.

    Those that are out already stay as they are. Nothing is noted: whoever undoes a vote of their
    own does so for nobody's team.
    """
    done = {}
    for arena_id in sorted(set(votes.values())):
        theirs = [pk for pk, of in votes.items() if of == arena_id]
        live = Vote.objects.filter(pk__in=theirs, voided_at=None)
        if voided := live.update(voided_at=now, void_reason=reason):
            announce(votes_changed, arena_id=arena_id, reason="void")
            done[arena_id] = voided
    return done


def void_vote(*, vote: Vote, by: Actor, reason: str, now: datetime) -> bool:
    """Take a vote out of every count, with the reason; say whether this call did it."""
    return bool(void_votes(votes=Vote.objects.filter(pk=vote.pk), by=by, reason=reason, now=now))


def void_votes(*, votes: QuerySet[Vote], by: Actor, reason: str, now: datetime) -> int:
    """Take `votes` out of every count, and tell the team of each arena; return how many it was.

    Done in steps, so that no voter waits long; a call that was cut off is finished by another.
    """
    live = votes.filter(voided_at=None).order_by("pk")
    total, entries = 0, Entries()
    while voided := _void_some(live, entries, by, reason, now):
        total += voided
    return total


def void_rater(*, rater: Rater, by: Actor, reason: str, now: datetime) -> int:
    """Void all votes of a rater and take no more of them; return how many votes it was."""
    _block(rater, by, reason, now)
    return void_votes(votes=rater.votes.all(), by=by, reason=reason, now=now)


@transaction.atomic
def _block(rater: Rater, by: Actor, reason: str, now: datetime) -> None:
    """A rater that is known by a name in one arena is that arena's team's to hear of."""
    news = Rater.objects.filter(pk=rater.pk, blocked_at=None).update(blocked_at=now)
    if news and rater.arena is not None:
        audit.record(
            team=rater.arena.team,
            by=by,
            action="blocked a rater",
            subject=rater,
            arena=rater.arena.slug,
            reason=reason,
        )


@transaction.atomic
def _void_some(
    live: QuerySet[Vote], entries: Entries, by: Actor, reason: str, now: datetime
) -> int:
    found = dict(live.values_list("pk", "arena")[:VOIDED_AT_ONCE])
    voided = take_out(votes=found, reason=reason, now=now)
    for arena_id, count in voided.items():
        if arena_id not in entries:
            entries[arena_id] = _note(arena_id, count, by, reason)
        elif entry := entries[arena_id]:
            # What is done in steps is one act: its entry grows with every step that is through.
            entry.details["votes"] += count
            entry.save(update_fields=["details"])
    return sum(voided.values())


def _note(arena_id: int, count: int, by: Actor, reason: str) -> AuditEntry | None:
    arena = Arena.objects.select_related("team").get(pk=arena_id)
    return audit.record(
        team=arena.team,
        by=by,
        action="voided votes",
        subject=arena,
        arena=arena.slug,
        votes=count,
        reason=reason,
    )
