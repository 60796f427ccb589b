"""Weights for drawing pairs, and the pairs that a board has already decided."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from arena.models import Arena, Candidate
from arena.services.pairs import publish_pair_weights
from ranking.models import Board, BothBad, Counted, Raters, Snapshot, SnapshotMatrices, Standing
from ranking.question import Evidence
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError
from ranking.stats.intervals import MIN_CLUSTERS, critical_value
from ranking.stats.pairing import pair_weights
from ranking.votes import Bools, Floats, Ints, PairCounts

NOTICEABLE = 0.1  # the smallest relative change of a weight that is stored
Pair = tuple[int, int]


def publish(*, board: Board, evidence: Evidence) -> None:
    """Store the weights that have changed noticeably, scaled so that all have a mean of 1.

    `board` and its votes are people's, because raters add to them. See `ranking.stats.pairing`.
    """
    arena = board.arena
    pairs = arena.pairs.filter(shared_prompts__gt=0).values_list("low", "high", "weight")
    known = {(low, high): weight for low, high, weight in pairs}
    if not known:
        return
    try:
        ids = np.array([pk for pair in known for pk in pair], np.int64)
        candidates = np.unique(np.concatenate([evidence.candidates, ids]))
        battles = evidence.pairs.battles(candidates, board.both_bad == BothBad.TIE)
        votes = np.zeros((len(candidates),) * 2)
        np.add.at(votes, (battles.first, battles.second), battles.count)
        matrix = pair_weights(
            BradleyTerry().fit(battles).theta_,
            _theta_covariance(board, candidates),
            votes + votes.T,
            board.target_error,
            wins=battles.wins(),
        )
        place = {pk: i for i, pk in enumerate(candidates.tolist())}
        weights = {(low, high): float(matrix[place[low], place[high]]) for low, high in known}
    except NotConvergedError:  # the board says so
        return
    mean = sum(weights.values()) / len(weights)
    changed = {
        pair: weight / mean
        for pair, weight in weights.items()
        if abs(known[pair] - weight / mean) > NOTICEABLE * weight / mean
    }
    if changed:
        publish_pair_weights(arena=arena, weights=changed)


def _theta_covariance(board: Board, candidates: Ints) -> Floats:
    """(K, K) of theta from the newest intervals; NaN where unknown."""
    matrices = SnapshotMatrices.objects.filter(
        snapshot__board=board, snapshot__is_current=True
    ).first()
    if matrices is None:
        return np.full((len(candidates),) * 2, np.nan)
    return matrices.covariance_among(candidates) / BradleyTerry().elo_per_theta ** 2


# Judge runs use it to spend no money on pairs that are already decided.

FEW_VOTES = 20  # a candidate with fewer is new to a board
VANISHING = 1e-6  # part of the larger variance; less is rounding in the stored numbers


@dataclass(frozen=True)
class PairFacts:
    """What a board says about its pairs, which are (lower id, higher id).

    Attributes
    ----------
    neighbours : pairs adjacent in rank, separated or not
    separated : pairs with a significant difference in score, one pair at a time (95 %)
    fresh : active candidates without a score on the board, or with fewer than FEW_VOTES votes
    votes : the number of votes of each pair that has any
    """

    neighbours: frozenset[Pair] = frozenset()
    separated: frozenset[Pair] = frozenset()
    fresh: frozenset[int] = frozenset()
    votes: Mapping[Pair, int] = field(default_factory=dict)


def pair_facts(*, arena: Arena, raters: str = Raters.JUDGES.value) -> PairFacts:
    """The facts of the current snapshot of a board of all categories; at most five queries.

    Without a snapshot every active candidate is fresh. Raises ValueError for unknown raters.
    """
    if raters not in Counted.values:
        raise ValueError(f"raters must be one of {', '.join(Counted.values)}, not {raters!r}")
    active = Candidate.objects.active().filter(arena=arena).values_list("pk", flat=True)
    current = Snapshot.objects.current().filter(board__arena=arena, board__category="")
    snapshot = current.filter(board__raters=raters).first()
    if snapshot is None:
        return PairFacts(fresh=frozenset(active))
    standings = list(snapshot.standings.order_by("candidate"))
    scored = {s.candidate_id for s in standings if s.score is not None and s.votes >= FEW_VOTES}
    matrices = SnapshotMatrices.objects.filter(snapshot=snapshot).first()
    neighbours = snapshot.findings.get("neighbours") or []
    counts = matrices.pairs if matrices else PairCounts.none()
    ids = zip(counts.first.tolist(), counts.second.tolist(), strict=True)
    return PairFacts(
        neighbours=frozenset(_ordered_pair(row["upper"], row["lower"]) for row in neighbours),
        separated=_separated_pairs(snapshot, standings, matrices),
        fresh=frozenset(active) - scored,
        votes=dict(zip(ids, counts.votes.tolist(), strict=True)),
    )


def _ordered_pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _separated_pairs(
    snapshot: Snapshot, standings: list[Standing], matrices: SnapshotMatrices | None
) -> frozenset[Pair]:
    """Pairs with a clear lead: neighbours as the board says, all others by the same rule."""
    pairs: set[Pair] = set()
    if matrices is not None:
        ids = np.array([standing.candidate_id for standing in standings], np.int64)
        places = np.argwhere(np.triu(_significant_pairs(snapshot, standings, matrices, ids), 1))
        pairs = {(int(ids[i]), int(ids[j])) for i, j in places}
    for row in snapshot.findings.get("neighbours") or []:
        pair = _ordered_pair(row["upper"], row["lower"])
        pairs = pairs | {pair} if row["separated"] else pairs - {pair}
    return frozenset(pairs)


def _significant_pairs(
    snapshot: Snapshot, standings: list[Standing], matrices: SnapshotMatrices, ids: Ints
) -> Bools:
    """(K, K) bool: whether a difference exceeds the critical value times its standard error."""
    n_clusters = snapshot.settings.get("n_clusters")
    if n_clusters is not None and n_clusters < MIN_CLUSTERS:
        return np.zeros((len(ids),) * 2, np.bool_)
    scores = np.array([standing.score for standing in standings], np.float64)  # None is NaN
    covariance = matrices.covariance_among(ids)
    variances = covariance.diagonal()
    variance = variances[:, None] + variances[None, :] - 2 * covariance
    critical = critical_value(snapshot.settings["confidence"], n_clusters)
    with np.errstate(invalid="ignore"):
        is_known = variance > VANISHING * np.maximum(variances[:, None], variances[None, :])
        reach = critical * np.sqrt(np.where(is_known, variance, np.nan))
        significant: Bools = np.abs(scores[:, None] - scores[None, :]) > reach
    return significant
