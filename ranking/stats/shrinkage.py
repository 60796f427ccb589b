"""Scores shrunk towards the average: finite for all candidates with votes, even those that never
lost or won.

Empirical Bayes. Strengths are assumed to be normal around 0 with a deviation estimated from the
votes:

    theta ~ N(0, tau^2),    log posterior = sum over pairs l_ij(theta) / d_ij - |theta|^2 / 2 tau^2

with l_ij the Bradley-Terry log-likelihood of a pair's votes. Votes are dependent, so the working
likelihood divides it by d_ij = sqrt(d_i d_j), with d_i the design effect: how many times the
clustered variance of a candidate's score is that of independent votes. tau maximises the marginal
likelihood by Laplace's approximation, times a weak hyperprior: log tau is normal around 150 Elo
with a deviation of 1. With fewer than five candidates it is 150 Elo, because they say little about
it.

References: Efron and Morris 1973 for empirical Bayes; Kish 1965 for design effects; Tierney and
Kadane 1986 for the approximation; Whelan 2017 for normal priors of Bradley-Terry strengths.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize_scalar
from scipy.special import expit

from ranking.stats.arrays import Floats
from ranking.stats.battles import Battles, Pairs
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError
from ranking.stats.intervals import Sandwich, check_confidence, normal_quantile

TYPICAL = 150.0  # Elo, the deviation of strengths if votes say nothing about it
FEWEST = 5  # candidates; fewer say too little about it
SPAN = 30.0  # the deviation is sought from a 30th to 30 times the typical one
CLOSE = 0.01  # of log tau, the tolerance of the search
TOLERANCE = 1e-9  # of theta
MAX_STEPS = 200


def design_effects(robust: Sandwich) -> Floats:
    """(K,) how many times the variance of a score is that of independent votes, at least 1.

    NaN where it is unknown.
    """
    robust_ones, independent = robust.covariance_.diagonal(), robust.model_.covariance_.diagonal()
    with np.errstate(invalid="ignore", divide="ignore"):
        effects: Floats = np.where(independent > 0, robust_ones / independent, np.nan)
    return np.where(effects < 1, 1.0, effects)


@dataclass(eq=False)
class Shrinkage:
    """Shrunk scores of K candidates.

    Parameters
    ----------
    confidence : of the intervals, which are those of the normal approximation of the posterior
    deviation : tau in Elo, or None to estimate it

    Attributes
    ----------
    deviation_ : tau, Elo
    ratings_, low_, high_ : (K,) Elo; the mean of those with votes is 1000; NaN without votes
    theta_ : (K,) natural log-odds
    """

    confidence: float = 0.95
    deviation: float | None = None

    def fit(self, battles: Battles, effects: Floats | None = None) -> "Shrinkage":
        """Shrink the scores of these votes. Raises NotConvergedError.

        ``effects``: (K,) `design_effects`; one that is unknown is the mean of the others, or 1.
        """
        check_confidence(self.confidence)
        voted = battles.votes_per_candidate() > 0
        model = BradleyTerry()
        unit, size = model.elo_per_theta, int(voted.sum())
        pairs = _discount_pairs(
            battles.among(voted).pairs, _fill_effects(effects, len(voted))[voted]
        )
        self.deviation_ = self.deviation or TYPICAL
        if size >= FEWEST and self.deviation is None:
            self.deviation_ = _likeliest_deviation(pairs, TYPICAL / unit) * unit
        theta, factor = _posterior(pairs, self.deviation_ / unit, np.zeros(size))
        variance = cho_solve(factor, np.eye(size)).diagonal() if size else np.zeros(0)
        variance = variance - (self.deviation_ / unit) ** 2 / max(size, 1)  # of all, with mean 0
        reach = normal_quantile(self.confidence) * np.sqrt(variance) * unit
        self.theta_: Floats = np.full(len(voted), np.nan)
        self.theta_[voted] = theta
        self.ratings_: Floats = model.center + self.theta_ * unit
        spread = np.full(len(voted), np.nan)
        spread[voted] = reach
        self.low_: Floats = self.ratings_ - spread
        self.high_: Floats = self.ratings_ + spread
        return self


def _fill_effects(effects: Floats | None, size: int) -> Floats:
    if effects is None or np.isnan(effects).all():
        return np.ones(size)
    return np.where(np.isnan(effects), np.nanmean(effects), effects)


def _discount_pairs(pairs: Pairs, effects: Floats) -> Pairs:
    effect = np.sqrt(effects[pairs.first] * effects[pairs.second])
    return replace(pairs, weight=pairs.weight / effect, score=pairs.score / effect)


def _likeliest_deviation(pairs: Pairs, typical: float) -> float:
    """The tau that maximises the marginal likelihood and the hyperprior."""
    start = np.zeros(pairs.n_candidates)

    def surplus(log_ratio: float) -> float:
        nonlocal start
        tau = typical * math.exp(log_ratio)
        start, factor = _posterior(pairs, tau, start)
        volume = 2 * float(np.log(factor[0].diagonal()).sum())
        inside = pairs.log_likelihood(start) - float(start @ start) / (2 * tau**2)
        marginal = inside - pairs.n_candidates * math.log(tau) - volume / 2
        return log_ratio**2 / 2 - marginal

    bounds = (-math.log(SPAN), math.log(SPAN))
    minimum = minimize_scalar(surplus, bounds=bounds, method="bounded", options={"xatol": CLOSE})
    return typical * math.exp(float(minimum.x))


def _posterior(pairs: Pairs, tau: float, start: Floats) -> tuple[Floats, tuple[Floats, bool]]:
    """(K,) where the posterior is largest, and the Cholesky factor of its curvature there."""
    theta, ridge = start, 1 / tau**2
    for _ in range(MAX_STEPS):
        curvature = pairs.information(theta)
        curvature[np.diag_indices_from(curvature)] += ridge
        factor = cho_factor(curvature, lower=True, check_finite=False)
        gradient = pairs.gradient(theta) - ridge * theta
        step: Floats = cho_solve(factor, gradient, check_finite=False)
        if np.abs(step).max(initial=0) < TOLERANCE:
            return theta + step, factor
        theta = theta + _shorten_step(pairs, theta, step, ridge, float(gradient @ step))
    raise NotConvergedError(f"no shrunk scores found in {MAX_STEPS} Newton steps")


def _shorten_step(pairs: Pairs, theta: Floats, step: Floats, ridge: float, slope: float) -> Floats:
    """The step, halved until it does not overshoot the maximum by much."""
    for _ in range(60):
        ahead = theta + step
        if (pairs.gradient(ahead) - ridge * ahead) @ step >= -0.5 * slope:
            break
        step, slope = step / 2, slope / 2
    return step


STEPS, CLOSE, LONGEST = 60, 1e-10, 2.0


def ridge_logistic(
    design: ArrayLike, successes: ArrayLike, trials: ArrayLike, ridge: ArrayLike
) -> list[float]:
    """Return the coefficients of a logistic regression, each drawn towards 0 by its own ridge.

    ``design``: (n, k); ``successes`` of ``trials``: (n,); ``ridge``: (k,), each above 0, the
    inverse variance of a normal prior. The maximum of the penalised likelihood (le Cessie and van
    Houwelingen, 1992, Applied Statistics 41) by Newton's method: it is strictly concave, so there
    is one. Raises ValueError if a ridge is not above 0.
    """
    rows, penalty = np.asarray(design, float), np.asarray(ridge, float)
    won, n = np.asarray(successes, float), np.asarray(trials, float)
    if not np.all(penalty > 0):
        raise ValueError("Each ridge must be above 0.")
    coefficients = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        share = expit(rows @ coefficients)
        gradient = rows.T @ (won - n * share) - penalty * coefficients
        curvature = (rows.T * (n * share * (1 - share))) @ rows + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(step).max())
        # A shorter step keeps Newton's method from overshooting where the likelihood is flat.
        coefficients += step * min(1.0, LONGEST / max(longest, CLOSE))
        if longest < CLOSE:
            break
    return [float(coefficient) for coefficient in coefficients]
