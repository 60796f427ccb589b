"""Ranks are intervals too: from the covariance of differences, not from overlapping bars."""

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.columns import Bools, Floats
from ranking.stats.intervals import check_confidence, normal_quantile

DRAWS = 10_000
BLOCK = 250  # draws whose differences are held at once


def rank_intervals(
    theta: ArrayLike,
    covariance: ArrayLike,
    simultaneous: bool = False,
    confidence: float = 0.95,
    random_state: int = 0,
) -> tuple[Floats, Floats]:
    """The best and the worst rank (1 is the top) that each candidate may hold.

    One better than i counts those surely above it, so ``low = 1 + #surely above`` and
    ``high = K - #surely below``; surely means that the difference exceeds a critical value of its
    standard errors. Marginal, that is the normal quantile (1.96): each comparison errs in 5 %.
    Simultaneous, it is the quantile of the largest |difference| / error over all pairs (max-t,
    from seeded normal draws): all intervals hold together with the confidence, which is what a
    claim about "number one" needs.

    Parameters
    ----------
    theta : (K,) strengths on any linear scale, NaN for the unranked
    covariance : (K, K) of theta on that scale, as `Sandwich.covariance_`

    Returns
    -------
    low, high : (K,) floats that are whole numbers; NaN for the unranked, and for all where the
        covariance is NaN

    Reference: Mogstad, Romano, Shaikh and Wilhelm 2024.
    """
    check_confidence(confidence)
    strength, matrix = np.asarray(theta, float), np.asarray(covariance, float)
    if matrix.shape != (len(strength), len(strength)):
        raise ValueError(f"covariance must be of shape (K, K) for K of theta, not {matrix.shape}")
    known: Bools = ~np.isnan(strength) & ~np.isnan(matrix.diagonal())
    low, high = np.full(len(strength), np.nan), np.full(len(strength), np.nan)
    inner = matrix[np.ix_(known, known)]
    error = _errors(inner)
    critical = normal_quantile(confidence)
    if simultaneous and known.sum() > 1:
        critical = _largest(inner, error, confidence, random_state)
    gap = strength[known][None, :] - strength[known][:, None]  # how far the column is ahead
    low[known] = 1 + (gap > critical * error).sum(axis=1)
    high[known] = known.sum() - (-gap > critical * error).sum(axis=1)
    return low, high


def _errors(covariance: Floats) -> Floats:
    """(K, K) standard errors of differences; infinite on the diagonal and where there is none."""
    variance = covariance.diagonal()
    square = variance[:, None] + variance[None, :] - 2 * covariance
    floor = 1e-12 * variance.max(initial=0.0)
    known = square > floor
    errors: Floats = np.sqrt(np.where(known, square, np.inf))
    return errors


def _largest(covariance: Floats, error: Floats, confidence: float, random_state: int) -> float:
    """The quantile of max over pairs of |z_i - z_j| / error_ij, z normal with this covariance."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(values.clip(min=0))
    generator = np.random.default_rng(random_state)
    first, second = np.triu_indices(len(covariance), 1)
    scale = 1 / error[first, second, None]
    largest = np.empty(DRAWS)
    for start in range(0, DRAWS, BLOCK):
        draw = root @ generator.standard_normal((len(root), BLOCK))
        largest[start : start + BLOCK] = (np.abs(draw[first] - draw[second]) * scale).max(axis=0)
    return float(np.quantile(largest, confidence))
