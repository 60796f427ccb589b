"""Correlations of two lists of scores."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats import arrays
from ranking.stats.arrays import Floats, Ints
from ranking.stats.bootstrap import (
    Correlations,
    Estimate,
    Resampling,
    check_rows,
    cluster_codes,
    sum_per_cluster,
    unknown,
)

CONSTANT = "One side gave the same score every time, so there is nothing to correlate."


def score_correlations(
    x: ArrayLike,
    y: ArrayLike,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Correlations:
    """Pearson with a cluster-bootstrap interval, Spearman, Kendall's tau-b, mean absolute error.

    Parameters
    ----------
    x, y : (n,) finite numbers, two scores of the same n items
    clusters : (n,) integers, the prompt of each row; None if rows are independent
    level : confidence level of the interval; n_resamples, seed : of the bootstrap

    Raises ValueError naming the argument. Reference: Kendall 1945 for tau-b.
    """
    sampling = Resampling(level, n_resamples, seed)
    one, other = _scores(x=x, y=y)
    pearson = _pearson_estimate(sampling, one, other, cluster_codes(clusters, len(one)))
    error = float(np.abs(one - other).mean()) if len(one) else None
    if pearson.value is None:
        return Correlations(len(one), pearson, None, None, error)
    from scipy.stats import rankdata  # noqa: PLC0415  (takes half a second; few callers need it)

    ranks = np.corrcoef(rankdata(one), rankdata(other))[0, 1]
    return Correlations(len(one), pearson, float(ranks), _kendall(one, other), error)


def correlation_lift(
    x: ArrayLike,
    baseline: ArrayLike,
    y: ArrayLike,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """Pearson of x with y minus Pearson of a baseline with y, on the same n rows.

    All three are (n,) finite numbers; the rest is as for `score_correlations`. The correlation of
    a constant baseline, which predicts nothing, counts as 0.
    """
    sampling = Resampling(level, n_resamples, seed)
    one, base, other = _scores(x=x, baseline=baseline, y=y)
    if not len(one) or not np.ptp(base):
        return _pearson_estimate(sampling, one, other, cluster_codes(clusters, len(one)))
    cluster = cluster_codes(clusters, len(one))
    if not np.ptp(one) or not np.ptp(other):
        return unknown(len(one), len(np.unique(cluster)), CONSTANT)
    totals = np.hstack([_moments(cluster, one, other), _moments(cluster, base, other)])
    return sampling.estimate(totals, _lift, len(one), (-2, 2))


def _kendall(one: Floats, other: Floats) -> float:
    # SciPy always computes a p-value: the asymptotic one is fast, but divides by n - 2.
    method: Literal["asymptotic", "exact"] = "asymptotic" if len(one) > 2 else "exact"
    from scipy.stats import kendalltau  # noqa: PLC0415  (as above)

    return float(kendalltau(one, other, method=method).statistic)


def _pearson_estimate(sampling: Resampling, one: Floats, other: Floats, cluster: Ints) -> Estimate:
    if not len(one):
        return unknown(0, 0)
    if not np.ptp(one) or not np.ptp(other):
        return unknown(len(one), len(np.unique(cluster)), CONSTANT)
    return sampling.estimate(_moments(cluster, one, other), _pearson, len(one), (-1, 1))


def _moments(cluster: Ints, one: Floats, other: Floats) -> Floats:
    """(G, 6): rows, and sums of both sides, of their squares and of their product.

    Both sides are centred and scaled first, because squares of large scores lose precision.
    """
    a, b = ((side - side.mean()) / np.ptp(side) for side in (one, other))
    return sum_per_cluster(cluster, np.ones(len(a)), a, b, a * a, b * b, a * b)


def _pearson(sums: Floats) -> Floats:
    a, b, aa, bb, ab = sums[1:6] / sums[0]
    correlation: Floats = (ab - a * b) / np.sqrt((aa - a * a) * (bb - b * b))
    return np.clip(correlation, -1, 1)


def _lift(sums: Floats) -> Floats:
    return _pearson(sums[:6]) - _pearson(sums[6:])


def _scores(**values: ArrayLike) -> list[Floats]:
    """Columns of finite numbers, all of the same length."""
    scores = {name: arrays.floats(name, column) for name, column in values.items()}
    length = len(scores["x"])
    for name, column in scores.items():
        check_rows(name, column, length)
        if not np.isfinite(column).all():
            raise ValueError(f"{name} must hold finite numbers")
    return list(scores.values())
