"""Cluster bootstraps of ratings, and of statistics of sums (shares, kappas, correlations).

Rows of one cluster, usually of one prompt, are not independent. Each replicate therefore gives
every cluster a random weight and recomputes the statistic from the weighted sums: exponential
weights (Rubin 1981), except for ratings. Deviations from the estimate are widened for few clusters.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from ranking.stats import arrays
from ranking.stats.arrays import Floats, Ints, summed
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.intervals import (
    MIN_CLUSTERS,
    NoInterval,
    Sandwich,
    check_confidence,
    check_resamples,
    movements,
    normal_quantile,
    residuals,
    t_quantile,
    widening,
)

CACHED_CELLS = 250_000  # weights drawn at once, to fit the processor cache; affects seeded results
VANISHING_SPREAD = 1e-12  # a smaller spread is rounding, not precision
NOTHING = "There is nothing to count yet."
Statistic = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Estimate:
    """An estimate and its interval; None if unknown.

    Attributes
    ----------
    value, low, high : in the unit of the estimated quantity
    n, n_clusters : the number of labels, pairs of labels or items counted, and of their clusters
    reason : one sentence if the value or its interval is missing, else empty
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    n_clusters: int
    reason: str = ""


@dataclass(frozen=True)
class Correlations:
    """Correlations of n pairs of scores.

    Attributes
    ----------
    pearson : with its interval
    spearman, kendall : from -1 to 1 (Kendall's tau-b); None if one side's scores are all equal
    mean_absolute_error : in the unit of the scores; None without pairs
    """

    n: int
    pearson: Estimate
    spearman: float | None
    kendall: float | None
    mean_absolute_error: float | None


