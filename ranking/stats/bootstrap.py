"""Cluster bootstraps of ratings, and of statistics of sums (shares, kappas, correlations).

Rows of one cluster, usually of one prompt, are not independent. Each replicate therefore gives
every cluster an exponential weight (Rubin 1981) and recomputes the statistic from the weighted
sums. Deviations from the estimate are widened for few clusters (`intervals.widening`).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ranking.stats import arrays
from ranking.stats.arrays import Bools, Floats, Ints, summed
from ranking.stats.battles import HALVES, Battles, Pairs, expected_score
from ranking.stats.bradley_terry import LONGEST_STEP, BradleyTerry, maximise, pseudo_inverse
from ranking.stats.intervals import (
    MIN_CLUSTERS,
    NoInterval,
    Sandwich,
    check_confidence,
    check_resamples,
    normal_quantile,
    small_sample,
    t_quantile,
    why_none,
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


# With exponential weights no replicate loses a candidate or splits the graph. If each vote is its
# own cluster, ``count`` equal votes share the sum of as many weights. A replicate is refitted from
# the estimate by steps with one fixed inverse information, rescaled per candidate to the
# replicate's own. If votes are so few that these steps do not contract, Newton's steps are found
# by conjugate gradients, all replicates at once; where those fail too, one by one.

BLOCK = 50  # most replicates refitted together; affects seeded results
CELLS = 4_000_000  # most weights drawn at once, 32 MB
PART = 1000  # pairs handled at once
MANY = 8  # weights whose sum is drawn as the cube of a normal variable
MAX_STEPS = 16
NEWTON_STEPS = 20
INNER_STEPS = 40
MOST_EXACT, LEAST_EXACT = 1e-3, 0.1  # of a Newton step: its error, by the length of the step before
TOLERANCE = 1e-6  # of theta, 0.0002 Elo: the error allowed in a replicate's maximum
VANISHING_ELO = 1e-9  # Elo; a smaller spread is rounding, not precision


@dataclass(eq=False)
class Bootstrap:
    """Intervals of Bradley-Terry ratings by resampling clusters of votes.

    Parameters
    ----------
    n_resamples : replicates, at least 2
    confidence : of the intervals
    random_state : seed; the same seed and battles give the same numbers with any ``n_threads``
    model : a `BradleyTerry` with the hyperparameters to use; it is not changed
    n_threads : number of threads that draw and refit replicates

    Attributes (K candidates; NaN for the unranked)
    ----------
    model_ : the fitted model
    ratings_ : (K,) Elo
    samples_ : (n_resamples, K) Elo, as drawn
    standard_errors_ : (K,) Elo, the samples' deviation times sqrt(G / (G - 1))
    low_, high_ : (K,) Elo: quantiles of the deviations from the rating, widened by
        sqrt(G / (G - 1)) and by the ratio of the t(G - 1) to the normal quantile
    n_clusters_ : G, between ranked candidates
    reason_ : `NoInterval` or None; if set, low_, high_ and standard_errors_ are all NaN
    """

    n_resamples: int = 1000
    confidence: float = 0.95
    random_state: int = 0
    model: BradleyTerry = field(default_factory=BradleyTerry)
    n_threads: int = 1

    def fit(self, battles: Battles, robust: Sandwich | None = None) -> "Bootstrap":
        """Fit the model and its replicates. Raises as `BradleyTerry.fit` does, and ValueError.

        ``robust``: a sandwich of the same votes, of which ``battles`` are the strongest grouping.
        Deviations are stretched to its errors where these are larger, and G is its effective number
        of clusters.
        """
        check_confidence(self.confidence)
        check_resamples(self.n_resamples)
        self.model_ = replace(self.model).fit(battles)
        self.ratings_: Floats = self.model_.ratings_
        inside = battles.among(self.model_.ranked_)
        self.n_clusters_ = robust.n_clusters_ if robust else inside.n_clusters
        self.reason_: NoInterval | None = why_none(self.n_clusters_, inside.decisive)
        thetas = np.full((self.n_resamples, inside.n_candidates), np.nan)
        if self.reason_ is None:
            thetas = self._replicates(_Refit(inside, self.model_.theta_[self.model_.ranked_]))
        self.samples_: Floats = self.model_.spread(self.model_.elo(thetas))
        deviation = self.samples_ - self.ratings_
        steady = np.ptp(deviation, axis=0) < VANISHING_ELO  # an anchor, or clusters that all agree
        deviation[:, steady] = np.nan
        if self.reason_ is None and np.isnan(deviation).all():
            self.reason_ = NoInterval.NO_VARIATION
        if self.reason_ is None:
            deviation *= small_sample(self.n_clusters_)
            if robust is not None:
                spread = deviation.std(axis=0, ddof=1)
                deviation *= np.fmax(robust.standard_errors_ / spread, 1)
        factor = np.nan
        if self.reason_ is None:
            factor = t_quantile(self.confidence, self.n_clusters_) / normal_quantile(
                self.confidence
            )
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(deviation, [tail, 1 - tail], axis=0)
        self.low_: Floats = self.ratings_ + factor * low
        self.high_: Floats = self.ratings_ + factor * high
        self.standard_errors_: Floats = deviation.std(axis=0, ddof=1)
        return self

    def _replicates(self, refit: "_Refit") -> Floats:
        """(n_resamples, R) strengths, drawn in blocks, each with its own generator."""
        block = max(1, min(BLOCK, CELLS // refit.totals.shape[1]))
        sizes = [min(block, self.n_resamples - i) for i in range(0, self.n_resamples, block)]
        seeds = np.random.SeedSequence(self.random_state).spawn(len(sizes))
        with ThreadPoolExecutor(self.n_threads) as pool:
            return np.concatenate(list(pool.map(refit.draw, seeds, sizes)))


@dataclass(frozen=True, eq=False)
class _Part:
    """Successive ``pairs``, and the ``units`` with votes on them: all units if they are clusters.

    ``totals``: (L p, u), as `_outcomes_per_unit`. ``incidence``: (R, p),
    as `_incidence`; ``differences``: its transpose.
    """

    pairs: slice
    units: slice
    totals: csr_array
    incidence: csr_array
    differences: csr_array


class _Refit:
    """Draws replicates of battles and refits them, starting from the estimate ``theta``.

    Pairs are handled part by part, so that a part's arrays stay in the processor's cache.
    """

    def __init__(self, battles: Battles, theta: Floats) -> None:
        self.theta = theta
        self.pairs = battles.pairs
        self.shape = battles.count[:, None] if battles.cluster is None else None
        self.n_units = battles.n_clusters
        self.n_levels, self.totals = _outcomes_per_unit(battles)
        self.information = self.pairs.information(theta)
        self.inverse = pseudo_inverse(self.information)
        self.incidence = _incidence(self.pairs)
        self.differences = self.incidence.T.tocsr()
        self.parts = list(self._parts(battles))

    def _parts(self, battles: Battles) -> Iterator[_Part]:
        n_pairs, every = len(self.pairs.first), slice(None)
        of_unit = battles.pair_of_row
        in_order = battles.cluster is None and bool((np.diff(of_unit) >= 0).all())
        # Units are drawn in their order, so parts of them can be drawn only if pairs follow it.
        step = PART if in_order or battles.cluster is not None else max(n_pairs, 1)
        for start in range(0, n_pairs, step):
            pairs, units = slice(start, min(start + step, n_pairs)), every
            if in_order:
                units = slice(*np.searchsorted(of_unit, (pairs.start, pairs.stop)).tolist())
            rows = np.arange(self.n_levels * n_pairs).reshape(-1, n_pairs)[:, pairs].ravel()
            totals, incidence = self.totals[rows][:, units], self.incidence[:, pairs]
            yield _Part(pairs, units, totals, incidence, incidence.T.tocsr())

    def draw(self, seed: np.random.SeedSequence, size: int) -> Floats:
        """(size, R) strengths, one row per replicate."""
        generator = np.random.Generator(np.random.SFC64(seed))  # NumPy's fastest bit generator
        weight, score = self._weight_and_score(generator, size)
        theta, settled = self._approach(weight, score)
        if not settled.all():
            left = ~settled
            theta[:, left], settled[left] = self._newton(weight[:, left], score[:, left])
        for i in np.flatnonzero(~settled):
            replicate = replace(self.pairs, weight=weight[:, i], score=score[:, i])
            theta[:, i] = maximise(replicate, start=self.theta, tol=TOLERANCE)[0]
        centred: Floats = theta - theta.mean(axis=0)
        return centred.T

    def _weight_and_score(self, generator: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        """(P, B) the weight of each pair's votes, and ``first``'s score, in each replicate."""
        weight, score = np.empty((2, len(self.pairs.first), size))
        if self.shape is None:
            chance = generator.standard_exponential((self.n_units, size))
        for part in self.parts:
            if self.shape is not None:
                chance = _sums_of_weights(generator, self.shape[part.units], size)
            lost, *tied, won = (part.totals @ chance).reshape(self.n_levels, -1, size)
            for half in tied:
                half *= 0.5
                won += half
                lost += half
            score[part.pairs] = won
            np.add(lost, won, out=weight[part.pairs])
        return weight, score

    def _approach(self, weight: Floats, score: Floats) -> tuple[Floats, Bools]:
        """(R, B) strengths after steps with the fixed inverse, and (B,) whether each has converged.

        Such steps shrink at a constant rate, so the remaining distance after the last two is
        last * rate / (1 - rate) = last^2 / (previous - last).
        """
        theta = np.repeat(self.theta[:, None], weight.shape[1], axis=1)
        expected = self.pairs.win_probability(self.theta)[:, None]
        stretch = self._stretch(weight * (expected * (1 - expected)))
        last = np.full(weight.shape[1], np.inf)
        for _ in range(MAX_STEPS):
            gradient = np.zeros(theta.shape)  # observed minus expected scores
            for part in self.parts:
                residual = expected_score(part.differences @ theta)
                residual *= weight[part.pairs]
                np.subtract(score[part.pairs], residual, out=residual)
                gradient += part.incidence @ residual
            step = stretch * (self.inverse @ (stretch * gradient))
            theta += step
            previous, last = last, np.abs(step).max(axis=0)
            settled = _remaining(previous, last) <= TOLERANCE
            if settled.all() or _too_slow(previous, last, settled):
                break
        return theta, settled

    def _newton(self, weight: Floats, score: Floats) -> tuple[Floats, Bools]:
        """As `_approach`, by Newton steps; a step that overshoots leaves its replicate unsettled.

        A step squares the distance, so one of length s leaves about s^2 / 2, and what its inexact
        solution left.
        """
        theta = np.repeat(self.theta[:, None], weight.shape[1], axis=1)
        settled = np.zeros(weight.shape[1], np.bool_)
        open_ = np.arange(weight.shape[1])
        x, inexact = theta, np.full(len(open_), LEAST_EXACT)
        expected = expected_score(self.differences @ x)
        gradient = self.incidence @ (score - weight * expected)
        for _ in range(NEWTON_STEPS):
            curvature = weight * expected
            curvature *= 1 - expected
            step = self._solve(curvature, gradient, inexact)
            step /= np.maximum(1.0, np.abs(step).max(axis=0) / LONGEST_STEP)
            x = x + step
            slope = (gradient * step).sum(axis=0)
            expected = expected_score(self.differences @ x)
            gradient = self.incidence @ (score - weight * expected)
            length = np.abs(step).max(axis=0)
            done = length * np.maximum(length, inexact) <= TOLERANCE
            theta[:, open_] = x
            settled[open_[done]] = True
            on = ~done & ((gradient * step).sum(axis=0) >= -0.5 * slope)
            if not on.any():
                break
            open_, inexact = open_[on], np.clip(length[on], MOST_EXACT, LEAST_EXACT)
            if not on.all():
                weight, score, x = weight[:, on], score[:, on], x[:, on]
                expected, gradient = expected[:, on], gradient[:, on]
        return theta, settled

    def _solve(self, curvature: Floats, gradient: Floats, inexact: Floats) -> Floats:
        """(R, B): solutions of B systems by preconditioned conjugate gradients.

        The matrix is the information that the (P,) ``curvature`` of the pairs gives; the
        preconditioner is the fixed inverse, stretched. ``inexact``: (B,), the part of the residual
        that may remain, in the preconditioner's norm. Hestenes and Stiefel 1952.
        """
        solution, residual = np.zeros_like(gradient), gradient.copy()
        stretch = self._stretch(curvature)
        direction = stretch * (self.inverse @ (stretch * residual))
        size = first = (residual * direction).sum(axis=0)
        for _ in range(INNER_STEPS):
            bent = self.differences @ direction
            bent *= curvature
            ahead = self.incidence @ bent
            bend = (direction * ahead).sum(axis=0)
            length = np.divide(size, bend, out=np.zeros_like(size), where=bend > 0)
            solution += length * direction
            residual -= length * ahead
            towards = stretch * (self.inverse @ (stretch * residual))
            previous, size = size, (residual * towards).sum(axis=0)
            if (size <= inexact**2 * first).all():
                break
            keep = np.divide(size, previous, out=np.zeros_like(size), where=previous > 0)
            direction = towards + keep * direction
        return solution

    def _stretch(self, curvature: Floats) -> Floats:
        """(R, B): factors that rescale the fixed inverse to a replicate's own information."""
        information_of_each = abs(self.incidence) @ curvature
        stretch: Floats = np.sqrt(self.information.diagonal()[:, None] / information_of_each)
        return stretch


