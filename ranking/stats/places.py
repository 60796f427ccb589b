"""Places of all candidates, also of those whom no finite score describes.

A candidate who never lost to the scored ones, directly or through others, ranks above them, and
one who never won below them, as soon as its votes are on as many prompts as a decision about
`CompleteSeparation` needs. Where nobody has a score, as when one candidate won every vote, the
order of the chains of wins is the result. Candidates with fewer votes stand apart.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from ranking.stats.arrays import Bools, Floats, Ints, distinct, summed
from ranking.stats.battles import Battles
from ranking.stats.connectivity import arrows_of
from ranking.stats.intervals import MIN_CLUSTERS, t_quantile
from ranking.stats.ranks import ranks
from ranking.stats.sequential import CompleteSeparation

FARTHEST = 10_000.0  # Elo beyond the scores, where a bound is looked for


@dataclass(frozen=True, eq=False)
class Places:
    """The places of K candidates; arrays are (K,).

    Attributes
    ----------
    rank : 1 + the number placed higher; NaN for those that stand apart
    best, worst : the possible ranks of the placed that have no score; NaN for the others
    low, high : Elo, the open intervals of those placed above and below the scored; NaN if unknown
    surely_above : the number of candidates without a score that are clearly above each scored one
    maybe_below : the number of those placed below that are not clearly below each scored one
    n_above : the number of candidates placed above the scored
    """

    rank: Floats
    best: Floats
    worst: Floats
    low: Floats
    high: Floats
    surely_above: Ints
    maybe_below: Ints
    n_above: int

    def among_all(self, best: Floats, worst: Floats) -> tuple[Floats, Floats]:
        """Possible ranks among the scored (NaN if unknown) as possible ranks among all placed."""
        return (
            np.where(np.isnan(self.best), best + self.surely_above, self.best),
            np.where(np.isnan(self.worst), worst + self.n_above + self.maybe_below, self.worst),
        )

    def leader(self, scored: int | None) -> int | None:
        """The clear number one, given that among the scored; None if there is none."""
        certain = np.flatnonzero(self.worst == 1)
        if len(certain):
            return int(certain[0])
        return None if self.n_above else scored


def independent_groups(first: Ints, second: Ints, prompt: Ints, n_clusters: Ints) -> Ints:
    """(K,) the number of prompts of each candidate's votes; of clusters where some are unknown.

    ``first``, ``second``: (N,) candidates; ``prompt``: (N,), negative if unknown; ``n_clusters``:
    (K,) clusters of votes on each candidate.
    """
    candidate, prompts = np.concatenate([first, second]), np.tile(prompt, 2)
    known = prompts >= 0
    span = int(prompts.max(initial=0)) + 1
    met = distinct(candidate[known] * span + prompts[known], len(n_clusters) * span) // span
    is_partly_unknown = np.bincount(candidate[~known], minlength=len(n_clusters)) > 0
    return np.where(is_partly_unknown, n_clusters, np.bincount(met, minlength=len(n_clusters)))


def place(
    wins: Floats,
    ratings: Floats,
    n_clusters: Ints,
    low: Floats,
    high: Floats,
    confidence: float = 0.95,
    scale: float = 400.0,
) -> Places:
    """Place K candidates.

    Parameters
    ----------
    wins : (K, K) the row's points against the column
    ratings, low, high : (K,) Elo and its interval; NaN without a score or an interval
    n_clusters : (K,) `independent_groups` of votes on each candidate
    scale : Elo points for odds of 10 to 1
    """
    scored: Bools = ~np.isnan(ratings)
    size, nothing = len(ratings), np.full(len(ratings), np.nan)
    none = np.zeros(size, np.int64)
    if scored.all():
        return Places(ranks(ratings), nothing, nothing, nothing, nothing, none, none, 0)
    enough = CompleteSeparation(0, confidence).prompts_to_go
    arrows = arrows_of(wins)
    # No more groups of votes are between two candidates than either has, or than votes.
    groups = np.minimum(np.minimum(n_clusters[:, None], n_clusters), wins + wins.T)
    decided = arrows & ~arrows.T & (groups >= enough)
    evident = scored | ((n_clusters >= enough) & (_votes_with(wins, scored) >= enough))
    links = np.where(scored[:, None] | scored, arrows & evident[:, None] & evident, decided)
    above_one, placed = _order(links, scored)
    above, below = _sides(above_one, scored)
    open_low = _bounds(wins, above, scored, n_clusters, (ratings, low), (confidence, scale))
    open_high = -_bounds(wins.T, below, scored, n_clusters, (-ratings, -high), (confidence, scale))
    unsettled = _unsettled(above_one & ~decided, scored, (open_low, high), (open_high, low))
    n_higher = above_one.sum(axis=0)
    within = np.where(scored, ranks(ratings) - 1, 0)
    free = placed & ~scored
    clearly_above = (above_one & ~unsettled).sum(axis=0)
    clearly_below = (above_one & ~unsettled).sum(axis=1)
    return Places(
        rank=np.where(placed, 1.0 + n_higher + within, np.nan),
        best=np.where(free, 1.0 + clearly_above, np.nan),
        worst=np.where(free, float(placed.sum()) - clearly_below, np.nan),
        low=open_low,
        high=open_high,
        surely_above=np.where(scored, clearly_above, 0),
        maybe_below=np.where(scored, (above_one & unsettled).sum(axis=1), 0),
        n_above=int(above.sum()) if scored.any() else 0,
    )


def _votes_with(wins: Floats, scored: Bools) -> Floats:
    votes: Floats = (wins + wins.T)[:, scored].sum(axis=1)
    return votes


def _order(links: Bools, scored: Bools) -> tuple[Bools, Bools]:
    """(K, K) whether the row is placed above the column, and (K,) who is placed."""
    graph = csr_array(links.astype(np.int64))
    reaches = np.isfinite(shortest_path(graph, unweighted=True))
    higher: Bools = reaches & ~reaches.T
    placed = scored.copy()
    if scored.any():
        one = int(np.argmax(scored))
        placed |= higher[:, one] | higher[one]
    elif links.any():
        group = connected_components(graph, directed=False)[1]
        placed = group == np.bincount(group).argmax()
    return higher & placed[:, None] & placed, placed


def _sides(higher: Bools, scored: Bools) -> tuple[Bools, Bools]:
    """(K,) masks of those placed above and below the scored; nobody if nobody has a score."""
    if not scored.any():
        return np.zeros_like(scored), np.zeros_like(scored)
    one = int(np.argmax(scored))
    return higher[:, one] & ~scored, higher[one] & ~scored


def _bounds(
    wins: Floats,
    above: Bools,
    scored: Bools,
    n_clusters: Ints,
    opponents: tuple[Floats, Floats],
    level: tuple[float, float],
) -> Floats:
    """(K,) the lowest Elo with which each of ``above`` would win all its votes by chance.

    Each cluster counts as one vote, and an opponent is as weak as its interval allows.
    """
    ratings, low = opponents
    confidence, scale = level
    strength = np.where(np.isnan(low), ratings, low)[scored]
    bounds = np.full(len(ratings), np.nan)
    for i in np.flatnonzero(above):
        won = wins[i][scored] * min(1.0, n_clusters[i] / max(wins[i].sum(), 1.0))
        if not won.any():
            continue

        def surplus(elo: float, won: Floats = won) -> float:
            chance = -np.logaddexp(0, (strength - elo) * math.log(10) / scale)
            return float(won @ chance) - math.log(1 - confidence)

        ends = strength.min() - FARTHEST, strength.max() + FARTHEST
        if surplus(ends[0]) < 0 < surplus(ends[1]):
            bounds[i] = brentq(surplus, *ends)
    return bounds


def _unsettled(
    higher: Bools, scored: Bools, above: tuple[Floats, Floats], below: tuple[Floats, Floats]
) -> Bools:
    """(K, K) pairs of a scored and another candidate whose intervals do not settle the order."""
    between = scored[:, None] ^ scored
    clear = (above[0][:, None] > above[1]) | (below[1][:, None] > below[0])
    return higher & between & ~clear


def beats_directly(battles: Battles, candidate: int, confidence: float = 0.95) -> Bools:
    """(K,) who is better than ``candidate`` by the votes between the two alone.

    Significantly so, by a t test over clusters, or without ever losing on as many clusters as a
    `CompleteSeparation` needs.
    """
    is_first, is_second = battles.first == candidate, battles.second == candidate
    rows = np.flatnonzero(is_first | is_second)
    other = np.where(is_first, battles.second, battles.first)[rows]
    lead = np.where(is_first, 0.5 - battles.score, battles.score - 0.5)[rows]
    count = battles.count[rows] * battles.weight[rows]
    better = np.zeros(battles.n_candidates, np.bool_)
    cluster = None if battles.cluster is None else battles.cluster[rows]
    for rival in np.unique(other):
        mine = other == rival
        if cluster is None:
            points = np.repeat(lead[mine], battles.count[rows][mine])
            votes = np.ones(len(points))
        else:
            code = np.unique(cluster[mine], return_inverse=True)[1].reshape(-1)
            points = summed(code, lead[mine] * count[mine], int(code.max()) + 1)
            votes = summed(code, count[mine], int(code.max()) + 1)
        never_lost = not (lead[mine] < 0).any()
        better[rival] = _is_better(points, votes, never_lost, confidence)
    return better


def _is_better(points: Floats, votes: Floats, never_lost: bool, confidence: float) -> bool:
    n_clusters, mean = len(points), points.sum() / votes.sum()
    if mean <= 0:
        return False
    if never_lost and CompleteSeparation(int((points > 0).sum()), confidence).is_decided:
        return True
    if n_clusters < MIN_CLUSTERS or np.ptp(points / votes) == 0:
        return False
    spread = ((points - votes * mean) ** 2).sum() * n_clusters / (n_clusters - 1)
    error = math.sqrt(spread) / votes.sum()
    return bool(mean > t_quantile(confidence, n_clusters) * error)


def clear_number_one(
    places: Places, scored: int | None, battles: Battles, confidence: float = 0.95
) -> int | None:
    """The candidate that is clearly number one among all active candidates, or None.

    ``scored``: the clear number one among those with an interval. It is none if another candidate
    has a higher score, if only of few votes, or has beaten it, whatever the scores say.
    """
    leader = places.leader(scored)
    if leader is None or places.rank[leader] > 1:
        return None
    return None if beats_directly(battles, leader, confidence).any() else leader
