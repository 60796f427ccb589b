"""Elo ratings kept as state: a refresh replays the votes since the last one, and no others.

A vote that is voided, or that comes late with a smaller id, drops the checkpoints after it (see
`tallying`), so that the next refresh replays the tail from the one before.
"""

import uuid
from dataclasses import dataclass

import numpy as np
from django.db import transaction

from arena.models import Vote
from arena.models.voting import VoteQuerySet
from ranking.models import Board, BothBad, EloCheckpoint
from ranking.services.leases import renew
from ranking.stats import Elo
from ranking.votes import BOTH_BAD, KINDS, Floats, Ints, Votes, read_votes

EVERY = 20_000  # votes between two checkpoints that stay


@dataclass(frozen=True, eq=False)
class State:
    """Ratings after `n_votes` votes, the last of which is `vote_id`; ids ascending."""

    vote_id: int
    n_votes: int
    candidates: Ints
    ratings: Floats

    def by_candidate(self) -> dict[int, float]:
        return dict(zip(self.candidates.tolist(), self.ratings.tolist(), strict=True))


NOTHING = State(0, 0, np.zeros(0, np.int64), np.zeros(0))


def bring_up(*, board: Board, token: uuid.UUID) -> dict[int, float]:
    """The board's ratings after all votes in its tallies, by candidate. Raises LeaseLost."""
    board.elo_checkpoints.exclude(settings=settings_of(board)).delete()
    state = _newest(board)
    while len(votes := read_votes(_after(board, state), EVERY)):
        state = _advanced(board, state, votes)
        _keep(board, token, state)
    return state.by_candidate()


def replay(*, board: Board, until: int) -> State:
    """The ratings after all votes up to the id `until`, replayed from the first one."""
    state = NOTHING
    while len(votes := read_votes(_after(board, state).filter(pk__lte=until), EVERY)):
        state = _advanced(board, state, votes)
    return state


def settings_of(board: Board) -> str:
    """What the ratings depend on besides the votes."""
    return f"k={Elo.k:g} start={Elo.start:g} scale={Elo.scale:g} both_bad={board.both_bad}"


def _newest(board: Board) -> State:
    newest = board.elo_checkpoints.order_by("-vote_id").first()
    return NOTHING if newest is None else stored(newest)


def stored(checkpoint: EloCheckpoint) -> State:
    """What a checkpoint says."""
    return State(
        checkpoint.vote_id,
        checkpoint.n_votes,
        np.frombuffer(checkpoint.candidates, "<i8").astype(np.int64),
        np.frombuffer(checkpoint.ratings, "<f8").astype(np.float64),
    )


def _after(board: Board, state: State) -> VoteQuerySet:
    votes = Vote.objects.in_tallies().filter(
        arena=board.arena_id, rater__kind=KINDS[board.raters], pk__gt=state.vote_id
    )
    if board.category:
        votes = votes.filter(comparison__prompt__category=board.category)
    return votes.order_by("pk")


def _advanced(board: Board, state: State, votes: Votes) -> State:
    counted = votes
    if board.both_bad != BothBad.TIE:
        counted = votes.where(votes.outcome != BOTH_BAD)
    met = np.unique(np.concatenate([state.candidates, counted.left, counted.right]))
    ratings = np.full(len(met), Elo.start)
    ratings[np.searchsorted(met, state.candidates)] = state.ratings
    left, right = np.searchsorted(met, counted.left), np.searchsorted(met, counted.right)
    after = Elo().advance(ratings, left, right, counted.score)
    return State(int(votes.pk[-1]), state.n_votes + len(votes), met, after)


@transaction.atomic
def _keep(board: Board, token: uuid.UUID, state: State) -> None:
    """Write the newest checkpoint in place of the one before, unless that one is to stay."""
    renew(token)
    newest = board.elo_checkpoints.order_by("-vote_id").first()
    if newest is not None and newest.n_votes // EVERY == state.n_votes // EVERY:
        newest.delete()
    board.elo_checkpoints.create(
        vote_id=state.vote_id,
        n_votes=state.n_votes,
        settings=settings_of(board),
        candidates=state.candidates.astype("<i8").tobytes(),
        ratings=state.ratings.astype("<f8").tobytes(),
    )
