"""Totals per pair of candidates, and the Bradley-Terry likelihood that stands on them.

With theta the strengths on the natural scale, p = 1 / (1 + exp(theta_b - theta_a)) is the
probability that ``first`` is preferred (Bradley and Terry 1952). A tie is half a win each way.
"""

from dataclasses import dataclass

import numpy as np

from ranking.stats.columns import Floats, Ints, summed


@dataclass(frozen=True, eq=False)
class Pairs:
    """P pairs that have met, sorted: ``weight`` of votes, of which ``score`` went to ``first``."""

    n_candidates: int
    first: Ints
    second: Ints
    weight: Floats
    score: Floats

    @classmethod
    def total(
        cls, n_candidates: int, first: Ints, second: Ints, score: Floats, weight: Floats
    ) -> "Pairs":
        """Sum rows of (first, second, score, weight) per pair."""
        code = first * n_candidates + second
        cells = n_candidates**2
        met: Ints = np.arange(cells)
        if cells > 16 * len(code):  # few rows: what they say alone, not all cells, is looked at
            met, code = np.unique(code, return_inverse=True)
        totals = summed(code, weight, len(met))
        scored = summed(code, weight * score, len(met))
        held = np.flatnonzero(totals)
        first, second = np.divmod(met[held], max(n_candidates, 1))
        return cls(n_candidates, first, second, totals[held], scored[held])

    def plus(self, more: "Pairs") -> "Pairs":
        """The totals of both, which are about the same candidates."""
        places = self.locate(more.first, more.second)
        known = places < len(self.first)
        known[known] = (self.first[places[known]] == more.first[known]) & (
            self.second[places[known]] == more.second[known]
        )
        if known.all():
            weight, score = self.weight.copy(), self.score.copy()
            weight[places] += more.weight
            score[places] += more.score
            return Pairs(self.n_candidates, self.first, self.second, weight, score)
        first = np.concatenate([self.first, more.first])
        second = np.concatenate([self.second, more.second])
        weight = np.concatenate([self.weight, more.weight])
        share = np.concatenate([self.score / self.weight, more.score / more.weight])
        return Pairs.total(self.n_candidates, first, second, share, weight)

    def locate(self, first: Ints, second: Ints) -> Ints:
        """The place in these pairs of each (first, second)."""
        own = self.first * self.n_candidates + self.second
        return np.searchsorted(own, first * self.n_candidates + second).astype(np.int64)

    def wins(self) -> Floats:
        """(K, K): what the row's candidate scored against the column's."""
        size = self.n_candidates
        matrix = np.zeros(size * size)
        matrix[self.first * size + self.second] = self.score
        matrix[self.second * size + self.first] = self.weight - self.score
        return matrix.reshape(size, size)

    def win_probability(self, theta: Floats) -> Floats:
        """(P,) or, for theta of shape (K, B), (P, B): that ``first`` is preferred."""
        return expected_score(theta[self.first] - theta[self.second])

    def log_likelihood(self, theta: Floats) -> float:
        """Sum of score * log p + (weight - score) * log(1 - p), in nats."""
        gap = theta[self.first] - theta[self.second]
        return float(self.score @ gap - self.weight @ np.logaddexp(0.0, gap))

    def gradient(self, theta: Floats) -> Floats:
        """(K,): the derivative of the log-likelihood, scores seen minus scores expected."""
        return self.gradient_where(self.win_probability(theta))

    def gradient_where(self, probability: Floats) -> Floats:
        """`gradient` where ``first`` is preferred with these probabilities, (P,)."""
        residual = self.weight * probability
        np.subtract(self.score, residual, out=residual)
        return self._per_first(residual) - summed(self.second, residual, self.n_candidates)

    def _per_first(self, values: Floats) -> Floats:
        """(K,): the sum over the pairs of each ``first``, which stand together: they are sorted."""
        starts = np.searchsorted(self.first, np.arange(self.n_candidates + 1))
        some = starts[:-1] < starts[1:]
        total = np.zeros(self.n_candidates)
        if some.any():
            total[some] = np.add.reduceat(values, starts[:-1][some])
        return total

    def information(self, theta: Floats) -> Floats:
        """(K, K): minus the second derivative, a Laplacian with weights n p (1 - p)."""
        return self.information_where(self.win_probability(theta))

    def information_where(self, probability: Floats) -> Floats:
        """`information` where ``first`` is preferred with these probabilities, (P,)."""
        curvature = 1 - probability
        curvature *= probability
        curvature *= self.weight
        return self.laplacian(curvature)

    def laplacian(self, weight: Floats) -> Floats:
        """(K, K): the sum over pairs of weight * (e_first - e_second)(e_first - e_second)'."""
        size = self.n_candidates
        matrix = np.zeros(size * size)
        matrix[self.first * size + self.second] = -weight
        matrix[self.second * size + self.first] = -weight
        matrix[:: size + 1] = -matrix.reshape(size, size).sum(axis=1)
        return matrix.reshape(size, size)


def expected_score(gap: Floats) -> Floats:
    """1 / (1 + exp(-gap)), written so that no gap overflows."""
    score: Floats = np.tanh(0.5 * gap)
    score *= 0.5
    score += 0.5
    return score
