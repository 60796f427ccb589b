"""Ranks are intervals too: from the covariance of differences, not from overlapping bars."""

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.columns import Bools, Floats
from ranking.stats.intervals import check_confidence, critical_value

DRAWS = 10_000  # the chance of any error is met to 0.2 percentage points (one standard error)
BLOCK = 500  # draws whose differences are held at once, in the processor's cache


def rank_intervals(
    theta: ArrayLike,
    covariance: ArrayLike,
    simultaneous: bool = False,
    confidence: float = 0.95,
    random_state: int = 0,
    n_clusters: int | None = None,
) -> tuple[Floats, Floats]:
    """The best and the worst rank (1 is the top) that each candidate may hold.

    One better than i counts those surely above it, so ``low = 1 + #surely above`` and
    ``high = K - #surely below``; surely means that the difference exceeds a critical value of its
    standard errors. Marginal, that is the normal quantile (1.96): each comparison errs in 5 %.
    Simultaneous, it is the quantile of the largest |difference| / error over all pairs (max-t,
    from seeded normal draws): all intervals hold together with the confidence, which is what a
    claim about "number one" needs. With ``n_clusters``, G, both are of Student's t with G - 1
    degrees of freedom, for errors that were measured from so few clusters.

    Parameters
    ----------
    theta : (K,) strengths on any linear scale, NaN for the unranked
    covariance : (K, K) of theta on that scale, as `Sandwich.covariance_`
    random_state : seed of the draws; the same one gives the same intervals
    n_clusters : clusters behind the covariance, at least 2; None for as good as infinitely many

    Returns
    -------
    low, high : (K,) floats that are whole numbers; NaN for the unranked, and for all where the
        covariance is NaN

    Reference: Mogstad, Romano, Shaikh and Wilhelm 2024.
    """
    check_confidence(confidence)
    strength, matrix = check_estimate(theta, covariance)
    known: Bools = ~np.isnan(strength) & ~np.isnan(matrix.diagonal())
    low, high = np.full(len(strength), np.nan), np.full(len(strength), np.nan)
    inner = matrix[np.ix_(known, known)]
    error = _errors(inner)
    critical = critical_value(confidence, n_clusters)
    if simultaneous and known.sum() > 1:
        largest = _largest(inner, error, np.random.default_rng(random_state), n_clusters)
        # The draws have an error of their own; no claim about all pairs is weaker than about one.
        critical = max(critical, float(np.quantile(largest, confidence)))
    gap = strength[known][None, :] - strength[known][:, None]  # how far the column is ahead
    low[known] = 1 + (gap > critical * error).sum(axis=1)
    high[known] = known.sum() - (-gap > critical * error).sum(axis=1)
    return low, high


def clear_leader(
    theta: ArrayLike,
    covariance: ArrayLike,
    confidence: float = 0.95,
    random_state: int = 0,
    n_clusters: int | None = None,
) -> int | None:
    """The candidate that is number one beyond reasonable doubt, or None.

    It is the one whose simultaneous rank interval is 1 to 1. When two share the top in truth, some
    leader is named with a chance of at most ``1 - confidence``. Nobody leads where fewer than two
    are ranked, or where the covariance is not known. Parameters as for `rank_intervals`.
    """
    _, worst = rank_intervals(theta, covariance, True, confidence, random_state, n_clusters)
    if np.isfinite(worst).sum() < 2 or np.nanmin(worst) > 1:
        return None
    return int(np.nanargmin(worst))


def check_estimate(
    theta: ArrayLike, covariance: ArrayLike, name: str = "covariance"
) -> tuple[Floats, Floats]:
    """(K,) and (K, K) float64; NaN is allowed, infinity and other shapes are not."""
    strength, matrix = np.asarray(theta, np.float64), np.asarray(covariance, np.float64)
    if strength.ndim != 1 or np.isinf(strength).any():
        raise ValueError("theta must be one-dimensional and hold no infinity")
    if matrix.shape != (len(strength), len(strength)):
        raise ValueError(f"{name} must be of shape (K, K) for K of theta, not {matrix.shape}")
    if np.isinf(matrix).any():
        raise ValueError(f"{name} must hold no infinity")
    return strength, matrix


def _errors(covariance: Floats) -> Floats:
    """(K, K) standard errors of differences; infinite on the diagonal and where there is none."""
    variance = covariance.diagonal()
    square = variance[:, None] + variance[None, :] - 2 * covariance
    floor = 1e-12 * variance.max(initial=0.0)
    known = square > floor
    errors: Floats = np.sqrt(np.where(known, square, np.inf))
    return errors


def _largest(
    covariance: Floats, error: Floats, generator: np.random.Generator, n_clusters: int | None
) -> Floats:
    """(DRAWS,) of max over pairs of |z_i - z_j| / error_ij, z normal with this covariance.

    In single precision, one candidate against all later ones at a time: what is compared stays in
    the processor's cache. Divided by the root of chi-square / (G - 1), z is multivariate t.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(values.clip(min=0))).astype(np.float32)
    scale = (1 / error).astype(np.float32)
    largest = np.zeros(DRAWS, np.float32)
    for start in range(0, DRAWS, BLOCK):
        draw = root @ generator.standard_normal((len(root), BLOCK), np.float32)
        block = largest[start : start + BLOCK]
        for i in range(len(root) - 1):
            apart = draw[i + 1 :] - draw[i]
            apart *= scale[i, i + 1 :, None]
            np.maximum(block, np.abs(apart, out=apart).max(axis=0), out=block)
    if n_clusters is None:
        return largest.astype(np.float64)
    freedom = n_clusters - 1
    return largest / np.sqrt(generator.chisquare(freedom, DRAWS) / freedom)
