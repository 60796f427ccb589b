"""Casting, skipping, undoing and voiding votes."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils.translation import gettext_lazy

from arena.actors import Actor
from arena.db import sql
from arena.models import Arena, AuditEntry, Comparison, Pair, PairDemand, Rater, Run, Vote
from arena.outcomes import OUTCOMES
from arena.services import audit
from arena.services.comparisons import VoteError, check_admission
from arena.services.locks import retry_on_deadlock
from arena.services.rate_limits import allow
from arena.signals import announce, votes_changed

HOUR = timedelta(hours=1)
TIME_TO_UNDO = timedelta(seconds=30)
MOST_UNDONE = 5  # of a rater within an hour: undoing whatever a candidate lost would move a board
UNDONE = "undone by the rater"
VOIDED_AT_ONCE = 1000


class NotIssuedToYouError(VoteError):
    message = gettext_lazy("This pair was assigned to another rater. Here is one for you.")


class ExpiredError(VoteError):
    message = gettext_lazy("This pair expired before you voted. Here is a new one.")


class SkippedError(VoteError):
    message = gettext_lazy("You skipped this pair. Here is the next one.")


class AlreadyVotedError(VoteError):
    message = gettext_lazy("You have already voted on this pair; your first vote counts.")


class UnknownOutcomeError(VoteError):
    message = f"Unknown outcome. Choose from {', '.join(OUTCOMES)}."


class UndoneError(VoteError):
    message = gettext_lazy("You withdrew your vote on this pair, so it goes to another rater.")


class BlockedError(VoteError):
    message = gettext_lazy(
        "The site's administrators have excluded your votes and closed voting for you."
    )


class TooLateToUndoError(VoteError):
    message = gettext_lazy("A vote can be undone within 30 seconds. This one is final.")


class OftenUndoneError(VoteError):
    message = gettext_lazy("You have undone several votes within an hour, so this one is final.")


@retry_on_deadlock
def cast_vote(
    *,
    comparison: Comparison,
    rater: Rater,
    outcome: str,
    now: datetime,
    preference: float | None = None,
    seconds: float | None = None,
    network: str = "",
) -> Vote:
    """Record the outcome of a comparison issued to `rater`; repeating the vote changes nothing.

    `seconds`: how long the pair was open (see `seconds_open`). Raises a VoteError. The database's
    unique constraint decides between two concurrent requests.
    """
    if outcome not in OUTCOMES:
        raise UnknownOutcomeError
    check_rater(comparison, rater)
    has_expired = comparison.expires_at and comparison.expires_at <= now
    if comparison.skipped_at or has_expired:
        return _earlier_vote(comparison, rater, outcome)
    with transaction.atomic(savepoint=False):
        sql.lock(sql.LOCK_COMPARISON, comparison.pk)
        cast = Vote.objects.raw(
            sql.CAST,
            {
                "comparison": comparison.pk,
                "rater": rater.pk,
                "outcome": outcome,
                "preference": preference,
                "now": now,
                "seconds": seconds,
                "network": network,
            },
        )
        vote = next(iter(cast), None)
        if vote is not None and vote.network and not vote.verified:
            # Who votes only to learn who wrote what would soon recognise most answers.
            key, limit = f"names:{vote.network}", settings.NAMES_PER_HOUR
            if not allow(key=key, limit=limit, window=HOUR, now=now):
                vote.names_withheld = True
                vote.save(update_fields=["names_withheld"])
    if vote is None:
        return _earlier_vote(comparison, rater, outcome)
    announce(votes_changed, arena_id=comparison.arena_id)
    return vote


def seconds_open(comparison: Comparison, now: datetime, reported: str = "") -> float:
    """Return how long a pair was open: the client's figure, at most the time since it was issued.

    A client that sends no figure is assumed to have shown the pair all that time.
    """
    issued = comparison.issued_at or now
    longest = max((now - issued).total_seconds(), 0.0)
    try:
        seconds = float(reported)
    except ValueError:
        return longest
    return min(max(seconds, 0.0), longest) if math.isfinite(seconds) else longest


def apply_rules(*, arena: Arena) -> int:
    """Decide again which of an arena's votes count; return how many that changed.

    The next refresh counts them accordingly.
    """
    changed = len(sql.rows(sql.APPLY_RULES, arena.pk))
    if changed:
        announce(votes_changed, arena_id=arena.pk, reason="rules")
    return changed


def _earlier_vote(comparison: Comparison, rater: Rater, outcome: str) -> Vote:
    """Return the existing vote if it has the same outcome; otherwise raise the VoteError."""
    vote = comparison.votes.filter(rater=rater).order_by("-pk").first()
    if vote is None:
        skipped = Comparison.objects.filter(pk=comparison.pk, skipped_at__isnull=False)
        raise SkippedError if skipped.exists() else ExpiredError
    if vote.voided_at:
        raise UndoneError
    if vote.outcome != outcome:
        raise AlreadyVotedError
    return vote


def check_rater(comparison: Comparison, rater: Rater) -> None:
    if comparison.rater_id != rater.pk:
        raise NotIssuedToYouError
    if rater.blocked_at:
        raise BlockedError
    check_admission(comparison.arena, rater)


@retry_on_deadlock
@transaction.atomic
def skip_comparison(*, comparison: Comparison, rater: Rater, now: datetime) -> Vote | None:
    """Skip a comparison: missing data, never a tie. An existing vote stays, and is returned."""
    check_rater(comparison, rater)
    # A vote on its way holds the lock, and only a later statement sees it.
    sql.lock(sql.LOCK_COMPARISON, comparison.pk)
    open_comparison = Comparison.objects.filter(pk=comparison.pk, skipped_at=None, votes=None)
    if open_comparison.update(skipped_at=now):
        return None
    return comparison.votes.filter(rater=rater, voided_at=None).first()


@retry_on_deadlock
@transaction.atomic
def undo_vote(*, comparison: Comparison, rater: Rater, now: datetime) -> Vote:
    """Void the rater's last vote within 30 seconds; the pair goes to another rater.

    The names were shown after the vote, so the same rater does not get the pair again.
    """
    check_rater(comparison, rater)
    vote = rater.votes.filter(arena=comparison.arena_id).order_by("-pk").first()
    if vote is None or vote.comparison_id != comparison.pk or vote.cast_at < now - TIME_TO_UNDO:
        raise TooLateToUndoError
    undone = rater.votes.filter(void_reason=UNDONE, voided_at__gt=now - HOUR)
    if undone.count() >= MOST_UNDONE:
        raise OftenUndoneError
    if void(votes={vote.pk: vote.arena_id}, reason=UNDONE, now=now):
        vote.reasons.all().delete()
        _demand_again(comparison)
    return vote


def _demand_again(comparison: Comparison) -> None:
    """Have the pair shown to another rater: by its run, reopened if needed, or by a demand.

    With any prompt: on the same one, whoever undoes a vote in one browser would know the names in
    another.
    """
    if comparison.run_id is not None:
        done = Run.objects.filter(pk=comparison.run_id, state=Run.State.DONE)
        done.update(state=Run.State.OPEN, closed_at=None)
        return
    low, high = sorted([comparison.left_id, comparison.right_id])
    demand, _ = PairDemand.objects.get_or_create(
        arena_id=comparison.arena_id,
        pair=Pair.objects.get(low=low, high=high),
        prompt=None,
        run=None,
        defaults={"draw_probability": comparison.draw_probability, "remaining": 0},
    )
    PairDemand.objects.filter(pk=demand.pk).update(remaining=F("remaining") + 1)


@transaction.atomic
def void(*, votes: Mapping[int, int], reason: str, now: datetime) -> dict[int, int]:
    """Exclude votes from every count; return how many were voided in each arena, by its id.

    `votes` maps each vote's id to its arena's. Votes voided before stay as they are. Nothing is
    recorded in the audit log, because a rater who undoes a vote does not act for the team.
    """
    voided_in = {}
    for arena_id in sorted(set(votes.values())):
        ids = [vote_id for vote_id, arena in votes.items() if arena == arena_id]
        live = Vote.objects.filter(pk__in=ids, voided_at=None)
        if voided := live.update(voided_at=now, void_reason=reason):
            announce(votes_changed, arena_id=arena_id, reason="void")
            voided_in[arena_id] = voided
    return voided_in


def void_votes(*, votes: QuerySet[Vote], by: Actor, reason: str, now: datetime) -> int:
    """Void `votes`, with an audit entry for each arena's team; return how many were voided.

    Works in batches, so that no voter waits long; after an interruption, call it again.
    """
    live = votes.filter(voided_at=None).order_by("pk")
    # One audit entry per arena for all batches together; None if the arena has no team.
    entries: dict[int, AuditEntry | None] = {}
    total = 0
    while voided := _void_batch(live, entries, by, reason, now):
        total += voided
    return total


def void_rater(*, rater: Rater, by: Actor, reason: str, now: datetime) -> int:
    """Block a rater and void all of their votes; return how many were voided."""
    _block_rater(rater, by, reason, now)
    return void_votes(votes=rater.votes.all(), by=by, reason=reason, now=now)


@transaction.atomic
def _block_rater(rater: Rater, by: Actor, reason: str, now: datetime) -> None:
    """Block a rater; if the rater belongs to one arena, record it in its team's audit log."""
    blocked = Rater.objects.filter(pk=rater.pk, blocked_at=None).update(blocked_at=now)
    if blocked and rater.arena is not None:
        audit.record_in(rater.arena, by, "blocked a rater", rater, reason=reason)


@transaction.atomic
def _void_batch(
    live: QuerySet[Vote],
    entries: dict[int, AuditEntry | None],
    by: Actor,
    reason: str,
    now: datetime,
) -> int:
    batch = dict(live.values_list("pk", "arena")[:VOIDED_AT_ONCE])
    voided = void(votes=batch, reason=reason, now=now)
    for arena_id, count in voided.items():
        if arena_id not in entries:
            arena = Arena.objects.select_related("team").get(pk=arena_id)
            entries[arena_id] = audit.record(
                team=arena.team,
                by=by,
                action="voided votes",
                subject=arena,
                arena=arena.slug,
                votes=count,
                reason=reason,
            )
        elif entry := entries[arena_id]:
            entry.details["votes"] += count
            entry.save(update_fields=["details"])
    return sum(voided.values())
