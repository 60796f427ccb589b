"""What a board knows of its pairs: which are separated, which are next to each other, which new.

Whoever buys votes asks here, so that no money goes where the answer is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from arena.models import Arena, Candidate
from ranking.matrices import covariance_among
from ranking.models import Counted, Raters, Snapshot, SnapshotMatrices, Standing
from ranking.stats.intervals import MIN_CLUSTERS, critical_value
from ranking.tallies import Cells
from ranking.votes import Bools, Ints

Pair = tuple[int, int]  # ids, the lower first
FEW_VOTES = 20  # below so many a candidate is new to a board
VANISHING = 1e-6  # part of the greatest variance; below it is the rounding of what is stored


@dataclass(frozen=True)
class PairFacts:
    """Pairs are (lower id, higher id).

    Attributes
    ----------
    neighbours : those that follow each other in rank, separated or not
    separated : those whose difference in score is beyond chance, one pair at a time (95 %)
    fresh : active candidates without a score on the board, or with fewer than FEW_VOTES votes
    votes : how many votes each pair has on the board; pairs that never met are not in it
    """

    neighbours: frozenset[Pair] = frozenset()
    separated: frozenset[Pair] = frozenset()
    fresh: frozenset[int] = frozenset()
    votes: Mapping[Pair, int] = field(default_factory=dict)


def pair_facts(*, arena: Arena, raters: str = Raters.JUDGES.value) -> PairFacts:
    """The facts of the newest snapshot of a board of all prompts; five queries at most.

    Without a snapshot everything is unknown, and every active candidate is fresh. Raises
    ValueError where no board has such raters.
    """
    if raters not in Counted.values:
        raise ValueError(f"raters must be one of {', '.join(Counted.values)}, not {raters!r}")
    active = Candidate.objects.active().filter(arena=arena).values_list("pk", flat=True)
    current = Snapshot.objects.current().filter(board__arena=arena, board__category="")
    snapshot = current.filter(board__raters=raters).first()
    if snapshot is None:
        return PairFacts(fresh=frozenset(active))
    standings = list(snapshot.standings.order_by("candidate"))
    known = {s.candidate_id for s in standings if s.score is not None and s.votes >= FEW_VOTES}
    matrices = SnapshotMatrices.objects.filter(snapshot=snapshot).first()
    told = snapshot.findings.get("neighbours") or []
    return PairFacts(
        neighbours=frozenset(_pair(two["upper"], two["lower"]) for two in told),
        separated=_separated(snapshot, standings, matrices),
        fresh=frozenset(active) - known,
        votes=_votes(matrices),
    )


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)


def _votes(matrices: SnapshotMatrices | None) -> dict[Pair, int]:
    cells = Cells.of_bytes(bytes(matrices.cells)) if matrices else Cells.none()
    ids = zip(cells.key("first").tolist(), cells.key("second").tolist(), strict=True)
    return dict(zip(ids, cells.votes.tolist(), strict=True))


def _separated(
    snapshot: Snapshot, standings: list[Standing], matrices: SnapshotMatrices | None
) -> frozenset[Pair]:
    """What the board says of neighbours; any other two by the same rule."""
    found: set[Pair] = set()
    if matrices is not None:
        ids = np.array([standing.candidate_id for standing in standings], np.int64)
        places = np.argwhere(np.triu(_apart(snapshot, standings, matrices, ids), 1))
        found = {(int(ids[i]), int(ids[j])) for i, j in places}
    for two in snapshot.findings.get("neighbours") or []:
        pair = _pair(two["upper"], two["lower"])
        found = found | {pair} if two["separated"] else found - {pair}
    return frozenset(found)


def _apart(
    snapshot: Snapshot, standings: list[Standing], matrices: SnapshotMatrices, ids: Ints
) -> Bools:
    """(K, K) bool: whether a difference exceeds the critical value of its standard errors."""
    n_clusters = snapshot.settings.get("n_clusters")
    if n_clusters is not None and n_clusters < MIN_CLUSTERS:
        return np.zeros((len(ids),) * 2, np.bool_)
    scores = np.array([standing.score for standing in standings], np.float64)  # None is NaN
    covariance = covariance_among(matrices, ids)
    own = covariance.diagonal()
    variance = own[:, None] + own[None, :] - 2 * covariance
    critical = critical_value(snapshot.settings["confidence"], n_clusters)
    with np.errstate(invalid="ignore"):
        there = variance > VANISHING * np.maximum(own[:, None], own[None, :])
        reach = critical * np.sqrt(np.where(there, variance, np.nan))
        apart: Bools = np.abs(scores[:, None] - scores[None, :]) > reach
    return apart
