"""Boards of honest raters, who differ in taste and views, with rigged votes among theirs."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.special import expit

from ranking.stats import anomalies

N_CANDIDATES, N_HONEST, EACH = 10, 100, 50
TARGET = N_CANDIDATES - 1


class Attack(Enum):
    """How 1,000 rigged votes come in: raters, votes of each, and whether on all pairs, at once,
    from one network."""

    TARGET_ONLY = (20, 50, False, False, False)
    OMNIPRESENT = (20, 50, True, False, False)
    ONE_NETWORK = (20, 50, True, False, True)
    BURST = (100, 10, True, True, False)
    BURST_ON_TARGET = (100, 10, False, True, False)
    SLOW = (200, 5, True, False, False)
    SLOW_ON_TARGET = (200, 5, False, False, False)
    NONE = (0, 0, True, False, False)

    @property
    def is_concentrated(self) -> bool:
        return 0 < self.value[0] <= 20 or self.value[3]


@dataclass(frozen=True, eq=False)
class Rigged:
    votes: anomalies.Cast
    theta: np.ndarray
    n_honest: int


def cast_board(attack: Attack, seed: int, n_honest: int = N_HONEST, each: int = EACH) -> Rigged:
    """A board whose last candidate is the target; honest raters are the first `n_honest`."""
    rng = np.random.default_rng(seed)
    n_rigged, n_votes, everywhere, at_once, one_network = attack.value
    theta = np.sort(rng.normal(0, 0.8, N_CANDIDATES))[::-1]
    began = rng.uniform(0.1, 0.9)
    rows = []
    for rater in range(n_honest + n_rigged):
        is_rigged = rater >= n_honest
        n = n_votes if is_rigged else each
        pairs = np.array([rng.choice(N_CANDIDATES, 2, replace=False) for _ in range(n)])
        own = theta
        if not is_rigged:  # every tenth has a view that has nothing to do with the others'
            own = theta if rng.random() > 0.1 else rng.permutation(theta)
            own = own + rng.normal(0, 0.7, N_CANDIDATES)
        elif not everywhere:
            pairs = np.column_stack([np.full(n, TARGET), rng.integers(0, TARGET, n)])
            pairs = rng.permuted(pairs, axis=1)
        left, right = pairs.T
        score = (rng.random(n) < expit(own[left] - own[right])).astype(float)
        if is_rigged:
            score = np.where(left == TARGET, 1.0, np.where(right == TARGET, 0.0, score))
        else:
            score[rng.random(n) < 0.15] = 0.5
        start = began + rng.uniform(0, 0.02) if is_rigged and at_once else rng.random()
        time = start + np.sort(rng.random(n)) * 0.02
        network = n_honest if is_rigged and one_network else rater
        rows.append((np.full(n, rater), np.full(n, network), left, right, score, time))
    rater, network, left, right, score, time = (
        np.concatenate(column) for column in zip(*rows, strict=True)
    )
    order = np.argsort(time, kind="stable")
    votes = anomalies.Cast(
        rater[order], network[order], left[order], right[order], score[order], time[order] < 0
    )
    return Rigged(votes, theta, n_honest)


def found_in(board: Rigged) -> tuple[float, float]:
    """The share of rigged votes and of honest raters that the tests find."""
    held = anomalies.held_raters(anomalies.find(board.votes, N_CANDIDATES))
    rigged = board.votes.rater[board.votes.rater >= board.n_honest]
    share = float(np.isin(rigged, list(held)).mean()) if len(rigged) else 0.0
    return share, sum(rater < board.n_honest for rater in held) / board.n_honest
