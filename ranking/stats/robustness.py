"""Robustness of the first place: what would have to be left out for another candidate to be first.

Effects of single votes, raters and prompts are those of first order (Broderick, Giordano and Meager
2020); a refit without them confirms the result.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ranking.stats.arrays import Floats, Ints
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError
from ranking.stats.intervals import movements, residuals

LEVEL = 1e-9  # of theta; a smaller lead is rounding
MOST_RIVALS = 20  # the nearest by score
BRIDGE = 1e-6  # a vote with a leverage closer to 1 holds two parts of the graph together
MORE = 1.1  # times the predicted number: the most that is tried


class Stability(StrEnum):
    """What was found."""

    CHANGES = "changes"
    LEVEL = "level"
    HOLDS = "holds"
    NOTHING_RANKED = "nothing_ranked"
    NO_SCORE = "no_score"

    @property
    def reason(self) -> str:
        """One sentence for a page; empty if there is a number."""
        return _REASONS[self]


_REASONS = {
    Stability.CHANGES: "",
    Stability.LEVEL: "The first place is shared.",
    Stability.HOLDS: "No set of votes within the bound changes number one.",
    Stability.NOTHING_RANKED: "No two candidates are comparable yet.",
    Stability.NO_SCORE: "Number one has no finite score, because it has never lost.",
}


@dataclass(frozen=True)
class Robustness:
    """How many votes would change number one if dropped.

    Attributes
    ----------
    stability : `Stability`, with a ``reason``
    of : the number of votes between ranked candidates
    votes : the number found, an upper bound on the smallest possible; 0 if two are level, None if
        none was found
    top, rival : the candidate that is first, and the one that would be; None if there is none
    confirmed : whether a refit without these votes puts ``rival`` first
    """

    stability: Stability
    of: int
    votes: int | None = None
    top: int | None = None
    rival: int | None = None
    confirmed: bool = False

    @property
    def words(self) -> str:
        """ "13 of 8,931 votes would change number one", or why there is no number."""
        if self.stability is not Stability.CHANGES:
            return self.stability.reason
        return f"{self.votes:,} of {self.of:,} votes would change number one"


def measure_robustness(battles: Battles, model: BradleyTerry | None = None) -> Robustness:
    """Find how few votes, if dropped, would put another candidate first; at most half of them.

    For each rival, votes are sorted by what they add to the lead over it, H^-1 u / (1 - h), with h
    the vote's leverage (Pregibon 1981). The rival for which the fewest add up to the lead is
    confirmed by refits without them, which also find whether fewer are enough. Votes are dropped
    one by one, whatever their clusters.

    Parameters
    ----------
    model : the `BradleyTerry` already fitted to these battles; None fits one

    Raises as `BradleyTerry.fit` does.
    """
    fit = BradleyTerry().fit(battles) if model is None else model
    if not fit.ranked_.any():
        return Robustness(Stability.NOTHING_RANKED, of=0)
    ids, inside = np.flatnonzero(fit.ranked_), battles.among(fit.ranked_)
    theta, of = fit.theta_[fit.ranked_], inside.n_votes
    first, *rivals = np.argsort(-theta, kind="stable")[: MOST_RIVALS + 1].tolist()
    top = int(ids[first])
    if theta[first] - theta[rivals[0]] < LEVEL:
        return Robustness(Stability.LEVEL, of, 0, top, int(ids[rivals[0]]), confirmed=True)
    inverse = fit.covariance_[np.ix_(ids, ids)]
    foretold = []
    for rival in rivals:
        effect = _effects(inside, theta, inverse, first, rival)
        order = np.argsort(-effect, kind="stable")
        order = order[effect[order] > 0]
        total = np.cumsum((effect * inside.count)[order])
        step = int(np.searchsorted(total, theta[first] - theta[rival]))
        if step < len(order):
            before = total[step] - effect[order[step]] * inside.count[order[step]]
            missing = (theta[first] - theta[rival] - before) / effect[order[step]]
            votes = int(inside.count[order[:step]].sum()) + int(np.ceil(missing))
            foretold.append((votes, rival, order))
    if not foretold:
        return Robustness(Stability.HOLDS, of, top=top)
    votes, _, order = min(foretold, key=lambda found: found[0])
    low, high, winner = 0, math.ceil(MORE * votes), None
    # First-order effects add up to less than what a refit finds, so fewer votes are tried too.
    while low < high and high <= of // 2:
        middle = (low + high) // 2 if winner is not None else high
        found = _first_of(_without(inside, order, middle), first)
        if found is not None and found != first:
            high, winner = middle, found
        elif winner is None:
            break
        else:
            low = middle + 1
    if winner is None:
        return Robustness(Stability.HOLDS, of, top=top)
    return Robustness(Stability.CHANGES, of, high, top, int(ids[winner]), True)


def _effects(inside: Battles, theta: Floats, inverse: Floats, top: int, rival: int) -> Floats:
    """(R,): what one vote of each row adds to theta_top - theta_rival; 0 for a bridge."""
    pairs, place = inside.pairs, inside.pair_of_row
    p = pairs.win_probability(theta)
    first, second = pairs.first, pairs.second
    variance = inverse[first, first] + inverse[second, second] - 2 * inverse[first, second]
    remainder = 1 - inside.weight * (p * (1 - p) * variance)[place]
    push = residuals(inside, theta)
    push = np.divide(push, remainder, out=np.zeros(len(push)), where=remainder > BRIDGE)
    lead = inverse[top] - inverse[rival]
    effect: Floats = push * (lead[first] - lead[second])[place]
    return effect


def _without(inside: Battles, order: Ints, dropped: int) -> Battles:
    """The battles without so many votes of the rows in this order."""
    count = inside.count.copy()
    taken = np.cumsum(count[order]) - count[order]
    count[order] -= (dropped - taken).clip(0, count[order])
    kept = count > 0
    return Battles.from_arrays(
        inside.first[kept],
        inside.second[kept],
        inside.score[kept],
        inside.weight[kept],
        n_candidates=inside.n_candidates,
        count=count[kept],
    )


def _first_of(battles: Battles, top: int) -> int | None:
    """Who is first; ``top`` unless another is above it; None if not all are ranked."""
    try:
        fit = BradleyTerry().fit(battles)
    except NotConvergedError:
        return None
    if not fit.ranked_.all():
        return None
    return int(np.argmax(fit.theta_)) if fit.theta_.max() - fit.theta_[top] > LEVEL else top


@dataclass(frozen=True)
class LeftOut:
    """Who is first if one group of votes, a rater or a prompt, is left out.

    Attributes
    ----------
    groups : how many there are
    changes : how many of them, each left out alone, change number one, to first order
    rival : who is first without the most influential one; None if that changes nothing
    """

    groups: int
    changes: int
    rival: int | None


def leave_one_out(battles: Battles, model: BradleyTerry) -> LeftOut | None:
    """Leave each cluster of the battles out; a refit without the most influential one confirms.

    None if there are fewer than two clusters, or no two ranked candidates.
    """
    ids, inside = np.flatnonzero(model.ranked_), battles.among(model.ranked_)
    if inside.cluster is None or inside.n_clusters < 2 or len(ids) < 2:
        return None
    theta = model.theta_[model.ranked_]
    top = int(np.argmax(theta))
    bread = model.covariance_[np.ix_(ids, ids)]
    others = np.arange(len(theta)) != top
    leads = np.concatenate(
        [
            (theta[top] - moved[:, top] - (theta - moved)[:, others].max(axis=1))
            for moved in movements(inside, theta, bread)
        ]
    )
    changes = int((leads < 0).sum())
    winner = None
    if changes:
        group = np.flatnonzero(inside.cluster == int(np.argmin(leads)))
        winner = _first_of(_without(inside, group, int(inside.count[group].sum())), top)
    rival = None if winner is None or winner == top else int(ids[winner])
    return LeftOut(inside.n_clusters, changes, rival)
