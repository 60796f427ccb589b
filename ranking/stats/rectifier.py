"""The judge's correction of people's votes: the rectifier of prediction-powered inference.

Per pair of candidates, people's votes bring the weight W' (of those that the judge has scored too)
and the judge's own comparisons the weight U; f' and f are the judge's mean scores in the two. What
is added to people's score of the pair, times lambda, is

    W' * kappa * (f - f'),    kappa = U / (U + W')

which is W' times (mean of all the judge said of the pair - mean of what it said where people
voted). Its expectation is 0 whatever the judge is like, and kappa is what the best lambda of
Angelopoulos, Duchi and Zrnic 2023, 1 / (1 + n / N), becomes pair by pair.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ranking.stats import columns
from ranking.stats.columns import Bools, Floats, Ints, summed
from ranking.stats.judged import Labelled, Unlabelled
from ranking.stats.newton import maximise, pseudo_inverse
from ranking.stats.pairs import Pairs

FEWEST = 1.5  # clusters, of which a pair's mean must be made: fewer cannot say how much they vary
ROUNDING = 1e-12  # a score that differs from the mean by less than this does not differ


@dataclass(frozen=True, eq=False)
class Rectifier:
    """R = n + N comparisons, people's first, turned so that ``first < second``.

    Attributes
    ----------
    pairs : people's votes alone; weights are normalised to a mean of 1
    first, second, unit : (R,) candidates, and codes of the cluster
    score, weight : (n,) people's
    correction : (R,) what the row adds to its pair's score, per unit of lambda
    influence : (R,) the same, enlarged because the row is part of its pair's mean: it is by
        these that variances are measured
    shared : whether there is a pair of which both samples know enough to correct it
    """

    pairs: Pairs
    first: Ints
    second: Ints
    unit: Ints
    score: Floats
    weight: Floats
    correction: Floats
    influence: Floats
    shared: bool

    @classmethod
    def of(cls, people: Labelled, judge: Unlabelled, by_side: bool) -> "Rectifier":
        """Compare the two samples pair by pair, or with ``by_side`` per pair and side."""
        n, size = len(people), people.n_candidates
        left, right = _joined(people.left, judge.left), _joined(people.right, judge.right)
        turned = left > right
        first, second = np.where(turned, right, left), np.where(turned, left, right)
        weight = _joined(_normalised(people.weight), _normalised(judge.weight))
        score = np.where(turned[:n], 1 - people.score, people.score)
        said = _joined(people.predicted, judge.predicted)
        said = np.where(turned, 1 - said, said)
        stratum = left * size + right if by_side else first * size + second
        unit = _units(people, judge)
        corrected = _corrections(stratum, unit, weight, said, n)
        pairs = Pairs.total(size, first[:n], second[:n], score, weight[:n])
        return cls(pairs, first, second, unit, score, weight[:n], *corrected)

    def solve(self, start: Floats, weight: float) -> Floats:
        """(K,) where people's gradient plus ``weight`` times the rectifier is 0, by Newton.

        Raises NotConverged where it is 0 nowhere, because a shifted score leaves what is possible.
        """
        live = np.flatnonzero(self.correction)
        place = self.pairs.locate(self.first[live], self.second[live])
        shift = summed(place, self.correction[live], len(self.pairs.first))
        shifted = replace(self.pairs, score=self.pairs.score + weight * shift)
        return maximise(shifted, start=start)[0]

    def tuned(self, theta: Floats) -> float:
        """The lambda in 0..1 of the least trace of the covariance, which is a parabola in it."""
        people, judge = self._people(theta), self._judge
        bread = pseudo_inverse(self.pairs.information(theta))
        square = bread @ bread  # trace(bread M bread) = sum(M * square)
        steep = float(((judge.T @ judge).toarray() * square).sum())
        slope = float(((people.T @ judge).toarray() * square).sum())
        return min(max(-slope / steep, 0.0), 1.0) if steep > 0 else 0.0

    def covariance(self, theta: Floats, weight: float) -> Floats:
        """(K, K): the sandwich, a cluster's share of the gradient being that of both samples."""
        bread = pseudo_inverse(self.pairs.information(theta))
        share = self._people(theta) + weight * self._judge
        covariance: Floats = bread @ (share.T @ share).toarray() @ bread
        return covariance

    def _people(self, theta: Floats) -> csr_array:
        """(G, K): each cluster's share of people's gradient at theta."""
        n = len(self.score)
        place = self.pairs.locate(self.first[:n], self.second[:n])
        return self._summed(self.weight * (self.score - self.pairs.win_probability(theta)[place]))

    @cached_property
    def _judge(self) -> csr_array:
        """(G, K): each cluster's share of the rectifier, which depends on no theta."""
        return self._summed(self.influence)

    def _summed(self, value: Floats) -> csr_array:
        n = len(value)
        row = np.tile(self.unit[:n], 2)
        column = np.concatenate([self.first[:n], self.second[:n]])
        shape = (int(self.unit.max(initial=-1)) + 1, self.pairs.n_candidates)
        return csr_array((np.concatenate([value, -value]), (row, column)), shape=shape)


def _corrections(
    stratum: Ints, unit: Ints, weight: Floats, said: Floats, n: int
) -> tuple[Floats, Floats, bool]:
    """(R,) corrections and influences, 0 where there is no verdict or no mean; if there is any."""
    correction, influence = np.zeros(len(said)), np.zeros(len(said))
    live = np.flatnonzero(~np.isnan(said))
    place, size = columns.codes(stratum[live])
    weight, said = weight[live], said[live]
    own: Bools = live < n
    labelled = summed(place, np.where(own, weight, 0), size)
    total = summed(place, weight, size)
    kappa = 1 - labelled / total
    clusters = _effective(place, unit[live], weight, total)
    usable = (labelled > 0) & (kappa > 0) & (clusters >= FEWEST)
    part = np.where(own, -kappa[place], 1 - kappa[place]) * usable[place]
    deviation = said - (summed(place, weight * said, size) / total)[place]
    deviation[np.abs(deviation) < ROUNDING] = 0
    correction[live] = part * weight * deviation
    # A mean of m clusters is drawn towards each of them: deviations from it are too small.
    enlarged = np.sqrt(clusters / np.where(usable, clusters - 1, clusters))
    influence[live] = correction[live] * enlarged[place]
    return correction, influence, bool(usable.any())


def _effective(place: Ints, unit: Ints, weight: Floats, total: Floats) -> Floats:
    """How many clusters of equal weight would make means as steady (Kish 1965)."""
    cell, n_cells = columns.codes(place * (int(unit.max(initial=0)) + 1) + unit)
    inside = summed(cell, weight, n_cells)
    home = np.zeros(n_cells, np.int64)
    home[cell] = place
    effective: Floats = 1 / summed(home, (inside / total[home]) ** 2, len(total))
    return effective


def _units(people: Labelled, judge: Unlabelled) -> Ints:
    if people.cluster is None or judge.cluster is None:
        return np.arange(len(people) + len(judge))
    return columns.codes(_joined(people.cluster, judge.cluster))[0]


def _normalised(weight: Floats) -> Floats:
    return weight / weight.mean() if len(weight) else weight


def _joined(people: NDArray[Any], judge: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([people, judge])