@dataclass(frozen=True)
class Resampling:
    """How to draw replicates; the same seed and rows give the same interval.

    Raises ValueError for a level that is not between 0 and 1, or fewer than two replicates.
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
        """The statistic of (G, S) sums per cluster, and its interval clipped to ``limits``.

        ``statistic`` turns (S, R) sums into R values; it must be defined for the unweighted sums.
        """
        value = float(statistic(totals.sum(axis=0)[:, None])[0])
        plain = Estimate(value, None, None, n, len(totals))
        if len(totals) < MIN_CLUSTERS:
            return replace(plain, reason=NoInterval.FEW_CLUSTERS.reason)
        generator = np.random.Generator(np.random.SFC64(self.seed))
        block = max(1, CACHED_CELLS // len(totals))
        sizes = [min(block, self.n_resamples - i) for i in range(0, self.n_resamples, block)]
        shapes = [(len(totals), size) for size in sizes]
        # Sparse, because BLAS would start threads and wait for them even for so small a product.
        sums = csr_array(totals.T)
        drawn = (sums @ generator.standard_exponential(shape) for shape in shapes)
        deviation = statistic(np.hstack([np.asarray(block, np.float64) for block in drawn])) - value
        if np.ptp(deviation) < VANISHING_SPREAD:
            return replace(plain, reason=NoInterval.NO_VARIATION.reason)
        tail = (1 - self.level) / 2
        reach = widening(self.level, len(totals)) * np.quantile(deviation, [tail, 1 - tail])
        low, high = np.clip(value + reach, *limits)
        return replace(plain, low=float(low), high=float(high))


def unknown(n: int, n_clusters: int, reason: str = NOTHING) -> Estimate:
    """An estimate without a value, and the reason."""
    return Estimate(None, None, None, n, n_clusters, reason)


def cluster_codes(cluster: ArrayLike | None, length: int) -> Ints:
    """The cluster of each row, checked; None makes each row its own cluster."""
    if cluster is None:
        return np.arange(length)
    codes = arrays.integers("clusters", cluster)
    check_rows("clusters", codes, length)
    return codes.astype(np.int64)


def check_rows(name: str, values: NDArray[Any], length: int) -> None:
    """Raise ValueError unless the column has this length."""
    if len(values) != length:
        raise ValueError(f"{name} has {len(values)} entries where {length} are expected")


def sum_per_cluster(cluster: Ints, *values: Floats) -> Floats:
    """(G, S): the sums of S columns over the rows of each cluster."""
    code, size = arrays.codes(cluster)
    return np.stack([summed(code, column, size) for column in values], axis=1)


CELLS = 2_000_000  # most weights drawn at once, 16 MB; affects seeded results
SHAPE = 4  # of gamma weights: divided by the root, variance 1 and third moment 1
SPREAD = 2


@dataclass(eq=False)
class Bootstrap:
    """Intervals of Bradley-Terry ratings by resampling clusters of votes, without refitting.

    A replicate gives each cluster a random weight and moves the ratings by one step: the sum of the
    jackknife's movements of each cluster, times its weight minus 1. Weights are gamma, with the
    first three moments of Poisson(1): more skewed ones, such as exponential weights, move intervals
    away from the truth where few clusters have most votes. On sparse boards refitted replicates
    move outward; these do not. They are scaled to the sandwich's errors, and their quantiles are
    bias-corrected (Efron 1987).

    Parameters
    ----------
    n_resamples : replicates, at least 2
    confidence : of the intervals
    random_state : seed; the same seed and battles give the same numbers
    model : a `BradleyTerry` with the hyperparameters to use; it is not changed

    Attributes (K candidates; NaN for the unranked)
    ----------
    model_ : the fitted model
    ratings_ : (K,) Elo
    standard_errors_ : (K,) Elo, the sandwich's
    low_, high_ : (K,) Elo; quantiles of the movements, widened by the ratio of the t(G - 1) to the
        normal quantile
    n_clusters_ : G, between ranked candidates
    reason_ : `NoInterval` or None; if set, low_, high_ and standard_errors_ are all NaN
    """

    n_resamples: int = 1000
    confidence: float = 0.95
    random_state: int = 0
    model: BradleyTerry = field(default_factory=BradleyTerry)

    def fit(self, battles: Battles, robust: Sandwich | None = None) -> "Bootstrap":
        """Fit the model and resample. Raises as `BradleyTerry.fit` does, and ValueError.

        ``robust``: a sandwich of the same votes, of which ``battles`` are the strongest grouping.
        """
        check_confidence(self.confidence)
        check_resamples(self.n_resamples)
        if robust is None:
            robust = Sandwich(self.confidence, self.model, jackknifed=True).fit(battles)
        self.model_, self.ratings_ = robust.model_, robust.ratings_
        self.n_clusters_, self.reason_ = robust.n_clusters_, robust.reason_
        self.standard_errors_: Floats = robust.standard_errors_
        self.low_: Floats = np.full(len(self.ratings_), np.nan)
        self.high_: Floats = self.low_.copy()
        if self.reason_ is None:
            moved = self._movements(battles.among(self.model_.ranked_))
            if (place := self.model_.anchor_place) is not None:
                moved -= moved[:, [place]]
            low, high = (self.model_.spread(ends) for ends in self._quantiles(moved))
            ratio = t_quantile(self.confidence, self.n_clusters_) / normal_quantile(self.confidence)
            self.low_ = self.ratings_ + ratio * self.standard_errors_ * low
            self.high_ = self.ratings_ + ratio * self.standard_errors_ * high
        return self

    def _movements(self, inside: Battles) -> Floats:
        """(n_resamples, R): how far each replicate moves theta."""
        generator = np.random.Generator(np.random.SFC64(self.random_state))
        ranked = self.model_.ranked_
        theta, bread = self.model_.theta_[ranked], self.model_.covariance_[np.ix_(ranked, ranked)]
        total = np.zeros((self.n_resamples, inside.n_candidates))
        if inside.cluster is None:
            return self._moved_by_votes(inside, theta, bread, generator)
        for moved in movements(inside, theta, bread):
            height = max(1, CELLS // self.n_resamples)
            for start in range(0, len(moved), height):
                part = moved[start : start + height]
                weight = generator.standard_gamma(SHAPE, (len(part), self.n_resamples))
                total += (weight / SPREAD - SPREAD).T @ part
        return total

    def _moved_by_votes(
        self, inside: Battles, theta: Floats, bread: Floats, generator: np.random.Generator
    ) -> Floats:
        """The same where each vote is a cluster: ``count`` equal ones share a gamma weight."""
        pairs, residual = inside.pairs, residuals(inside, theta)
        score = np.zeros((len(pairs.first), self.n_resamples))
        for start in range(0, len(residual), height := max(1, CELLS // self.n_resamples)):
            rows = slice(start, start + height)
            count = inside.count[rows][:, None]
            weight = generator.standard_gamma(SHAPE * count, (len(count), self.n_resamples))
            weight = weight / SPREAD - SPREAD * count
            np.add.at(score, inside.pair_of_row[rows], weight * residual[rows][:, None])
        n_pairs, shape = np.arange(len(pairs.first)), (inside.n_candidates, len(pairs.first))
        sign = np.repeat([1.0, -1.0], len(n_pairs))
        sides = np.concatenate([pairs.first, pairs.second])
        incidence = csr_array((sign, (sides, np.tile(n_pairs, 2))), shape=shape)
        moved: Floats = (bread @ (incidence @ score)).T
        return moved

    def _quantiles(self, moved: Floats) -> tuple[Floats, Floats]:
        """(R,) each: the bias-corrected ends of the movements, in their own standard deviations."""
        spread = moved.std(axis=0, ddof=1)
        spread[spread < VANISHING_SPREAD] = np.nan
        below = (moved < 0).mean(axis=0).clip(1 / self.n_resamples, 1 - 1 / self.n_resamples)
        bias, reach = ndtri(below), normal_quantile(self.confidence)
        ordered = np.sort(moved / spread, axis=0)
        ends = []
        for side in (-1, 1):
            place = ndtr(2 * bias + side * reach) * (self.n_resamples - 1)
            at = np.minimum(place.astype(np.int64), self.n_resamples - 2)
            lower, upper = (np.take_along_axis(ordered, k[None], axis=0)[0] for k in (at, at + 1))
            ends.append(lower + (place - at) * (upper - lower))
        return ends[0], ends[1]


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
    successes : (n,) from 0 to the row's trials; fractions are partial successes
    trials : (n,) integers, 0 or more; None for one per row. Rows without trials are ignored
    clusters : (n,) integers, the prompt of each row; None if rows are independent
    level : confidence level of the interval; n_resamples, seed : of the bootstrap

    Returns
    -------
    Estimate from 0 to 1; ``n`` is the number of trials. No value without trials; no interval with
    fewer than 5 clusters, or if all clusters have the same share strictly between 0 and 1. A share
    of 0 or 1 does not vary under resampling, so its bound is the exact binomial one with clusters
    as trials (Clopper and Pearson 1934): if clusters are equal in size, the share of clusters
    without any failure is at most the share of successes.

    Raises ValueError naming the argument.
    """
    sampling = Resampling(level, n_resamples, seed)
    won, total, cluster = _rows({"successes": successes}, trials, clusters)
    if not len(total):
        return unknown(0, 0)
    totals = sum_per_cluster(cluster, *won, total)
    estimate = sampling.estimate(totals, _share, int(total.sum()), (0, 1))
    return _exact_at_the_edge(estimate, (0, 1), level)


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

    ``first`` and ``second``: the (n,) successes of each; the rest is as for `clustered_share`.
    Both shares are measured on the same rows, so shared variation cancels out. If both succeed in
    the same rows, the difference is 0, without an interval.
    """
    sampling = Resampling(level, n_resamples, seed)
    won, total, cluster = _rows({"first": first, "second": second}, trials, clusters)
    if not len(total):
        return unknown(0, 0)
    totals = sum_per_cluster(cluster, *won, total)
    estimate = sampling.estimate(totals, _difference, int(total.sum()), (-1, 1))
    return _exact_at_the_edge(estimate, (-1, 1), level)


def _share(sums: Floats) -> Floats:
    share: Floats = sums[0] / sums[1]
    return share


def _difference(sums: Floats) -> Floats:
    difference: Floats = (sums[0] - sums[1]) / sums[2]
    return difference


def _rows(
    successes: dict[str, ArrayLike], trials: ArrayLike | None, clusters: ArrayLike | None
) -> tuple[list[Floats], Floats, Ints]:
    """Checked columns of successes, trials and clusters for the rows with at least one trial."""
    won = {name: arrays.floats(name, values) for name, values in successes.items()}
    length = len(next(iter(won.values())))
    total = np.ones(length)
    if trials is not None:
        column = arrays.integers("trials", trials)
        check_rows("trials", column, length)
        total = arrays.counts("trials", column, length).astype(np.float64)
    cluster = cluster_codes(clusters, length)
    for name, values in won.items():
        check_rows(name, values, length)
        if not ((values >= 0) & (values <= total)).all():
            raise ValueError(f"{name} must be from 0 to the trials of their row")
    has_trials = total > 0
    columns = [values[has_trials] for values in won.values()]
    return columns, total[has_trials], cluster[has_trials]


def _exact_at_the_edge(estimate: Estimate, limits: tuple[int, int], level: float) -> Estimate:
    """The exact bound if every cluster is at the same end of the possible range."""
    if (
        estimate.low is not None
        or estimate.value not in limits
        or estimate.n_clusters < MIN_CLUSTERS
    ):
        return estimate
    lowest, highest = limits
    missed = (highest - lowest) * (1 - ((1 - level) / 2) ** (1 / estimate.n_clusters))
    if estimate.value == highest:
        return replace(estimate, low=highest - missed, high=float(highest), reason="")
    return replace(estimate, low=float(lowest), high=lowest + missed, reason="")
