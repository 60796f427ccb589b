"""How few votes decide who is first: as many as would change it if they were taken away.

Found by influence functions (Broderick, Giordano and Meager 2020), confirmed by refitting without
exactly these votes.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

import numpy as np

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.columns import Floats, Ints
from ranking.stats.removal import Influence, Kinds, Order, least, refit

LEVEL = 1e-9  # of theta; a lead below it is rounding
MOST_RIVALS = 20  # those nearest by influence are refitted
SLACK = 1.5  # a rival is tried up to this factor and MARGIN votes above the least foretold
MARGIN = 3


class Stability(StrEnum):
    """What was found about the first place."""

    CHANGES = "changes"
    LEVEL = "level"
    HOLDS = "holds"
    NOTHING_RANKED = "nothing_ranked"

    @property
    def reason(self) -> str:
        """One sentence for a page; empty where there is a number."""
        return _REASONS[self]


_REASONS = {
    Stability.CHANGES: "",
    Stability.LEVEL: "Two candidates share the first place.",
    Stability.HOLDS: "No set of votes within the bound was found that would change number one.",
    Stability.NOTHING_RANKED: "No two candidates are comparable yet.",
}


@dataclass(frozen=True, eq=False)
class Fragility:
    """``votes`` ``of`` so many would change number one.

    Attributes
    ----------
    stability : `Stability`, with a ``reason``
    of : votes between ranked candidates
    votes : the number found, an upper bound on the least possible; 0 where two are level, None
        where none was found
    top, rival : candidates, who is first, and who would be; None where there is none
    foretold : what the first-order effects alone say, before any refit; None without a number
    confirmed : whether a refit without these votes puts ``rival`` first
    rows, counts : (m,) rows of the battles, and how many votes of each were dropped
    """

    stability: Stability
    of: int
    votes: int | None = None
    top: int | None = None
    rival: int | None = None
    foretold: int | None = None
    confirmed: bool = False
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    counts: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def words(self) -> str:
        """ "13 of 8,931 votes would change number one", or why there is no number."""
        if self.stability is not Stability.CHANGES:
            return self.stability.reason
        return f"{self.votes:,} of {self.of:,} votes would change number one"


def measure_fragility(
    battles: Battles, model: BradleyTerry | None = None, most: int | None = None
) -> Fragility:
    """How few votes, if they were dropped, would put another candidate first.

    For each rival the votes are ordered by what they add to the lead over it, H^-1 g, greatest
    first; the least number in that order whose removal changes number one is sought by refits,
    and the least over the rivals counts. Votes without which the candidates would fall apart are
    never dropped: an unranked number one is no other number one. Votes are dropped one by one,
    whatever their clusters.

    Parameters
    ----------
    model : the `BradleyTerry` already fitted to these battles; None fits one
    most : the bound, at most so many votes; None for half of them

    Raises ValueError where ``model`` or ``most`` make no sense, and as `BradleyTerry.fit` does.
    """
    fit = BradleyTerry().fit(battles) if model is None else model
    if len(fit.theta_) != battles.n_candidates:
        raise ValueError("model must be fitted to these battles")
    inside = battles.among(fit.ranked_)
    most = inside.n_votes // 2 if most is None else most
    if most < 0:
        raise ValueError(f"most must be 0 or more, not {most}")
    if not fit.ranked_.any():
        return Fragility(Stability.NOTHING_RANKED, of=0)
    found = _Removals(inside, fit.theta_[fit.ranked_], most).least()
    return _report(found, battles, fit)


@dataclass(frozen=True, eq=False)
class _Found:
    kinds: Kinds
    top: int
    rival: int | None = None
    foretold: int | None = None
    dropped: Ints | None = None  # per kind


def _report(found: _Found, battles: Battles, fit: BradleyTerry) -> Fragility:
    """The result in the caller's candidates and rows."""
    own = np.flatnonzero(fit.ranked_)
    top, of = int(own[found.top]), int(found.kinds.count.sum())
    if found.rival is None or found.dropped is None:
        return Fragility(Stability.HOLDS, of, top=top)
    rival, votes = int(own[found.rival]), int(found.dropped.sum())
    if not votes:
        return Fragility(Stability.LEVEL, of, 0, top, rival, 0, confirmed=True)
    inside = np.flatnonzero(fit.ranked_[battles.first] & fit.ranked_[battles.second])
    counts = _spread(found.dropped, found.kinds.kind_of_row, battles.count[inside])
    rows = inside[counts > 0]
    foretold = found.foretold
    return Fragility(
        Stability.CHANGES, of, votes, top, rival, foretold, True, rows, counts[counts > 0]
    )


