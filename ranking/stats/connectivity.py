"""Connectivity of candidates, and transitivity of majorities.

The Bradley-Terry maximum exists only among candidates that are strongly connected by wins
(Ford 1957): an arrow leads from winner to loser; a tie or a soft score is an arrow both ways.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ranking.stats.arrays import Bools, Floats, Ints, summed

HALF_A_VOTE = 0.5
A_HUNDREDTH = 0.01
FEW = 4  # steps after which a search through the whole graph is faster


class Status(StrEnum):
    """Whether a candidate is ranked, or why it is not comparable yet."""

    RANKED = "ranked"
    UNDEFEATED = "undefeated"
    WINLESS = "winless"
    ABOVE = "above"
    BELOW = "below"
    DISCONNECTED = "disconnected"
    NO_VOTES = "no_votes"
    ONLY_CANDIDATE = "only_candidate"

    @property
    def reason(self) -> str:
        """One sentence for a page; empty for the ranked."""
        return _REASONS[self]


_REASONS = {
    Status.RANKED: "",
    Status.UNDEFEATED: "It has never lost or tied, so no finite score describes it.",
    Status.WINLESS: "It has never won or tied, so no finite score describes it.",
    Status.ABOVE: "It and those it trades wins with have never lost to the ranked candidates.",
    Status.BELOW: "It and those it trades wins with have never beaten the ranked candidates.",
    Status.DISCONNECTED: "No chain of results connects it with the others in both directions.",
    Status.NO_VOTES: "It has no votes yet.",
    Status.ONLY_CANDIDATE: "There is no other candidate to compare it with.",
}


@dataclass(frozen=True, eq=False)
class Connectivity:
    """How K candidates are connected.

    Attributes
    ----------
    components : (K,) labels, the largest component first: from 0, the ranked, or from 1
    ranked : (K,) mask of the largest component; all False if no two candidates are comparable, or
        if two components are the largest
    status : K of `Status`
    """

    components: Ints
    ranked: Bools
    status: tuple[Status, ...]


def connect(wins: Floats) -> Connectivity:
    """Find the strong components of a (K, K) win matrix, and the status of each candidate."""
    arrows = arrows_of(wins)
    if len(wins) > 1 and _spans(arrows) and _spans(arrows.T):
        everybody = np.ones(len(wins), np.bool_)
        return Connectivity(np.zeros(len(wins), np.int64), everybody, (Status.RANKED,) * len(wins))
    components = _components(wins, arrows)
    ranked = components == 0
    return Connectivity(components, ranked, _status(arrows, ranked))


def arrows_of(wins: Floats) -> Bools:
    """(K, K) whether the row won against the column.

    Soft verdicts that grant under half a vote in total, and under a hundredth of the pair's votes,
    do not count as a win: they would give a candidate that never lost a score without a bound.
    """
    arrows: Bools = (wins > 0) & ((wins >= HALF_A_VOTE) | (wins >= A_HUNDREDTH * (wins + wins.T)))
    return arrows


def _spans(arrows: Bools) -> bool:
    """Whether a few steps along arrows lead from the first candidate to all others.

    A cheap check that most boards pass; False means that the graph must be searched.
    """
    reached = arrows[0].copy()
    for _ in range(FEW):
        if reached.all():
            return True
        reached |= arrows[reached].any(axis=0)
    return False


def _components(wins: Floats, arrows: Bools) -> Ints:
    """(K,) strong components, from 0 if one is the largest and has two candidates, else from 1."""
    if not len(wins):
        return np.zeros(0, np.int64)
    component = connected_components(_graph(arrows), directed=True, connection="strong")[1]
    label = component.astype(np.int64)
    order, is_one = largest_first(label, wins)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[label] + (0 if is_one and len(order) < len(wins) else 1)


def largest_first(label: Ints, wins: Floats) -> tuple[Ints, bool]:
    """The labels of groups of candidates, and whether the first group is larger than all others.

    Groups are ordered by size, then by votes inside: if both are the same in two groups, nothing
    but the order of candidates would prefer one of them.
    """
    size = np.bincount(label)
    within = np.where(label[:, None] == label, wins, 0.0).sum(axis=1)
    votes = np.round(summed(label, within, len(size)), 6)  # soft verdicts leave errors of rounding
    order = np.lexsort((-votes, -size))
    largest = (size == size[order[0]]) & (votes == votes[order[0]])
    return order, np.count_nonzero(largest) == 1


def _status(arrows: Bools, ranked: Bools) -> tuple[Status, ...]:
    won, lost = arrows.any(axis=1), arrows.any(axis=0)
    above, below = _reaches(arrows.T, ranked), _reaches(arrows, ranked)
    somebody = bool(ranked.any())
    choices: list[tuple[Bools, Status]] = [
        (ranked, Status.RANKED),
        (np.full(len(ranked), len(ranked) == 1), Status.ONLY_CANDIDATE),
        (np.logical_not(won | lost), Status.NO_VOTES),
        (above & ~lost, Status.UNDEFEATED),
        (below & ~won, Status.WINLESS),
        (above & somebody, Status.ABOVE),
        (below & somebody, Status.BELOW),
    ]
    return tuple(
        next((status for mask, status in choices if mask[i]), Status.DISCONNECTED)
        for i in range(len(ranked))
    )


def _reaches(arrows: Bools, ranked: Bools) -> Bools:
    """Mask of the candidates reachable from the ranked along arrows; all if none is ranked."""
    if not ranked.any():
        return np.ones(len(ranked), np.bool_)
    reached = np.zeros(len(ranked), np.bool_)
    start = int(np.argmax(ranked))
    reached[breadth_first_order(_graph(arrows), start, return_predecessors=False)] = True
    return reached


def _graph(arrows: Bools) -> csr_array:
    tails, heads = np.nonzero(arrows)
    return csr_array((np.ones(len(tails)), (tails, heads)), shape=arrows.shape)


ROUNDING = 1e-9  # of a pair's total; a smaller lead is rounding in sums of fractions


@dataclass(frozen=True)
class Transitivity:
    """``triads``: sets of three candidates with a majority in each of their three pairs;
    ``transitive``: how many of them are not cyclic."""

    triads: int
    transitive: int

    @property
    def share(self) -> float:
        """Share of transitive triads: 0.75 for coin tosses, 1 for an order; NaN without triads."""
        return self.transitive / self.triads if self.triads else math.nan


def transitivity(wins: ArrayLike) -> Transitivity:
    """Count the triads of a (K, K) matrix of the row's score against the column.

    A pair that is even, or that never met, has no majority. A triad is a triangle in the graph of
    pairs with a majority and adds 6 to the trace of the graph's cubed adjacency matrix; a cyclic
    triad adds 3 to the trace of the cubed majority matrix (Kendall and Babington Smith 1940).

    Raises ValueError if ``wins`` is not square, finite and not negative.
    """
    matrix = np.asarray(wins, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"wins must be of shape (K, K), not {matrix.shape}")
    if not (np.isfinite(matrix) & (matrix >= 0)).all():
        raise ValueError("wins must be finite and not negative")
    ahead: Bools = matrix - matrix.T > ROUNDING * (matrix + matrix.T)
    triads = _closed_walks(ahead | ahead.T) // 6
    return Transitivity(triads, triads - _closed_walks(ahead) // 3)


def _closed_walks(arrows: Bools) -> int:
    """The number of closed walks of three arrows: the trace of the cube, exact in float64."""
    steps = arrows.astype(np.float64)
    return int(((steps @ steps) * steps.T).sum())
