"""Inter-rater agreement: alpha, kappas, McNemar's test and a binomial tail probability.

A unit is what several raters judged: a prompt and pair, or a response.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, ndtr

from ranking.stats import arrays
from ranking.stats.arrays import Floats, Ints, summed
from ranking.stats.bootstrap import (
    Correlations,
    Estimate,
    Resampling,
    check_rows,
    cluster_codes,
    sum_per_cluster,
    unknown,
)

LEVELS = ("nominal", "ordinal", "interval")


@dataclass(frozen=True)
class NominalAgreement:
    """Agreement of votes on the same unit, for outcomes without an order.

    Attributes
    ----------
    share : proportion of pairs of votes on the same unit with equal outcomes; NaN without pairs
    n_pairs : the number of pairs of votes on the same unit
    alpha : Krippendorff's; 1 is perfect, 0 is chance; NaN if all outcomes are the same
    """

    share: float
    n_pairs: int
    alpha: float


def nominal_agreement(counts: ArrayLike) -> NominalAgreement:
    """Compute agreement from a (U, C) table of vote counts per unit and outcome.

    Omit columns to consider some outcomes only. Units with fewer than two votes are ignored. Every
    pair of votes on a unit weighs the same in ``share``, every vote in ``alpha``. If outcomes name
    a side, a unit's sides must be fixed; ``alpha`` depends slightly on which is called left,
    because chance is estimated from how often each outcome occurs.

    Raises ValueError unless ``counts`` is a (U, C) array of non-negative integers.
    """
    table = _count_table("counts", counts, "(U, C)").astype(np.int64)
    total = table.sum(axis=1)
    table, total = table[total > 1], total[total > 1]
    n_pairs = int((total * (total - 1)).sum()) // 2
    agreeing = int((table * (table - 1)).sum()) // 2
    observed = float(((total**2 - (table**2).sum(axis=1)) / (total - 1)).sum())
    alpha = _alpha(observed, _unlike(table.sum(axis=0)), int(total.sum()))
    return NominalAgreement(agreeing / n_pairs if n_pairs else math.nan, n_pairs, alpha)


def krippendorff_alpha(unit: ArrayLike, value: ArrayLike, level: str = "nominal") -> float:
    """Krippendorff's alpha of n values: 1 - observed disagreement / expected disagreement.

    Parameters
    ----------
    unit : (n,) integers, the unit judged
    value : (n,) numbers; NaN is missing
    level : "nominal" (values differ or not), "ordinal" (they differ by the ranks between them) or
        "interval" (by their distance)

    Returns
    -------
    float up to 1; NaN if no unit has two values, or all values are equal

    Raises ValueError naming the argument. Reference: Krippendorff 2019, Content Analysis, ch. 12.
    """
    values = arrays.floats("value", value)
    units = arrays.integers("unit", unit, len(values))
    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    if np.isinf(values).any():
        raise ValueError("value must be finite, or NaN where missing")
    is_given = ~np.isnan(values)
    codes, values, size = _pairable_values(arrays.codes(units[is_given])[0], values[is_given])
    if not len(values):
        return math.nan
    observed, chance = (
        _nominal_disagreement(codes, values, size)
        if level == "nominal"
        else (
            _squared_disagreement(codes, _midranks(values) if level == "ordinal" else values, size)
        )
    )
    return _alpha(observed, chance, len(values))


def _alpha(observed: float, chance: float, n_values: int) -> float:
    """Compute alpha from sums of squared differences between ordered pairs of values.

    ``observed``: over the pairs on each unit, divided by (values on the unit - 1) and summed over
    units; ``chance``: over the pairs of all n values, undivided.
    """
    return 1 - (n_values - 1) * observed / chance if chance > 0 else math.nan


def _nominal_disagreement(unit: Ints, value: Floats, size: Ints) -> tuple[float, float]:
    label = np.unique(value, return_inverse=True)[1].astype(np.int64)
    cell, times = np.unique(unit * (int(label.max()) + 1) + label, return_counts=True)
    same = summed(cell // (int(label.max()) + 1), times.astype(np.float64) ** 2, len(size))
    return float(((size**2 - same) / (size - 1)).sum()), _unlike(np.bincount(label))


def _unlike(totals: Ints) -> float:
    """The number of ordered pairs of unequal values, given the count of each value."""
    return float(int(totals.sum()) ** 2 - int((totals**2).sum()))


def _squared_disagreement(unit: Ints, value: Floats, size: Ints) -> tuple[float, float]:
    """Both sums for `_alpha`; the ordered pairs of m values give 2 m times squared deviations."""
    inside = value - (summed(unit, value, len(size)) / size)[unit]
    within = 2 * size * summed(unit, inside**2, len(size)) / (size - 1)
    overall = value - value.mean()
    exact = float(np.ptp(value)) > 0  # the mean of equal values may differ from them by rounding
    return float(within.sum()), 2 * len(value) * float(overall @ overall) * exact


def _midranks(value: Floats) -> Floats:
    """Midranks, up to a constant; their differences are Krippendorff's ordinal metric."""
    _, code, times = np.unique(value, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(times) - times / 2)[code]
    return ranks


