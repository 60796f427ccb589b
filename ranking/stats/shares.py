"""Shares with intervals that know which rows belong together: agreement, flips, preferences."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats import columns
from ranking.stats.columns import Floats, Ints
from ranking.stats.intervals import MIN_CLUSTERS
from ranking.stats.resampling import (
    Estimate,
    Resampling,
    check_rows,
    cluster_codes,
    totalled,
    unknown,
)


def clustered_share(
    successes: ArrayLike,
    trials: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """The share of successes among all trials, with a cluster-bootstrap interval.

    Parameters
    ----------
    successes : (n,) from 0 to the row's trials; a fraction is a part of a success
    trials : (n,) integers, 0 or more; None for one per row. Rows without trials say nothing
    clusters : (n,) integers, the prompt of each row; None where rows are independent
    level : of the interval; n_resamples, seed : of the bootstrap

    Returns
    -------
    Estimate in 0..1, ``n`` being the trials. No value without trials; no interval with fewer than
    5 clusters, or where all clusters have one same share between 0 and 1. Where the share is 0
    or 1, resampling cannot tell chance from certainty: there the bound is the exact binomial one
    for as many trials as there are clusters (Clopper and Pearson 1934), because the share of
    clusters without any failure is at most the share of successes, clusters being equal in size.

    Raises ValueError naming the argument.
    """
    sampling = Resampling(level, n_resamples, seed)
    won, total, cluster = _rows({"successes": successes}, trials, clusters)
    if not len(total):
        return unknown(0, 0)
    totals = totalled(cluster, *won, total)
    found = sampling.estimate(totals, _share, int(total.sum()), (0, 1))
    return _at_the_edge(found, (0, 1), level)


def share_difference(
    first: ArrayLike,
    second: ArrayLike,
    trials: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Estimate:
    """One share minus another on the same trials, with a cluster-bootstrap interval.

    ``first`` and ``second`` are the (n,) successes of the one and of the other; all else is as
    for `clustered_share`. Being measured on the same rows, what the two have in common cancels
    out. Two that succeed in the same rows differ by 0, without an interval.
    """
    sampling = Resampling(level, n_resamples, seed)
    won, total, cluster = _rows({"first": first, "second": second}, trials, clusters)
    if not len(total):
        return unknown(0, 0)
    totals = totalled(cluster, *won, total)
    found = sampling.estimate(totals, _difference, int(total.sum()), (-1, 1))
    return _at_the_edge(found, (-1, 1), level)


def _share(sums: Floats) -> Floats:
    share: Floats = sums[0] / sums[1]
    return share


def _difference(sums: Floats) -> Floats:
    difference: Floats = (sums[0] - sums[1]) / sums[2]
    return difference


def _rows(
    successes: dict[str, ArrayLike], trials: ArrayLike | None, clusters: ArrayLike | None
) -> tuple[list[Floats], Floats, Ints]:
    """Checked columns of successes, of trials and of clusters: the rows with any trials."""
    won = {name: columns.floats(name, values) for name, values in successes.items()}
    length = len(next(iter(won.values())))
    total = np.ones(length) if trials is None else _counts(trials, length)
    cluster = cluster_codes(clusters, length)
    for name, values in won.items():
        _check(name, values, total)
    keep = total > 0
    return [values[keep] for values in won.values()], total[keep], cluster[keep]


def _counts(trials: ArrayLike, length: int) -> Floats:
    given = columns.integers("trials", trials)
    check_rows("trials", given, length)
    return columns.counts("trials", given, length).astype(np.float64)


def _check(name: str, values: Floats, total: Floats) -> None:
    check_rows(name, values, len(total))
    if not ((values >= 0) & (values <= total)).all():
        raise ValueError(f"{name} must be from 0 to the trials of their row")


def _at_the_edge(found: Estimate, limits: tuple[int, int], level: float) -> Estimate:
    """The exact bound where every cluster is at the same end of what is possible."""
    if found.low is not None or found.value not in limits or found.n_clusters < MIN_CLUSTERS:
        return found
    lowest, highest = limits
    missed = (highest - lowest) * (1 - ((1 - level) / 2) ** (1 / found.n_clusters))
    if found.value == highest:
        return replace(found, low=highest - missed, high=float(highest), reason="")
    return replace(found, low=float(lowest), high=lowest + missed, reason="")