def _sums_of_weights(generator: np.random.Generator, count: Ints, size: int) -> Floats:
    """(U, size): for each unit the sum of its (U, 1) ``count`` exponential weights, in each draw.

    Such a sum is a gamma variable. A cube of a normal one (Wilson and Hilferty 1931) takes half the
    time; its mean is exact, its variance to 0.1 %, and no probability differs by 0.001.
    """
    is_many = count[:, 0] >= MANY
    few, many = count[~is_many], count[is_many]
    drawn = np.empty((len(count), size))
    drawn[~is_many] = generator.standard_gamma(few, (len(few), size))
    spread = (1 + 2 / (9 * many)) / (9 * many)  # the normal variable's, squared, for a mean of 1
    root = np.cbrt(many / (1 + 3 * spread))
    normal = generator.standard_normal((len(many), size))
    normal *= root * np.sqrt(spread)
    normal += root
    drawn[is_many] = normal * normal * normal
    return drawn


def _remaining(previous: Floats, last: Floats) -> Floats:
    """The remaining distance after two steps of these sizes; infinite if they do not shrink."""
    shrinking = (last < previous) & np.isfinite(previous)
    left = np.full(len(last), np.inf)
    left[shrinking] = last[shrinking] ** 2 / (previous - last)[shrinking]
    return left