def _pairable_values(unit: Ints, value: Floats) -> tuple[Ints, Floats, Ints]:
    """Codes and values of the units with at least two values, and their numbers of values."""
    size = np.bincount(unit)
    keep = size[unit] > 1
    return arrays.codes(unit[keep])[0], value[keep], size[size > 1]


def _count_table(name: str, values: ArrayLike, shape: str) -> NDArray[Any]:
    """A table of non-negative integers, checked."""
    table = np.asarray(values)
    if table.ndim != 2:
        raise ValueError(f"{name} must be of shape {shape}, not {table.shape}")
    if table.size and (table.dtype.kind not in "iu" or table.min() < 0):
        raise ValueError(f"{name} must hold non-negative integers")
    return table


ONE_ANSWER = "Both sides always gave the same one answer, so agreement may be chance."


def fleiss_kappa(ratings: ArrayLike) -> float:
    """Fleiss' kappa of a jury: (agreement - chance) / (1 - chance).

    Parameters
    ----------
    ratings : (N, C) integers, how many members put item i in category j. Items may have different
        numbers of ratings: items weigh the same in the observed agreement and ratings in the
        chance agreement, which is Fleiss' formula if the numbers are equal. Items with fewer than
        two ratings are ignored

    Returns
    -------
    float up to 1; NaN if no item has two ratings, or all ratings are equal

    Raises ValueError unless ``ratings`` is an (N, C) array of non-negative integers.
    Reference: Fleiss 1971.
    """
    table = _count_table("ratings", ratings, "(N, C)").astype(np.float64)
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
    a, b : (n,) numbers, the raters' values; NaN is missing, and such rows are ignored
    clusters : (n,) integers, the prompt of each row; None if rows are independent
    level : confidence level of the interval; n_resamples, seed : of the bootstrap

    Returns
    -------
    Estimate from -1 to 1; no value without rows, or if all values are equal

    Raises ValueError naming the argument. Reference: Cohen 1960.
    """
    sampling = Resampling(level, n_resamples, seed)
    first = arrays.floats("a", a)
    second = arrays.floats("b", b)
    check_rows("b", second, len(first))
    both = ~(np.isnan(first) | np.isnan(second))
    cluster = cluster_codes(clusters, len(first))[both]
    if not both.any():
        return unknown(0, 0)
    labels, codes = np.unique([first[both], second[both]], return_inverse=True)
    codes = codes.reshape(2, -1)
    if len(labels) < 2:
        return unknown(len(cluster), len(np.unique(cluster)), ONE_ANSWER)
    values = [(side == label).astype(float) for side in codes for label in range(len(labels))]
    agreed = (codes[0] == codes[1]).astype(float)
    totals = sum_per_cluster(cluster, agreed, np.ones(len(cluster)), *values)
    return sampling.estimate(totals, _kappa, len(cluster), (-1, 1))


def _kappa(sums: Floats) -> Floats:
    """Kappa from sums of agreement, of rows, and of each rater's labels."""
    marginals = sums[2:] / sums[1]
    half = len(marginals) // 2
    chance = (marginals[:half] * marginals[half:]).sum(axis=0)
    kappa: Floats = (sums[0] / sums[1] - chance) / (1 - chance)
    return kappa


