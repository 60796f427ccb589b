"""Intervals of figures that are made of sums: shares, kappas, correlations.

A figure is a smooth function of sums over rows (labels, items). Rows of one cluster, that is of
one prompt, are not independent: each replicate of the bootstrap gives every cluster an exponential
weight (Rubin 1981), and the figure is made again from the weighted sums. Deviations from the figure
are widened for few clusters as the boards' are (`intervals.widening`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ranking.stats import columns
from ranking.stats.columns import Floats, Ints, summed
from ranking.stats.intervals import (
    MIN_CLUSTERS,
    NoInterval,
    check_confidence,
    check_resamples,
    widening,
)

CELLS = 250_000  # weights drawn at once, which stay in the processor's cache; part of a seed
VANISHING = 1e-12  # a spread below it is rounding, not precision
NOTHING = "There is nothing to count yet."
Statistic = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval; what is not known is None, and ``reason`` says why.

    ``value``, ``low``, ``high``: in the unit of the figure
    ``n``: what was counted (labels, pairs of labels, items), ``n_clusters``: in how many clusters
    ``reason``: one sentence where the value or its interval is missing, else empty
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    n_clusters: int
    reason: str = ""


@dataclass(frozen=True)
class Correlations:
    """Of n pairs of scores.

    ``pearson``: with its interval
    ``spearman``, ``kendall`` (tau-b): -1..1, None where one side's scores are all the same
    ``mean_absolute_error``: in the unit of the scores, None without pairs
    """

    n: int
    pearson: Estimate
    spearman: float | None
    kendall: float | None
    mean_absolute_error: float | None


@dataclass(frozen=True)
class Resampling:
    """How replicates are drawn: the same seed and rows give the same interval.

    Raises ValueError for a level outside 0..1 or fewer than two replicates.
    """

    level: float = 0.95
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        check_confidence(self.level)
        check_resamples(self.n_resamples)

    def estimate(
        self, totals: Floats, statistic: Statistic, n: int, limits: tuple[float, float]
    ) -> Estimate:
        """The statistic of (G, S) sums per cluster, with its interval kept within ``limits``.

        ``statistic`` turns (S, R) sums into R figures, and has to be defined for the plain sums.
        """
        value = float(statistic(totals.sum(axis=0)[:, None])[0])
        plain = Estimate(value, None, None, n, len(totals))
        if len(totals) < MIN_CLUSTERS:
            return replace(plain, reason=NoInterval.FEW_CLUSTERS.reason)
        deviation = statistic(self._draw(totals)) - value
        if np.ptp(deviation) < VANISHING:
            return replace(plain, reason=NoInterval.NO_VARIATION.reason)
        tail = (1 - self.level) / 2
        reach = widening(self.level, len(totals)) * np.quantile(deviation, [tail, 1 - tail])
        low, high = np.clip(value + reach, *limits)
        return replace(plain, low=float(low), high=float(high))

    def _draw(self, totals: Floats) -> Floats:
        """(S, n_resamples): the sums with an exponential weight for each cluster."""
        generator = np.random.Generator(np.random.SFC64(self.seed))
        block = max(1, CELLS // len(totals))
        sizes = [min(block, self.n_resamples - i) for i in range(0, self.n_resamples, block)]
        shapes = [(len(totals), size) for size in sizes]
        # BLAS would start threads for so little, and on a busy machine wait for them.
        sums = csr_array(totals.T)
        drawn = (sums @ generator.standard_exponential(shape) for shape in shapes)
        return np.hstack([np.asarray(block, np.float64) for block in drawn])


def unknown(n: int, n_clusters: int, reason: str = NOTHING) -> Estimate:
    """A figure that does not exist, with the reason."""
    return Estimate(None, None, None, n, n_clusters, reason)


def cluster_codes(cluster: ArrayLike | None, length: int) -> Ints:
    """Each row's cluster as an integer; every row is its own where none are given."""
    if cluster is None:
        return np.arange(length)
    codes = columns.integers("clusters", cluster)
    check_rows("clusters", codes, length)
    return codes.astype(np.int64)


def check_rows(name: str, values: NDArray[Any], length: int) -> None:
    """Refuse a column that is not as long as the others."""
    if len(values) != length:
        raise ValueError(f"{name} has {len(values)} entries where {length} are expected")


def totalled(cluster: Ints, *values: Floats) -> Floats:
    """(G, S): the sums of S columns over the rows of each cluster that occurs."""
    code, size = columns.codes(cluster)
    return np.stack([summed(code, column, size) for column in values], axis=1)
