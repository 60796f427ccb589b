"""Votes: cast, skip, undo."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from arena.models import Comparison, Outcome, Pair, PairDemand, Rater, Run, Vote
from arena.services import statements
from arena.services.deadlocks import tried_twice
from arena.services.issuing import SignInFirst, VoteRefused, check_admission, issue_comparison
from arena.services.voiding import take_out
from arena.signals import announce, votes_changed

__all__ = [
    "AlreadyVoted",
    "Blocked",
    "Expired",
    "NotIssuedToYou",
    "SignInFirst",
    "Skipped",
    "TooLateToUndo",
    "Undone",
    "UnknownOutcome",
    "VoteRefused",
    "cast_vote",
    "issue_comparison",
    "skip_comparison",
    "undo_vote",
]

TIME_TO_UNDO = timedelta(seconds=30)
UNDONE = "undone by the rater"


class NotIssuedToYou(VoteRefused):
    sentence = "This pair was given to somebody else. Here is one for you."


class Expired(VoteRefused):
    sentence = "This pair had been open for too long, so it went back. Here is a fresh one."


class Skipped(VoteRefused):
    sentence = "You skipped this pair. Here is the next one."


class AlreadyVoted(VoteRefused):
    sentence = "You had already voted on this pair; your first vote counts."


class UnknownOutcome(VoteRefused):
    sentence = "That is not one of the answers. Choose left, right, tie or both bad."


class Undone(VoteRefused):
    sentence = "You undid your vote on this pair and have seen the names; somebody else gets it."


class Blocked(VoteRefused):
    sentence = "The operator of this site has set your votes aside; no more can be cast."


class TooLateToUndo(VoteRefused):
    sentence = "A vote can be undone for 30 seconds; this one stands."


@tried_twice
def cast_vote(
    *,
    comparison: Comparison,
    rater: Rater,
    outcome: str,
    now: datetime,
    preference: float | None = None,
) -> Vote:
    """Record the outcome of a comparison issued to `rater`; the same vote again is the same vote.

    Raises a VoteRefused that says why. Whether there is a vote already is the database's answer:
    the unique constraint decides between two requests that arrive together.
    """
    if outcome not in Outcome.values:
        raise UnknownOutcome
    _check_rater(comparison, rater)
    if comparison.skipped_at or (comparison.expires_at and comparison.expires_at <= now):
        return _vote_before(comparison, rater, outcome)
    vote = Vote(
        arena_id=comparison.arena_id,
        comparison=comparison,
        rater=rater,
        outcome=outcome,
        preference=preference,
        cast_at=now,
    )
    if not _insert(vote):
        return _vote_before(comparison, rater, outcome)
    announce(votes_changed, arena_id=comparison.arena_id)
    return vote


def _insert(vote: Vote) -> bool:
    """Write the vote unless its rater ever had one on this comparison; say whether it is new."""
    with statements.alone():
        row = statements.one(
            statements.CAST,
            vote.arena_id,
            vote.comparison_id,
            vote.rater_id,
            vote.outcome,
            vote.preference,
            vote.cast_at,
            vote.comparison_id,
            vote.rater_id,
        )
    if row is None:
        return False
    vote.pk = row[0]
    vote._state.adding = False
    return True


def _vote_before(comparison: Comparison, rater: Rater, outcome: str) -> Vote:
    """Return the standing vote if it says the same, else raise why no vote can be cast."""
    vote = comparison.votes.filter(rater=rater).order_by("-pk").first()
    if vote is None:
        raise Skipped if comparison.skipped_at else Expired
    if vote.voided_at:
        raise Undone
    if vote.outcome != outcome:
        raise AlreadyVoted
    return vote


def _check_rater(comparison: Comparison, rater: Rater) -> None:
    if comparison.rater_id != rater.pk:
        raise NotIssuedToYou
    if rater.blocked_at:
        raise Blocked
    check_admission(comparison.arena, rater)


@tried_twice
def skip_comparison(*, comparison: Comparison, rater: Rater, now: datetime) -> None:
    """Pass on a comparison: missing data, never a tie. A comparison with a vote stays as it is."""
    _check_rater(comparison, rater)
    mine = Comparison.objects.filter(pk=comparison.pk, skipped_at=None, votes__isnull=True)
    mine.update(skipped_at=now)


@tried_twice
@transaction.atomic
def undo_vote(*, comparison: Comparison, rater: Rater, now: datetime) -> Vote:
    """Void the rater's last vote within its 30 seconds; the pair goes to somebody else.

    The names were shown after the vote, so the same rater does not get the pair again.
    """
    _check_rater(comparison, rater)
    vote = rater.votes.filter(arena=comparison.arena_id).order_by("-pk").first()
    if vote is None or vote.comparison_id != comparison.pk or vote.cast_at < now - TIME_TO_UNDO:
        raise TooLateToUndo
    if take_out(votes={vote.pk: vote.arena_id}, reason=UNDONE, now=now):
        _demand_again(comparison)
    return vote


def _demand_again(comparison: Comparison) -> None:
    """Have the pair shown to somebody else: by its run, opened again if need be, or by itself."""
    if comparison.run_id is not None:
        done = Run.objects.filter(pk=comparison.run_id, state=Run.State.DONE)
        done.update(state=Run.State.OPEN, closed_at=None)
        return
    low, high = sorted([comparison.left_id, comparison.right_id])
    demand, _ = PairDemand.objects.get_or_create(
        arena_id=comparison.arena_id,
        pair=Pair.objects.get(low=low, high=high),
        prompt=comparison.prompt,
        run=None,
        defaults={"draw_probability": comparison.draw_probability, "remaining": 0},
    )
    PairDemand.objects.filter(pk=demand.pk).update(remaining=F("remaining") + 1)