def _too_slow(previous: Floats, last: Floats, settled: Bools) -> bool:
    """Whether most steps that have not settled shrink too slowly to settle in time."""
    if not np.isfinite(previous).all():
        return False
    rate = last / np.maximum(previous, 1e-300)
    slow = ~settled & (last * rate**MAX_STEPS > TOLERANCE)
    return bool(slow.sum() * 2 > len(slow))


def _outcomes_per_unit(battles: Battles) -> tuple[int, csr_array]:
    """(L P, U): per unit the weight of each pair's lost, tied and won votes, L = 3 blocks of rows.

    The units are those of `totals_per_unit`. Each vote is in one entry, where its weight and its
    score would be two. With soft verdicts L = 2: they are partly lost and partly won.
    """
    pair = battles.pair_of_row
    n_pairs, score, weight = len(battles.pairs.first), battles.score, battles.weight
    unit, n_units = np.arange(len(pair)), len(pair)
    if battles.cluster is not None:
        unit, n_units, weight = battles.cluster, battles.n_clusters, weight * battles.count
    if np.isin(score, HALVES).all():
        row, n_levels = (2 * score).astype(np.int64) * n_pairs + pair, 3
    else:
        row, n_levels = np.concatenate([pair, pair + n_pairs]), 2
        weight, unit = np.concatenate([weight * (1 - score), weight * score]), np.tile(unit, 2)
    return n_levels, csr_array((weight, (row, unit)), shape=(n_levels * n_pairs, n_units))


def _incidence(pairs: Pairs) -> csr_array:
    """(R, P): +1 if the candidate is first in the pair, -1 if it is second."""
    n_pairs = len(pairs.first)
    row = np.concatenate([pairs.first, pairs.second])
    column = np.tile(np.arange(n_pairs), 2)
    sign = np.repeat([1.0, -1.0], n_pairs)
    return csr_array((sign, (row, column)), shape=(pairs.n_candidates, n_pairs))


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
