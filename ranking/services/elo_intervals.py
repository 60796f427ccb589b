"""The intervals of Elo ratings: slower than a refresh, so they come after it."""

from datetime import datetime, timedelta
from math import isnan

from django.db import transaction

from arena.models import Arena
from ranking.models import Board, EloInterval, Snapshot
from ranking.services import boards, fitting
from ranking.stats import Elo
from ranking.stats import EloInterval as Interval
from ranking.votes import Votes, read_votes

N_RESAMPLES = 100
LEASE = timedelta(seconds=30)
LEASE_PER_VOTE = timedelta(microseconds=300)  # about three times what reading and resampling take


def missing(now: datetime) -> list[int]:
    """The ids of boards whose current snapshot waits for its Elo intervals."""
    waiting = Snapshot.objects.current().without_elo_intervals(now)
    return list(waiting.values_list("board", flat=True))


def add(*, board_id: int, now: datetime) -> bool:
    """Give the board's current snapshot the intervals of its Elo ratings, unless it has them."""
    waiting = Snapshot.objects.current().without_elo_intervals(now).filter(board=board_id)
    snapshot = waiting.select_related("board__arena").first()
    if snapshot is None or not _claim(snapshot, now):
        return False
    votes = _votes_seen(snapshot)
    found = _interval(snapshot.board, votes)
    return _store(snapshot, votes, found, now)


def lease(snapshot: Snapshot) -> timedelta:
    """How long one worker has; who takes longer is not stopped, but another one tries as well."""
    return LEASE + snapshot.n_votes * LEASE_PER_VOTE


def _claim(snapshot: Snapshot, now: datetime) -> bool:
    unclaimed = Snapshot.objects.without_elo_intervals(now).filter(pk=snapshot.pk)
    return bool(unclaimed.update(elo_claimed_until=now + lease(snapshot)))


def _votes_seen(snapshot: Snapshot) -> Votes:
    """The votes beneath the snapshot; those voided since are missing, as they should be."""
    arena: Arena = snapshot.board.arena
    votes = read_votes(arena).of(snapshot.board.raters, snapshot.board.category)
    return votes.where(votes.pk <= snapshot.last_vote_id)


def _interval(board: Board, votes: Votes) -> Interval:
    counted = votes.where(fitting.in_fit(board, votes))
    return Elo().interval(
        counted.left,
        counted.right,
        counted.score,
        fitting.clusters_of(counted).codes,
        len(votes.candidates),
        n_resamples=N_RESAMPLES,
        confidence=fitting.CONFIDENCE,
        random_state=board.seed,
    )


@transaction.atomic
def _store(snapshot: Snapshot, votes: Votes, found: Interval, now: datetime) -> bool:
    """Write the intervals; a snapshot without any is marked too, so that nobody tries again."""
    mine = Snapshot.objects.filter(pk=snapshot.pk, elo_intervals_at=None)
    if not mine.update(elo_intervals_at=now, elo_claimed_until=None):
        return False
    place = {pk: i for i, pk in enumerate(votes.candidates.tolist())}
    EloInterval.objects.bulk_create(
        [
            EloInterval(standing=standing, low=found.low[i], high=found.high[i])
            for standing in snapshot.standings.all()
            if (i := place.get(standing.candidate_id)) is not None and not isnan(found.low[i])
        ]
    )
    boards.drop_pages(arena_id=snapshot.board.arena_id)
    return True
