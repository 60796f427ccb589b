"""The intervals of Elo ratings: slower than a refresh, so they come after it."""

from datetime import datetime, timedelta
from math import isnan

import numpy as np
from django.db import transaction

from ranking.models import Board, BothBad, EloInterval, Snapshot
from ranking.services import boards, cluster_tallies
from ranking.services.evidence import CONFIDENCE
from ranking.stats import Battles, Elo
from ranking.tallies import clustered_battles
from ranking.votes import Ints

Reach = dict[int, tuple[float, float]]  # Elo below and above a rating, by candidate
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
    battles, candidates = _battles_seen(snapshot)
    reach = _reach(snapshot.board, battles, candidates)
    return _store(snapshot, reach, battles.n_votes, now)


def lease(snapshot: Snapshot) -> timedelta:
    """How long one worker has; who takes longer is not stopped, but another one tries as well."""
    return LEASE + snapshot.n_votes * LEASE_PER_VOTE


def _claim(snapshot: Snapshot, now: datetime) -> bool:
    unclaimed = Snapshot.objects.without_elo_intervals(now).filter(pk=snapshot.pk)
    return bool(unclaimed.update(elo_claimed_until=now + lease(snapshot)))


def _battles_seen(snapshot: Snapshot) -> tuple[Battles, Ints]:
    """The votes by cluster, and their candidates; those cast since may be among them."""
    board = snapshot.board
    cells = cluster_tallies.read_clusters(
        arena_id=board.arena_id, raters=board.raters, category=board.category
    )
    candidates = np.unique(np.concatenate([cells.key("first"), cells.key("second")]))
    return clustered_battles(cells, candidates, board.both_bad == BothBad.TIE)[0], candidates


def _reach(board: Board, battles: Battles, candidates: Ints) -> Reach:
    """How far the ratings may be off, by candidate: other votes in another order."""
    elo = Elo()
    rows = np.repeat(np.arange(len(battles.count)), battles.count)
    found = elo.interval(
        battles.first[rows],
        battles.second[rows],
        battles.score[rows],
        None if battles.cluster is None else battles.cluster[rows],
        battles.n_candidates,
        n_resamples=N_RESAMPLES,
        confidence=CONFIDENCE,
        random_state=board.seed,
    )
    below, above = elo.ratings_ - found.low, found.high - elo.ratings_
    return {
        pk: (float(below[i]), float(above[i]))
        for i, pk in enumerate(candidates.tolist())
        if not isnan(below[i])
    }


@transaction.atomic
def _store(snapshot: Snapshot, reach: Reach, n_votes: int, now: datetime) -> bool:
    """Write the intervals; a snapshot without any is marked too, so that nobody tries again."""
    mine = Snapshot.objects.filter(pk=snapshot.pk, elo_intervals_at=None)
    if not mine.update(elo_intervals_at=now, elo_claimed_until=None, elo_interval_votes=n_votes):
        return False
    rated = snapshot.standings.exclude(elo=None).values_list("pk", "candidate", "elo")
    EloInterval.objects.bulk_create(
        [
            EloInterval(standing_id=pk, low=elo - reach[who][0], high=elo + reach[who][1])
            for pk, who, elo in rated
            if who in reach and elo is not None
        ]
    )
    boards.drop_pages(arena_id=snapshot.board.arena_id)
    return True
