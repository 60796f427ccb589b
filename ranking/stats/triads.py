"""Whether the majorities of the votes contradict one another: A beats B beats C beats A."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.columns import Bools, Floats

ROUNDING = 1e-9  # of a pair's total: a smaller lead comes from adding up fractions


@dataclass(frozen=True)
class Transitivity:
    """``triads``: how many sets of three candidates have a majority in each of their three pairs;
    ``transitive``: how many of these are not cyclic."""

    triads: int
    transitive: int

    @property
    def share(self) -> float:
        """Transitive triads per triad: 0.75 by coin tosses, 1 by one order; NaN without triads."""
        return self.transitive / self.triads if self.triads else math.nan


def transitivity(wins: ArrayLike) -> Transitivity:
    """Count the triads of a (K, K) matrix of what the row scored against the column.

    A pair that is even, or that never met, has no majority. Every triad is one triangle of the
    pairs with a majority, met 6 times in the trace of the cube of their matrix, and a cyclic one
    3 times in the trace of the cube of the majorities (Kendall and Babington Smith 1940).

    Raises ValueError where ``wins`` is not square, not finite or negative.
    """
    matrix = _checked(wins)
    ahead: Bools = matrix - matrix.T > ROUNDING * (matrix + matrix.T)
    triads = _closed_walks(ahead | ahead.T) // 6
    return Transitivity(triads, triads - _closed_walks(ahead) // 3)


def _closed_walks(arrows: Bools) -> int:
    """Walks of three arrows that return: the trace of the cube, exact in float64."""
    steps = arrows.astype(np.float64)
    return int(((steps @ steps) * steps.T).sum())


def _checked(wins: ArrayLike) -> Floats:
    matrix = np.asarray(wins, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"wins must be of shape (K, K), not {matrix.shape}")
    if not (np.isfinite(matrix) & (matrix >= 0)).all():
        raise ValueError("wins must be finite and not negative")
    return matrix
