"""Who can be compared with whom, and why not.

The Bradley-Terry maximum exists only among candidates that are strongly connected by wins
(Ford 1957); an arrow leads from winner to loser, and a tie or a soft score is an arrow both ways.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ranking.stats.columns import Bools, Floats, Ints, summed

FEW = 4  # steps after which a search through the whole graph is the lesser work


class Status(StrEnum):
    """Whether a candidate is ranked, and else why it is not comparable yet."""

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
    Status.DISCONNECTED: "No chain of results leads between it and the ranked candidates.",
    Status.NO_VOTES: "It has no votes yet.",
    Status.ONLY_CANDIDATE: "There is no other candidate to compare it with.",
}


@dataclass(frozen=True, eq=False)
class Connectivity:
    """``components``: (K,) labels from 0, the largest first; ``ranked``: (K,) mask of the largest,
    empty where nobody is comparable with anybody; ``status``: one per candidate."""

    components: Ints
    ranked: Bools
    status: tuple[Status, ...]


def connect(wins: Floats) -> Connectivity:
    """Label the candidates of a (K, K) win matrix."""
    arrows = wins > 0
    if len(wins) > 1 and _spans(arrows) and _spans(arrows.T):
        everybody = np.ones(len(wins), np.bool_)
        return Connectivity(np.zeros(len(wins), np.int64), everybody, (Status.RANKED,) * len(wins))
    components = _components(wins, arrows)
    ranked = components == 0
    if ranked.sum() < 2:
        ranked = np.zeros(len(wins), np.bool_)
    return Connectivity(components, ranked, _status(arrows, ranked))


def _spans(arrows: Bools) -> bool:
    """Whether a few steps along arrows lead from the first candidate to all others.

    A board that has settled is found connected at little cost; False only means to look closely.
    """
    reached = arrows[0].copy()
    for _ in range(FEW):
        if reached.all():
            return True
        reached |= arrows[reached].any(axis=0)
    return False


def _components(wins: Floats, arrows: Bools) -> Ints:
    """Strong components, ordered by size, then by votes inside, then by their first candidate."""
    if not len(wins):
        return np.zeros(0, np.int64)
    label = connected_components(_graph(arrows), directed=True, connection="strong")[1].astype(
        np.int64
    )
    _, first, size = np.unique(label, return_index=True, return_counts=True)
    inside = np.where(label[:, None] == label, wins, 0.0).sum(axis=1)
    order = np.lexsort((first, -summed(label, inside, len(size)), -size))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[label]


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
    """Mask of the candidates that arrows lead to from the ranked; of all where none is ranked."""
    if not ranked.any():
        return np.ones(len(ranked), np.bool_)
    reached = np.zeros(len(ranked), np.bool_)
    start = int(np.argmax(ranked))
    reached[breadth_first_order(_graph(arrows), start, return_predecessors=False)] = True
    return reached


def _graph(arrows: Bools) -> csr_array:
    tails, heads = np.nonzero(arrows)
    return csr_array((np.ones(len(tails)), (tails, heads)), shape=arrows.shape)
