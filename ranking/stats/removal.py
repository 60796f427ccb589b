"""What a fit becomes when votes are taken away: foretold by influence, told by a refit."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ranking.stats.battles import Battles
from ranking.stats.columns import Floats, Ints, codes, summed
from ranking.stats.newton import NotConverged, maximise, pseudo_inverse
from ranking.stats.pairs import Pairs

BRIDGE = 1e-6  # a vote whose leverage is 1 but for this holds two parts together


@dataclass(frozen=True, eq=False)
class Kinds:
    """Votes told apart by what they do to a fit, not by their cluster: ``count`` of each kind.

    ``kind_of_row``: (R,) the kind of each row of the battles; ``place``: its pair in ``pairs``.
    """

    pairs: Pairs
    place: Ints
    score: Floats
    weight: Floats
    count: Ints
    kind_of_row: Ints

    @classmethod
    def of(cls, battles: Battles) -> "Kinds":
        """Fold the rows of battles over their clusters."""
        (score, n_scores), (weight, n_weights) = _coded(battles.score), _coded(battles.weight)
        pair = battles.first * battles.n_candidates + battles.second
        kind, size = codes((pair * n_scores + score) * n_weights + weight)
        row = np.empty(size, np.int64)
        row[kind] = np.arange(len(kind))  # any row of the kind stands for it
        return cls(
            pairs=battles.pairs,
            place=battles.pairs.locate(battles.first[row], battles.second[row]),
            score=battles.score[row],
            weight=battles.weight[row],
            count=summed(kind, battles.count, size).astype(np.int64),
            kind_of_row=kind,
        )

    def left(self, dropped: Ints) -> Pairs:
        """The pairs without so many votes of each kind; summed anew: what is gone is exactly 0."""
        weight = (self.count - dropped) * self.weight
        size = len(self.pairs.first)
        return Pairs(
            self.pairs.n_candidates,
            self.pairs.first,
            self.pairs.second,
            summed(self.place, weight, size),
            summed(self.place, weight * self.score, size),
        )


@dataclass(frozen=True, eq=False)
class Influence:
    """First-order effects of single votes on a fit ``theta`` of ``pairs``."""

    kinds: Kinds
    pairs: Pairs
    theta: Floats

    @cached_property
    def _inverse(self) -> Floats:
        return pseudo_inverse(self.pairs.information(self.theta))

    @cached_property
    def _push(self) -> Floats:
        """Per kind: weight * (score - p) / (1 - h), the residual of a fit without that vote.

        h is the vote's leverage (Pregibon 1981); 0 where the vote cannot be spared.
        """
        p = self.pairs.win_probability(self.theta)
        inverse, first, second = self._inverse, self.pairs.first, self.pairs.second
        own = inverse[first, first] + inverse[second, second] - 2 * inverse[first, second]
        spare = 1 - self.kinds.weight * (p * (1 - p) * own)[self.kinds.place]
        residual = self.kinds.weight * (self.kinds.score - p[self.kinds.place])
        return np.divide(residual, spare, out=np.zeros(len(spare)), where=spare > BRIDGE)

    def greatest_on_lead(self, top: int) -> Floats:
        """(K,) the most that any one vote adds to theta_top - theta_rival, per rival."""
        # The kinds are in the order of their pairs; of a pair, the extremes will do.
        starts = np.searchsorted(self.kinds.place, np.arange(len(self.pairs.first)))
        most = np.maximum.reduceat(self._push, starts)
        least = np.minimum.reduceat(self._push, starts)
        lead = self._inverse[top][:, None] - self._inverse  # of the candidate in the row, by rival
        greatest = np.empty(len(lead))
        for rival, column in enumerate(lead.T):
            lever = column[self.pairs.first] - column[self.pairs.second]
            greatest[rival] = np.maximum(lever * most, lever * least).max()
        return greatest

    def on_lead(self, top: int, rival: int) -> Floats:
        """Per kind, what one vote adds to theta_top - theta_rival: H^-1 g, and what it takes off
        when it is dropped."""
        lead = self._inverse[top] - self._inverse[rival]
        lever = lead[self.pairs.first] - lead[self.pairs.second]
        effect: Floats = self._push * lever[self.kinds.place]
        return effect


class Order:
    """Votes in the order in which they are dropped, by their effects per kind."""

    def __init__(self, kinds: Kinds, effect: Floats) -> None:
        self.kinds = kinds
        helpful = np.flatnonzero(effect > 0)
        self.kind = helpful[np.argsort(-effect[helpful], kind="stable")]
        self.effect = effect[self.kind]
        self.spare = kinds.count[self.kind]  # votes of each kind that may be dropped
        self.safe = 0  # so many are known to leave the candidates connected

    def foretold(self, gap: float) -> int:
        """How many votes have effects that add up to the gap; more than there are, if none do."""
        total = np.cumsum(self.effect * self.spare)
        step = int(np.searchsorted(total, gap))
        if step == len(total):
            return int(self.spare.sum()) + 1
        missing = gap - (total[step] - self.effect[step] * self.spare[step])
        return int(self.spare[:step].sum()) + math.ceil(float(missing / self.effect[step]))

    def first(self, votes: int) -> Ints:
        """Per kind, how many of the first so many votes are of it."""
        dropped = np.zeros(len(self.kinds.count), np.int64)
        before = np.cumsum(self.spare) - self.spare
        dropped[self.kind] = (votes - before).clip(0, self.spare)
        return dropped

    def hold_together(self, votes: int) -> None:
        """Leave those of the first so many votes out of the order that tear the rest apart."""
        while not self._connected(votes):
            tearing = least(lambda n: not self._connected(n), votes, votes)
            assert tearing is not None
            self.safe = tearing - 1
            step = int(np.searchsorted(np.cumsum(self.spare), tearing))
            self.spare[step] = tearing - 1 - int(self.spare[:step].sum())

    def _connected(self, votes: int) -> bool:
        if votes <= self.safe:
            return True
        found = connected(self.kinds.left(self.first(votes)))
        self.safe = votes if found else self.safe
        return found


def refit(pairs: Pairs, start: Floats) -> Floats | None:
    """(K,) strengths, or None where the candidates no longer hang together."""
    if not connected(pairs):
        return None
    try:
        return maximise(pairs, start=start)[0]
    except NotConverged:
        return None


def connected(pairs: Pairs) -> bool:
    """Whether chains of wins lead from every candidate to every other."""
    wins: csr_array = csr_array(pairs.wins() > 0)
    parts, _ = connected_components(wins, connection="strong")
    return bool(parts == 1)


def _coded(values: Floats) -> tuple[Ints, int]:
    """Codes of values that mostly are few: those of the first ones are looked up, not sorted."""
    table = np.unique(values[:4096])
    code = np.searchsorted(table, values).clip(max=len(table) - 1)
    if not np.array_equal(table[code], values):
        table, code = np.unique(values, return_inverse=True)
    return code.astype(np.int64), len(table)


def least(changes: Callable[[int], bool], guess: int, limit: int) -> int | None:
    """The least n in 1..limit for which ``changes(n)``, sought near a guess.

    Between two neighbouring answers that differ, that is: ``changes`` should stay true once it is.
    """
    low, high, step = 0, max(guess, 1), 1
    while high > limit or not changes(high):
        if high >= limit:
            return None
        low, high, step = high, min(high + step, limit), 2 * step
    step = 1
    while high - low > 1:
        middle = max(high - step, (low + high) // 2)
        if changes(middle):
            high, step = middle, 2 * step
        else:
            low = middle
    return high
