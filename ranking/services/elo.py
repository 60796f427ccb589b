"""A board's Elo ratings, kept as checkpoints: a refresh replays only the votes since the last one.

A voided vote, or one that commits late with a smaller id, drops the checkpoints after it (see
`fold`), so the next refresh replays the tail from the checkpoint before.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan

import numpy as np
from django.db import transaction

from arena.models import Vote
from arena.models.voting import VoteQuerySet
from ranking.models import Board, BothBad, EloCheckpoint, EloInterval, Snapshot
from ranking.services import cluster_tallies, leases
from ranking.services.evidence import CONFIDENCE
from ranking.services.leases import renew
from ranking.stats.elo import Elo
from ranking.stats.intervals import Dependence, Sandwich
from ranking.tallies import VoteCounts, dependence
from ranking.tallied_votes import BOTH_BAD, HUMAN, Floats, Ints, Votes, cast_by, read_votes

EVERY = 20_000  # votes between two permanent checkpoints


@dataclass(frozen=True, eq=False)
class State:
    """Ratings after `n_votes` votes, the last of which is `vote_id`; ids ascending."""

    vote_id: int
    n_votes: int
    candidates: Ints
    ratings: Floats

    def by_candidate(self) -> dict[int, float]:
        return dict(zip(self.candidates.tolist(), self.ratings.tolist(), strict=True))


START = State(0, 0, np.zeros(0, np.int64), np.zeros(0))


def update_ratings(*, board: Board, token: uuid.UUID) -> dict[int, float]:
    """Return the ratings after all votes in the board's tallies, by candidate; store checkpoints.

    Raises RefreshLeaseLostError.
    """
    newest = board.elo_checkpoints.order_by("-vote_id").first()
    if newest is not None and newest.settings != settings_of(board):
        board.elo_checkpoints.exclude(settings=settings_of(board)).delete()
        newest = board.elo_checkpoints.order_by("-vote_id").first()
    state = START if newest is None else state_of(newest)
    n_read = EVERY
    while n_read == EVERY:
        votes = read_votes(_votes_after(board, state), EVERY)
        n_read = len(votes)
        if n_read:
            state = advance(board, state, votes)
            newest = _store_checkpoint(board, token, state, newest)
    return state.by_candidate()


def replay(*, board: Board, until: int) -> State:
    """Replay all votes up to the id `until` from the first one."""
    state = START
    while len(votes := read_votes(_votes_after(board, state).filter(pk__lte=until), EVERY)):
        state = advance(board, state, votes)
    return state


def settings_of(board: Board) -> str:
    """The settings that the ratings depend on."""
    return f"k={Elo.k:g} start={Elo.start:g} scale={Elo.scale:g} both_bad={board.both_bad}"


def state_of(checkpoint: EloCheckpoint) -> State:
    return State(
        checkpoint.vote_id,
        checkpoint.n_votes,
        np.frombuffer(checkpoint.candidates, "<i8").astype(np.int64),
        np.frombuffer(checkpoint.ratings, "<f8").astype(np.float64),
    )


def _votes_after(board: Board, state: State) -> VoteQuerySet:
    votes = Vote.objects.in_tallies().filter(
        cast_by(board.raters), arena=board.arena_id, pk__gt=state.vote_id
    )
    if board.category:
        votes = votes.filter(comparison__prompt__category=board.category)
    return votes.order_by("pk")


def advance(board: Board, state: State, votes: Votes) -> State:
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
def _store_checkpoint(
    board: Board, token: uuid.UUID, state: State, newest: EloCheckpoint | None
) -> EloCheckpoint:
    """Store a checkpoint in place of the newest one, unless that one is permanent."""
    renew(token)
    is_replaced = newest is not None and newest.n_votes // EVERY == state.n_votes // EVERY
    checkpoint = EloCheckpoint(
        pk=newest.pk if newest is not None and is_replaced else None,
        board=board,
        vote_id=state.vote_id,
        n_votes=state.n_votes,
        settings=settings_of(board),
        candidates=state.candidates.astype("<i8").tobytes(),
        ratings=state.ratings.astype("<f8").tobytes(),
    )
    checkpoint.save()
    return checkpoint


# -- Intervals of Elo ratings ----------------------------------------------------------------------

# Computing them takes longer than a refresh, so it is done afterwards.

Reach = dict[int, tuple[float, float]]  # Elo below and above a rating, by candidate
N_RESAMPLES = 100
LEASE = timedelta(seconds=30)
LEASE_PER_VOTE = timedelta(microseconds=300)  # about three times what reading and resampling take


def boards_without_intervals(now: datetime) -> list[int]:
    """The ids of boards whose current snapshot needs Elo intervals that no worker is computing."""
    waiting = Snapshot.objects.current().without_elo_intervals(now)
    return list(waiting.values_list("board", flat=True))


def add_intervals(*, board_id: int, now: datetime) -> bool:
    """Add Elo intervals to the board's current snapshot unless it has them; return whether it
    did.
    """
    waiting = Snapshot.objects.current().without_elo_intervals(now).filter(board=board_id)
    snapshot = waiting.select_related("board__arena").first()
    if snapshot is None or not _claim(snapshot, now):
        return False
    board = snapshot.board
    counts = cluster_tallies.read_clusters(
        arena_id=board.arena_id, raters=board.raters, category=board.category
    )  # votes cast since the snapshot may be among them
    by_rater = None
    if board.raters in HUMAN:
        by_rater = cluster_tallies.stored_raters(board.arena_id, board.raters, board.category)
    everybody = VoteCounts.joined([counts, by_rater or VoteCounts.none()])
    candidates = np.unique(np.concatenate([everybody.key("first"), everybody.key("second")]))
    groups = dependence(counts, by_rater, candidates, board.both_bad == BothBad.TIE)
    reach = _measure_reach(board, groups, candidates)
    return _store_intervals(snapshot, reach, groups.groupings[0].n_votes, now)


def lease(snapshot: Snapshot) -> timedelta:
    """How long one worker has; a slower one is not stopped, but another one may then start too."""
    return LEASE + snapshot.n_votes * LEASE_PER_VOTE


def _claim(snapshot: Snapshot, now: datetime) -> bool:
    unclaimed = Snapshot.objects.without_elo_intervals(now).filter(pk=snapshot.pk)
    return bool(unclaimed.update(elo_claimed_until=now + lease(snapshot)))


def _measure_reach(board: Board, groups: Dependence, candidates: Ints) -> Reach:
    """How much each rating could change with other votes in another order.

    Votes depend on one another as they do for the scores: the grouping with the larger errors is
    resampled, and what the other one adds to the error of a score stretches the interval.
    """
    elo, crossed = Elo(), Sandwich(CONFIDENCE, jackknifed=True).fit(*groups.groupings)
    battles = crossed.strongest_
    alone = Sandwich(CONFIDENCE, jackknifed=True).fit(battles)
    stretch = np.fmax(crossed.standard_errors_ / alone.standard_errors_, 1.0)
    rows = np.repeat(np.arange(len(battles.count)), battles.count)
    bounds = elo.interval(
        battles.first[rows],
        battles.second[rows],
        battles.score[rows],
        None if battles.cluster is None else battles.cluster[rows],
        battles.n_candidates,
        n_resamples=N_RESAMPLES,
        confidence=CONFIDENCE,
        random_state=board.seed,
    )
    below, above = (stretch * (elo.ratings_ - bounds.low), stretch * (bounds.high - elo.ratings_))
    return {
        pk: (float(below[i]), float(above[i]))
        for i, pk in enumerate(candidates.tolist())
        if groups.measurable[i] and not isnan(below[i])
    }


@transaction.atomic
def _store_intervals(snapshot: Snapshot, reach: Reach, n_votes: int, now: datetime) -> bool:
    """Store the intervals, and mark the snapshot even if there are none, so that no worker tries
    again."""
    unmarked = Snapshot.objects.filter(pk=snapshot.pk, elo_intervals_at=None)
    if not unmarked.update(
        elo_intervals_at=now, elo_claimed_until=None, elo_interval_votes=n_votes
    ):
        return False
    rated = snapshot.standings.exclude(elo=None).values_list("pk", "candidate", "elo")
    EloInterval.objects.bulk_create(
        [
            EloInterval(
                standing_id=pk, low=elo - reach[candidate][0], high=elo + reach[candidate][1]
            )
            for pk, candidate, elo in rated
            if candidate in reach and elo is not None
        ]
    )
    leases.drop_pages(arena_id=snapshot.board.arena_id)
    return True
