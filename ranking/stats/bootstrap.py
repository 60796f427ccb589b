"""The cluster bootstrap of Bradley-Terry ratings.

Each replicate gives every cluster an exponential weight (Rubin 1981), so no replicate loses a
candidate or splits the graph. ``count`` equal votes of their own cluster each together get a gamma
weight of that shape. A replicate is refitted from the estimate by steps with one fixed inverse
information, bent to each candidate's own share of the weights; where these do not contract, by
Newton.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_array

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.clustering import totals_per_unit
from ranking.stats.columns import Bools, Floats
from ranking.stats.intervals import (
    NoInterval,
    check_confidence,
    check_resamples,
    small_sample,
    why_none_for,
    widening,
)
from ranking.stats.newton import maximise, pseudo_inverse
from ranking.stats.pairs import Pairs, expected_score

BLOCK = 50  # replicates refitted together at most; part of what a seed means
CELLS = 4_000_000  # weights drawn at once at most, 32 MB
MAX_STEPS = 16
TOLERANCE = 1e-6  # of theta, 0.0002 Elo: what may remain between a replicate and its maximum
VANISHING = 1e-9  # Elo; a spread below it is rounding, not precision


@dataclass(eq=False)
class Bootstrap:
    """Intervals for Bradley-Terry ratings by resampling clusters of votes.

    Parameters
    ----------
    n_resamples : replicates, at least 2
    confidence : of the intervals
    random_state : seed; the same seed and battles give the same numbers, on any ``n_threads``
    model : the `BradleyTerry` to fit; its hyperparameters are used, it is not changed
    n_threads : replicates are drawn and refitted by so many threads

    Attributes (K candidates; NaN for the unranked)
    ----------
    model_ : the fitted model
    ratings_ : (K,) Elo
    samples_ : (n_resamples, K) Elo, as drawn
    standard_errors_ : (K,) Elo, the samples' deviation times sqrt(G / (G - 1))
    low_, high_ : (K,) Elo: quantiles of the deviations from the rating, widened by
        sqrt(G / (G - 1)) and by the t(G - 1) over the normal quantile
    n_clusters_ : G, between ranked candidates
    reason_ : `NoInterval` or None; when set, low_, high_ and standard_errors_ are all NaN
    """

    n_resamples: int = 1000
    confidence: float = 0.95
    random_state: int = 0
    model: BradleyTerry = field(default_factory=BradleyTerry)
    n_threads: int = 1

    def fit(self, battles: Battles) -> "Bootstrap":
        """Fit the model and its replicates. Raises as `BradleyTerry.fit` does, and ValueError."""
        check_confidence(self.confidence)
        check_resamples(self.n_resamples)
        self.model_ = replace(self.model).fit(battles)
        self.ratings_: Floats = self.model_.ratings_
        inside = battles.among(self.model_.ranked_)
        self.n_clusters_ = inside.n_clusters
        self.reason_: NoInterval | None = why_none_for(inside)
        thetas = np.full((self.n_resamples, inside.n_candidates), np.nan)
        if self.reason_ is None:
            thetas = self._replicates(_Refit(inside, self.model_.theta_[self.model_.ranked_]))
        self.samples_: Floats = self.model_.spread(self.model_.elo(thetas))
        self._measure()
        return self

    def _replicates(self, refit: "_Refit") -> Floats:
        """(n_resamples, R) strengths, drawn in blocks with a generator of their own each."""
        block = max(1, min(BLOCK, CELLS // refit.weight.shape[1]))
        sizes = [min(block, self.n_resamples - i) for i in range(0, self.n_resamples, block)]
        seeds = np.random.SeedSequence(self.random_state).spawn(len(sizes))
        with ThreadPoolExecutor(self.n_threads) as pool:
            return np.concatenate(list(pool.map(refit.draw, seeds, sizes)))

    def _measure(self) -> None:
        deviation = self.samples_ - self.ratings_
        steady = np.ptp(deviation, axis=0) < VANISHING  # an anchor; or clusters that all agree
        deviation[:, steady] = np.nan
        if self.reason_ is None and np.isnan(deviation).all():
            self.reason_ = NoInterval.NO_VARIATION
        few = self.n_clusters_ if self.reason_ is None else 0
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(deviation, [tail, 1 - tail], axis=0)
        factor = widening(self.confidence, few) if few else np.nan
        self.low_: Floats = self.ratings_ + factor * low
        self.high_: Floats = self.ratings_ + factor * high
        spread = deviation.std(axis=0, ddof=1)
        self.standard_errors_: Floats = spread * (small_sample(few) if few else np.nan)


class _Refit:
    """Draws replicates of battles and refits them, starting from the estimate ``theta``."""

    def __init__(self, battles: Battles, theta: Floats) -> None:
        self.theta = theta
        self.pairs = battles.pairs
        self.shape = battles.count[:, None] if battles.cluster is None else None
        self.n_units = battles.n_clusters
        self.weight, self.score = totals_per_unit(battles)
        self.information = self.pairs.information(theta)
        self.inverse = pseudo_inverse(self.information)
        self.incidence = _incidence(self.pairs)

    def draw(self, seed: np.random.SeedSequence, size: int) -> Floats:
        """(size, R) strengths of as many replicates."""
        generator = np.random.Generator(np.random.SFC64(seed))  # the fastest that NumPy has
        if self.shape is None:
            chance = generator.standard_exponential((self.n_units, size))
        else:
            chance = generator.standard_gamma(self.shape, (len(self.shape), size))
        weight, score = self.weight @ chance, self.score @ chance
        theta, settled = self._approach(weight, score)
        for i in np.flatnonzero(~settled):
            replicate = replace(self.pairs, weight=weight[:, i], score=score[:, i])
            theta[:, i] = maximise(replicate, start=self.theta, tol=TOLERANCE)[0]
        centred: Floats = theta - theta.mean(axis=0)
        return centred.T

    def _approach(self, weight: Floats, score: Floats) -> tuple[Floats, Bools]:
        """(R, B) strengths after steps with the fixed inverse, and which are within TOLERANCE.

        The steps of such an iteration shrink by a constant rate; with the last two known, what
        remains is last * rate / (1 - rate) = last^2 / (previous - last).
        """
        theta = np.repeat(self.theta[:, None], weight.shape[1], axis=1)
        expected = self.pairs.win_probability(self.theta)[:, None]
        stretch = self._stretch(weight)
        last = np.full(weight.shape[1], np.inf)
        for _ in range(MAX_STEPS):
            residual = weight * expected
            np.subtract(score, residual, out=residual)
            gradient = self.incidence @ residual
            step = stretch * (self.inverse @ (stretch * gradient))
            theta += step
            previous, last = last, np.abs(step).max(axis=0)
            settled = _remaining(previous, last) <= TOLERANCE
            if settled.all():
                break
            expected = expected_score(self.incidence.T @ theta)
        return theta, settled

    def _stretch(self, weight: Floats) -> Floats:
        """(R, B): how the fixed inverse is bent to a replicate's own information per candidate."""
        p = self.pairs.win_probability(self.theta)[:, None]
        own = abs(self.incidence) @ (weight * (p * (1 - p)))
        stretch: Floats = np.sqrt(self.information.diagonal()[:, None] / own)
        return stretch


def _remaining(previous: Floats, last: Floats) -> Floats:
    """What is left to go after two steps of these sizes; infinite where it cannot be told."""
    shrinking = (last < previous) & np.isfinite(previous)
    left = np.full(len(last), np.inf)
    left[shrinking] = last[shrinking] ** 2 / (previous - last)[shrinking]
    return left


def _incidence(pairs: Pairs) -> csr_array:
    """(R, P): +1 where the candidate is first of the pair, -1 where it is second."""
    n_pairs = len(pairs.first)
    row = np.concatenate([pairs.first, pairs.second])
    column = np.tile(np.arange(n_pairs), 2)
    sign = np.repeat([1.0, -1.0], n_pairs)
    return csr_array((sign, (row, column)), shape=(pairs.n_candidates, n_pairs))