def mcnemar(b: int, c: int) -> float:
    """The exact two-sided p-value of McNemar's test.

    ``b`` items are right in one run only and ``c`` in the other only; if the runs are equally
    good, each of these is a coin toss. Without any such item p is 1.

    Raises ValueError for a negative count. Reference: McNemar 1947, with the exact binomial.
    """
    if b < 0 or c < 0:
        raise ValueError(f"b and c must be 0 or more, not {b} and {c}")
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5)))


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
    first, second = _scores(x=x, y=y)
    pearson = _pearson_estimate(sampling, first, second, cluster_codes(clusters, len(first)))
    error = float(np.abs(first - second).mean()) if len(first) else None
    if pearson.value is None:
        return Correlations(len(first), pearson, None, None, error)
    from scipy.stats import rankdata  # noqa: PLC0415  (takes half a second; few callers need it)

    ranks = np.corrcoef(rankdata(first), rankdata(second))[0, 1]
    return Correlations(len(first), pearson, float(ranks), _kendall(first, second), error)


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
    judged, base, people = _scores(x=x, baseline=baseline, y=y)
    if not len(judged) or not np.ptp(base):
        return _pearson_estimate(sampling, judged, people, cluster_codes(clusters, len(judged)))
    cluster = cluster_codes(clusters, len(judged))
    if not np.ptp(judged) or not np.ptp(people):
        return unknown(len(judged), len(np.unique(cluster)), CONSTANT)
    totals = np.hstack([_moments(cluster, judged, people), _moments(cluster, base, people)])
    return sampling.estimate(totals, _correlation_lift, len(judged), (-2, 2))


def _kendall(first: Floats, second: Floats) -> float:
    # SciPy always computes a p-value: the asymptotic one is fast, but divides by n - 2.
    method: Literal["asymptotic", "exact"] = "asymptotic" if len(first) > 2 else "exact"
    from scipy.stats import kendalltau  # noqa: PLC0415  (as above)

    return float(kendalltau(first, second, method=method).statistic)


def _pearson_estimate(
    sampling: Resampling, first: Floats, second: Floats, cluster: Ints
) -> Estimate:
    if not len(first):
        return unknown(0, 0)
    if not np.ptp(first) or not np.ptp(second):
        return unknown(len(first), len(np.unique(cluster)), CONSTANT)
    return sampling.estimate(_moments(cluster, first, second), _pearson, len(first), (-1, 1))


def _moments(cluster: Ints, first: Floats, second: Floats) -> Floats:
    """(G, 6): rows, and sums of both sides, of their squares and of their product.

    Both sides are centred and scaled first, because squares of large scores lose precision.
    """
    a, b = ((side - side.mean()) / np.ptp(side) for side in (first, second))
    return sum_per_cluster(cluster, np.ones(len(a)), a, b, a * a, b * b, a * b)


def _pearson(sums: Floats) -> Floats:
    a, b, aa, bb, ab = sums[1:6] / sums[0]
    correlation: Floats = (ab - a * b) / np.sqrt((aa - a * a) * (bb - b * b))
    return np.clip(correlation, -1, 1)


def _correlation_lift(sums: Floats) -> Floats:
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


PRIOR = 10.0  # votes that the prior is worth


@dataclass(frozen=True, eq=False)
class OverNamed:
    """How much more often reasons are named in N groups of votes than elsewhere.

    Attributes
    ----------
    log_odds : (N,) log-odds of naming the reason in the group, less those elsewhere; shrunk
    standard_error : (N,) of `log_odds`
    q : (N,) the smallest false discovery rate at which the reason is found to be named more often
    """

    log_odds: Floats
    standard_error: Floats
    q: Floats


def over_named(
    named: Ints, explained: Ints, named_elsewhere: Ints, explained_elsewhere: Ints
) -> OverNamed:
    """Compare how often reasons are named in groups of votes, and in the votes elsewhere.

    Log-odds ratios with an informative Dirichlet prior: Monroe, Colaresi and Quinn (2008),
    "Fightin' Words", equations 15 to 22. A reason is named or not, so the prior has two parts; it
    is worth PRIOR votes, at the rate of both sides together. The variance has the terms of both
    parts. One-sided p-values are adjusted over all N by Benjamini and Hochberg (1995).

    Parameters
    ----------
    named, explained : (N,) votes of each group that name the reason, and that name any
    named_elsewhere, explained_elsewhere : (N,) the same of the votes it is compared with
    """
    from scipy.stats import false_discovery_control  # noqa: PLC0415  (half a second to load)

    if not len(named):
        return OverNamed(np.empty(0), np.empty(0), np.empty(0))
    everywhere = np.maximum(explained + explained_elsewhere, 1)
    rate = (named + named_elsewhere + 0.5) / (everywhere + 1.0)
    yes, no = named + PRIOR * rate, explained - named + PRIOR * (1 - rate)
    yes_elsewhere = named_elsewhere + PRIOR * rate
    no_elsewhere = explained_elsewhere - named_elsewhere + PRIOR * (1 - rate)
    log_odds = np.log(yes / no) - np.log(yes_elsewhere / no_elsewhere)
    error = np.sqrt(1 / yes + 1 / no + 1 / yes_elsewhere + 1 / no_elsewhere)
    return OverNamed(log_odds, error, false_discovery_control(ndtr(-log_odds / error)))
