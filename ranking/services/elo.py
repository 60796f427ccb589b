"""The intervals of a board's Elo ratings: computed after publishing, because they take long."""

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from math import isnan

import numpy as np
from django.db import transaction
from django.utils import timezone

from ranking.models import EloInterval, Snapshot
from ranking.models.boards import LONGEST_CLAIM
from ranking.models.refreshes import LONGEST_PAUSE as LONGEST_REST
from ranking.question import Evidence
from ranking.services import leases
from ranking.services.leases import REST_PER_SECOND
from ranking.services.votes import question_of, read
from ranking.stats.elo import Elo
from ranking.stats.intervals import Sandwich

Reach = dict[int, tuple[float, float]]  # Elo below and above a rating, by candidate
N_RESAMPLES = 100
CLAIM = timedelta(seconds=30)
LEASE_PER_VOTE = timedelta(microseconds=300)  # about three times what reading and resampling take


def arenas_without_intervals(now: datetime) -> list[int]:
    """The ids of arenas whose current snapshots need Elo intervals that no worker is computing."""
    waiting = Snapshot.objects.current().without_elo_intervals(now)
    return list(waiting.order_by().values_list("board__arena", flat=True).distinct())


def add_intervals(*, arena_id: int, now: datetime) -> int:
    """Add Elo intervals to the arena's current snapshots that lack them; return how many got them.

    One worker at a time does that for an arena, and rests as a refresh does: the newest of these
    snapshots stays claimed meanwhile.
    """
    waiting = Snapshot.objects.current().without_elo_intervals(now).filter(board__arena=arena_id)
    snapshots = list(waiting.select_related("board__arena").order_by("board"))
    ids = [snapshot.pk for snapshot in snapshots]
    until = now + lease(snapshots)
    if not waiting.filter(pk__in=ids).update(elo_claimed_until=until):
        return 0
    worked, added = time.thread_time(), 0
    arena = snapshots[0].board.arena
    votes = read(arena)  # some may have been cast since
    for snapshot in snapshots:
        question = question_of(snapshot.board, arena)
        evidence = Evidence.of(votes, replace(question, rater_share=1.0, network_share=1.0))
        added += _store_intervals(snapshot, measure_reach(evidence), evidence.n_votes, now)
    rest = timedelta(seconds=REST_PER_SECOND * (time.thread_time() - worked))
    rested = timezone.now() + min(rest, LONGEST_REST)
    Snapshot.objects.filter(pk=ids[-1]).update(elo_claimed_until=rested)
    return added


def lease(snapshots: Iterable[Snapshot]) -> timedelta:
    """How long one worker has; a slower one is not stopped, but another one may then start too."""
    n_votes = sum(snapshot.n_votes for snapshot in snapshots)
    return min(CLAIM + n_votes * LEASE_PER_VOTE, LONGEST_CLAIM)


def measure_reach(evidence: Evidence) -> Reach:
    """How much each rating could change with other votes in another order.

    Votes depend on one another as they do for the scores: the grouping with the larger errors is
    resampled, and what the other one adds to the error of a score stretches the interval.
    """
    elo, confidence, groups = Elo(), evidence.question.confidence, evidence.groups
    crossed = Sandwich(confidence, jackknifed=True).fit(*groups.groupings)
    battles = crossed.strongest_
    alone = Sandwich(confidence, jackknifed=True).fit(battles)
    stretch = np.fmax(crossed.standard_errors_ / alone.standard_errors_, 1.0)
    # Replicates shuffle votes, so their order here is only that of the random draws: wins, losses,
    # ties and soft verdicts, each by group and pair.
    kind = np.select([battles.score == 1, battles.score == 0, battles.score == 0.5], [0, 1, 2], 3)
    group = np.zeros(len(kind), np.int64) if battles.cluster is None else battles.cluster
    order = np.lexsort((battles.second, battles.first, group, kind))
    rows = np.repeat(order, battles.count[order])
    bounds = elo.interval(
        battles.first[rows],
        battles.second[rows],
        battles.score[rows],
        None if battles.cluster is None else battles.cluster[rows],
        battles.n_candidates,
        n_resamples=N_RESAMPLES,
        confidence=confidence,
        random_state=evidence.question.seed,
    )
    below, above = (stretch * (elo.ratings_ - bounds.low), stretch * (bounds.high - elo.ratings_))
    return {
        pk: (float(below[i]), float(above[i]))
        for i, pk in enumerate(evidence.candidates.tolist())
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
