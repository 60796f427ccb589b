"""Wins, ties and losses per pair of candidates, and the Rao-Kupper likelihood on them.

With d the gap of two strengths and eta the threshold, 1 / (1 + exp(eta - d)) is the probability
of a win, 1 / (1 + exp(eta + d)) that of a loss, and a tie has (exp(2 eta) - 1) times their product
(Rao and Kupper 1967, with eta for the logarithm of their parameter).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import NegativeCycleError, bellman_ford

from ranking.stats.battles import Battles
from ranking.stats.columns import Floats, Ints, summed
from ranking.stats.pairs import expected_score


@dataclass(frozen=True, eq=False)
class Outcomes:
    """P pairs that have met, with the weight of votes that ``first`` won, tied and lost."""

    n_candidates: int
    first: Ints
    second: Ints
    won: Floats
    tied: Floats
    lost: Floats

    @classmethod
    def count(cls, battles: Battles) -> "Outcomes":
        """Sum the votes of each outcome per pair; scores are 0, a half or 1."""
        pairs = battles.pairs
        cell = pairs.locate(battles.first, battles.second) * 3 + (2 * battles.score).astype(int)
        table = summed(cell, battles.count * battles.weight, 3 * len(pairs.first)).reshape(-1, 3)
        return cls(battles.n_candidates, pairs.first, pairs.second, *table.T[::-1])

    def has_maximum(self) -> bool:
        """Whether the likelihood is greatest at a finite point, with ties, if strongly connected.

        It grows without end along strengths and threshold (1 each step) exactly where strengths
        exist that put every winner at least 1 above its loser and every two that tied at most 1
        apart. Such a system of differences has no solution if and only if its graph has a cycle
        of negative length (Bellman 1958); two that each beat the other are one.
        """
        won, tied, lost = self.won > 0, self.tied > 0, self.lost > 0
        if (won & lost).any():
            return True
        down, up = won | tied, lost | tied  # arrows from first to second, and back
        tails = np.concatenate([self.first[down], self.second[up]])
        heads = np.concatenate([self.second[down], self.first[up]])
        length = np.where(np.concatenate([won[down], lost[up]]), -1.0, 1.0)
        graph = csr_array((length, (tails, heads)), shape=(self.n_candidates,) * 2)
        try:
            bellman_ford(graph, indices=[0])
        except NegativeCycleError:
            return True
        return False

    def typical_eta(self) -> float:
        """The threshold at which equals tie as often as all votes do: never far off."""
        ties = float(self.tied.sum())
        return 2 * math.atanh(ties / (ties + float(self.won.sum() + self.lost.sum())))

    def log_likelihood(self, x: Floats) -> float:
        """In nats; x is (K + 1,), the strengths and then eta, which is above 0."""
        gap, eta = x[self.first] - x[self.second], float(x[-1])
        decided = -(self.won + self.tied) @ np.logaddexp(0.0, eta - gap)
        decided -= (self.lost + self.tied) @ np.logaddexp(0.0, eta + gap)
        zone = 2 * eta + math.log(-math.expm1(-2 * eta))
        return float(decided + self.tied.sum() * zone)

    def derivatives(self, x: Floats) -> tuple[Floats, Floats]:
        """(K + 1,) and (K + 1, K + 1): the gradient, and minus the second derivative."""
        gap, eta, size = x[self.first] - x[self.second], float(x[-1]), self.n_candidates
        win, loss = expected_score(gap - eta), expected_score(-gap - eta)
        above, below = self.won + self.tied, self.lost + self.tied
        pull, push = above * (1 - win), below * (1 - loss)
        ties = float(self.tied.sum())
        slope = -float(pull.sum() + push.sum()) - 2 * ties / math.expm1(-2 * eta)
        gradient = np.append(self._contrast(pull - push), slope)
        a, b = pull * win, push * loss
        information = np.zeros((size + 1, size + 1))
        information[self.first, self.second] = -(a + b)
        information += information.T
        information[range(size), range(size)] = -information.sum(axis=1)[:size]
        information[:size, size] = information[size, :size] = self._contrast(b - a)
        information[size, size] = float((a + b).sum()) + ties / math.sinh(eta) ** 2
        return gradient, information

    def _contrast(self, values: Floats) -> Floats:
        """(K,): the sum of what each pair gives to its first and takes from its second."""
        size = self.n_candidates
        return summed(self.first, values, size) - summed(self.second, values, size)
