"""Totals per pair of candidates, and the Bradley-Terry likelihood that stands on them.

With theta the strengths on the natural scale, p = 1 / (1 + exp(theta_b - theta_a)) is the
probability that ``first`` is preferred (Bradley and Terry 1952). A tie is half a win each way.
"""

from dataclasses import dataclass

import numpy as np

from ranking.stats.columns import Floats, Ints, summed


@dataclass(frozen=True, eq=False)
class Pairs:
    """P pairs that have met: ``weight`` of votes, of which ``score`` went to ``first``."""

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
        totals = summed(code, weight, cells)
        met = np.flatnonzero(totals)
        scored = summed(code, weight * score, cells)[met]
        first, second = np.divmod(met, max(n_candidates, 1))
        return cls(n_candidates, first, second, totals[met], scored)

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
        matrix = np.zeros((self.n_candidates, self.n_candidates))
        matrix[self.first, self.second] = self.score
        matrix[self.second, self.first] = self.weight - self.score
        return matrix

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
        residual = self.score - self.weight * probability
        size = self.n_candidates
        return summed(self.first, residual, size) - summed(self.second, residual, size)

    def information(self, theta: Floats) -> Floats:
        """(K, K): minus the second derivative, a Laplacian with weights n p (1 - p)."""
        return self.information_where(self.win_probability(theta))

    def information_where(self, probability: Floats) -> Floats:
        """`information` where ``first`` is preferred with these probabilities, (P,)."""
        return self.laplacian(self.weight * probability * (1 - probability))

    def laplacian(self, weight: Floats) -> Floats:
        """(K, K): the sum over pairs of weight * (e_first - e_second)(e_first - e_second)'."""
        matrix = np.zeros((self.n_candidates, self.n_candidates))
        matrix[self.first, self.second] = -weight
        matrix += matrix.T
        np.fill_diagonal(matrix, -matrix.sum(axis=1))
        return matrix


def expected_score(gap: Floats) -> Floats:
    """1 / (1 + exp(-gap)), written so that no gap overflows."""
    return 0.5 + 0.5 * np.tanh(0.5 * gap)
