"""Weights for drawing pairs, and which pairs of a board are neighbours or new."""

from dataclasses import dataclass

import numpy as np

from arena.models import Arena, Candidate
from arena.services.pairs import PARTS, publish_pair_weights
from ranking.models import Board, BothBad, Counted, Raters, Snapshot, SnapshotMatrices
from ranking.question import Evidence
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError
from ranking.stats.pairing import pair_shares
from ranking.votes import Floats, Ints

NOTICEABLE = 0.1  # the smallest relative change of a weight that is stored
Pair = tuple[int, int]


def publish(*, board: Board, evidence: Evidence) -> None:
    """Store the weights that have changed noticeably, scaled so that all have a mean of 1.

    `board` and its votes are people's, because raters add to them. See `ranking.stats.pairing`.
    """
    arena = board.arena
    drawable = arena.pairs.filter(
        shared_prompts__gt=0, low__retired_at=None, high__retired_at=None
    ).order_by("pk")
    pairs = list(drawable.values_list("low", "high"))
    if not pairs:
        return
    ids = np.array(pairs, np.int64)
    candidates = np.unique(np.concatenate([evidence.candidates, ids.ravel()]))
    battles = evidence.pairs.battles(candidates, board.both_bad == BothBad.TIE)
    try:
        theta = BradleyTerry().fit(battles).theta_
    except NotConvergedError:  # the board says so
        return
    covariance, critical = _measured(board, candidates)
    low, high = np.searchsorted(candidates, ids.T)
    shares = pair_shares((low, high), theta, covariance, battles.wins(), critical)
    new = len(pairs) * np.column_stack([shares.total, shares.first, shares.order, shares.newcomers])
    old = np.array(drawable.values_list("weight", *PARTS))
    is_noticeable = np.any(np.abs(old - new) > NOTICEABLE * new[:, :1], axis=1)
    changed = {
        pair: row
        for pair, row, noticeable in zip(pairs, new.tolist(), is_noticeable, strict=True)
        if noticeable
    }
    if changed:
        publish_pair_weights(
            arena=arena,
            weights={pair: weight for pair, (weight, *_) in changed.items()},
            parts={
                pair: dict(zip(PARTS, parts, strict=True)) for pair, (_, *parts) in changed.items()
            },
        )


def _measured(board: Board, candidates: Ints) -> tuple[Floats, float | None]:
    """(K, K) of theta from the newest intervals, NaN where unknown, and their critical value."""
    found = SnapshotMatrices.objects.filter(snapshot__board=board, snapshot__is_current=True)
    matrices = found.select_related("snapshot").first()
    if matrices is None or not len(matrices.ids):
        return np.full((len(candidates),) * 2, np.nan), None
    covariance = matrices.covariance_among(candidates) / BradleyTerry().elo_per_theta ** 2
    return covariance, matrices.snapshot.settings.get("critical")


# What judge runs need to know.

FEW_VOTES = 20  # a candidate with fewer is new to a board


@dataclass(frozen=True)
class PairFacts:
    """What a board says about its pairs, which are (lower id, higher id).

    Attributes
    ----------
    neighbours : pairs adjacent in rank
    fresh : active candidates without a score on the board, or with fewer than FEW_VOTES votes
    """

    neighbours: frozenset[Pair] = frozenset()
    fresh: frozenset[int] = frozenset()


def pair_facts(*, arena: Arena, raters: str = Raters.JUDGES.value) -> PairFacts:
    """The facts of the current snapshot of a board of all categories; at most three queries.

    Without a snapshot every active candidate is fresh. Raises ValueError for unknown raters.
    """
    if raters not in Counted.values:
        raise ValueError(f"raters must be one of {', '.join(Counted.values)}, not {raters!r}")
    active = Candidate.objects.active().filter(arena=arena).values_list("pk", flat=True)
    current = Snapshot.objects.current().filter(board__arena=arena, board__category="")
    snapshot = current.filter(board__raters=raters).first()
    if snapshot is None:
        return PairFacts(fresh=frozenset(active))
    standings = snapshot.standings.exclude(score=None)
    scored = standings.filter(votes__gte=FEW_VOTES).values_list("candidate", flat=True)
    neighbours = snapshot.findings.get("neighbours") or []
    return PairFacts(
        neighbours=frozenset(_ordered_pair(row["upper"], row["lower"]) for row in neighbours),
        fresh=frozenset(active) - set(scored),
    )


def _ordered_pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)