def _spread(dropped: Ints, kind: Ints, count: Ints) -> Ints:
    """Per row, how many of its votes are dropped: a kind's rows are used up in their order."""
    order = np.argsort(kind, kind="stable")
    total = np.cumsum(count[order])
    start = np.searchsorted(kind[order], np.arange(len(dropped)))
    before = total - count[order] - (total - count[order])[start][kind[order]]
    taken = np.empty(len(kind), np.int64)
    taken[order] = (dropped[kind[order]] - before).clip(0, count[order])
    return taken


class _Removals:
    """The search among battles whose candidates are all ranked."""

    def __init__(self, battles: Battles, theta: Floats, most: int) -> None:
        self.kinds = Kinds.of(battles)
        self.theta, self.most = theta, most
        self.top = int(np.argmax(theta))
        self.influence = Influence(self.kinds, battles.pairs, theta)

    def least(self) -> _Found:
        """The fewest votes over the rivals that are near by influence."""
        runner_up = int(np.argsort(-self.theta, kind="stable")[1])
        if self.theta[self.top] - self.theta[runner_up] < LEVEL:
            nothing = np.zeros(len(self.kinds.count), np.int64)
            return _Found(self.kinds, self.top, runner_up, 0, nothing)
        best, limit = _Found(self.kinds, self.top), self.most
        for foretold, rival in self._rivals():
            order = self._order(rival)
            guess = foretold if best.dropped is None else limit  # one refit sees a rival off
            votes = least(partial(self._unseats, order), min(guess, limit), limit)
            if votes is not None:
                dropped, limit = order.first(votes), votes - 1
                best = _Found(self.kinds, self.top, self._winner(dropped), foretold, dropped)
        return best

    def _rivals(self) -> list[tuple[int, int]]:
        """(votes foretold, rival) for those that are not far by influence, the nearest first."""
        lead = self.theta[self.top] - self.theta
        # As if every vote had the effect of the greatest: no rival is nearer than that.
        greatest = self.influence.greatest_on_lead(self.top)
        at_least = np.divide(lead, greatest, out=np.full(len(lead), np.inf), where=greatest > 0)
        at_least[self.top] = np.inf
        told: list[tuple[int, int]] = []
        for rival in np.argsort(at_least, kind="stable")[:MOST_RIVALS].tolist():
            if told and at_least[rival] > SLACK * min(told)[0] + MARGIN:
                break
            if rival != self.top:
                told.append((self._order(rival).foretold(lead[rival]), rival))
        return sorted(pair for pair in told if pair[0] <= SLACK * min(told)[0] + MARGIN)

    def _order(self, rival: int) -> Order:
        return Order(self.kinds, self.influence.on_lead(self.top, rival))

    def _unseats(self, order: Order, votes: int) -> bool:
        """Whether number one changes without the first so many votes of an order."""
        order.hold_together(votes)
        return self._winner(order.first(votes)) is not None

    def _winner(self, dropped: Ints) -> int | None:
        """Who is first without these votes; None where that is the same, or nobody can say."""
        theta = refit(self.kinds.left(dropped), self.theta)
        if theta is None or theta.max() - theta[self.top] < LEVEL:
            return None
        return int(np.argmax(theta))
