"""Agreement beyond chance: of a jury's members, and of two raters with an interval."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats import columns
from ranking.stats.columns import Floats
from ranking.stats.resampling import (
    Estimate,
    Resampling,
    check_rows,
    cluster_codes,
    totalled,
    unknown,
)

ONE_ANSWER = "Both sides know but one same answer, so chance cannot be told from agreement."


def fleiss_kappa(ratings: ArrayLike) -> float:
    """Fleiss' kappa of a jury: (agreement - chance) / (1 - chance).

    Parameters
    ----------
    ratings : (N, C) integers, how many members gave item i the category j. Members that gave
        none are left out, so items may differ in how many rated them: every item weighs the same
        in the agreement and every rating in chance, which is Fleiss' own formula where all have
        the same number. Items with fewer than two ratings say nothing

    Returns
    -------
    float up to 1; NaN where no item has two ratings, or where all ratings are the same

    Raises ValueError where ``ratings`` is not (N, C), not whole or negative.
    Reference: Fleiss 1971.
    """
    table = _table(ratings)
    total = table.sum(axis=1)
    table, total = table[total > 1], total[total > 1]
    if np.count_nonzero(table.sum(axis=0)) < 2:
        return math.nan
    observed = ((table * (table - 1)).sum(axis=1) / (total * (total - 1))).mean()
    chance = ((table.sum(axis=0) / total.sum()) ** 2).sum()
    return float((observed - chance) / (1 - chance))


def clustered_kappa(
    a: ArrayLike,
    b: ArrayLike,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """Cohen's kappa of two raters, with a cluster-bootstrap interval.

    Parameters
    ----------
    a, b : (n,) numbers, what the one and the other said; NaN is missing, and such a row says
        nothing
    clusters : (n,) integers, the prompt of each row; None where rows are independent
    level : of the interval; n_resamples, seed : of the bootstrap

    Returns
    -------
    Estimate in -1..1; no value without rows, or where both know but one same answer

    Raises ValueError naming the argument. Reference: Cohen 1960.
    """
    sampling = Resampling(level, n_resamples, seed)
    one = columns.floats("a", a)
    other = columns.floats("b", b)
    check_rows("b", other, len(one))
    known = ~(np.isnan(one) | np.isnan(other))
    cluster = cluster_codes(clusters, len(one))[known]
    if not known.any():
        return unknown(0, 0)
    labels, codes = np.unique([one[known], other[known]], return_inverse=True)
    codes = codes.reshape(2, -1)
    if len(labels) < 2:
        return unknown(len(cluster), len(np.unique(cluster)), ONE_ANSWER)
    said = [(side == label).astype(float) for side in codes for label in range(len(labels))]
    agreed = (codes[0] == codes[1]).astype(float)
    totals = totalled(cluster, agreed, np.ones(len(cluster)), *said)
    return sampling.estimate(totals, _kappa, len(cluster), (-1, 1))


def _kappa(sums: Floats) -> Floats:
    """Sums of agreement and of rows, and how often the one and the other said each label."""
    marginals = sums[2:] / sums[1]
    half = len(marginals) // 2
    chance = (marginals[:half] * marginals[half:]).sum(axis=0)
    kappa: Floats = (sums[0] / sums[1] - chance) / (1 - chance)
    return kappa


def _table(ratings: ArrayLike) -> Floats:
    table = np.asarray(ratings)
    if table.ndim != 2:
        raise ValueError(f"ratings must be of shape (N, C), not {table.shape}")
    if table.size and (table.dtype.kind not in "iu" or table.min() < 0):
        raise ValueError("ratings must hold integers that are not negative")
    return table.astype(np.float64)
