"""Ranks, and rank intervals from the covariance of differences, not from overlapping intervals."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from ranking.stats.arrays import Bools, Floats, Ints
from ranking.stats.intervals import check_confidence, critical_value

DRAWS = 10_000  # the simultaneous level is exact to 0.2 percentage points (one standard error)
MOST_DRAWN = 400  # candidates; with more, the draws of all pairs would take seconds
BLOCK = 500  # draws whose differences are in memory at once, to fit the processor's cache


def ranks(ratings: Floats) -> Floats:
    """(K,) 1 + the number of higher ratings; NaN for the unranked."""
    above = (ratings[None, :] > ratings[:, None]).sum(axis=1)
    return np.where(np.isnan(ratings), np.nan, 1.0 + above)


def rank_intervals(
    theta: ArrayLike,
    covariance: ArrayLike,
    simultaneous: bool = False,
    confidence: float = 0.95,
    random_state: int = 0,
    n_clusters: int | None = None,
) -> tuple[Floats, Floats]:
    """The best and the worst possible rank (1 is the top) of each candidate.

    ``low = 1 + the number clearly above`` and ``high = K - the number clearly below``; clearly
    means that the difference exceeds a critical value times its standard error. For marginal
    ranges that is the normal quantile (1.96): each comparison errs in 5 %. For simultaneous
    ranges it is the quantile of the largest |difference| / error over all pairs (max-t, from
    seeded normal draws): all ranges hold jointly at this confidence, as a claim about "number
    one" requires. With ``n_clusters``, G, both quantiles are of Student's t with G - 1 degrees of
    freedom, because the errors are estimated from few clusters.

    Parameters
    ----------
    theta : (K,) strengths on any linear scale, NaN for the unranked
    covariance : (K, K) of theta on that scale, as `Sandwich.covariance_`
    random_state : seed of the draws; the same seed gives the same ranges
    n_clusters : clusters behind the covariance, at least 2; None for practically infinitely many

    Returns
    -------
    low, high : (K,) floats that are whole numbers; NaN for the unranked, and where the covariance
        is NaN

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
        # The draws are random; the value for all pairs must not fall below that for a single one.
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
    """The candidate that is clearly number one, or None.

    Its simultaneous rank interval is 1 to 1. If two candidates truly share the top, a leader is
    named with a probability of at most ``1 - confidence``. None if fewer than two are ranked, or if
    the covariance is unknown. Parameters as for `rank_intervals`.
    """
    _, worst = rank_intervals(theta, covariance, True, confidence, random_state, n_clusters)
    return leader_among(worst)


def leader_among(worst: Floats) -> int | None:
    """The clear number one, given the worst ranks of `clear_leader`'s simultaneous intervals."""
    if np.isfinite(worst).sum() < 2 or np.nanmin(worst) > 1:
        return None
    return int(np.nanargmin(worst))


def tiers(worst: ArrayLike) -> Ints:
    """(K,) the tier of each candidate, 1 is the top, from simultaneous rank intervals.

    A tier ends after the first m candidates if none of them could be ranked below m: each then has
    K - m candidates clearly below it. If all claims "clearly below" are true, these can only be the
    other K - m, even if some strengths are equal: the truly weakest of the first m has at most the
    candidates below it that are not among the first m, and it needs all K - m of them. So all
    statements "this tier is above that one" hold together at the confidence of the intervals, and
    no finer tiers follow from these.

    Parameters
    ----------
    worst : (K,) the worst possible ranks of `rank_intervals(simultaneous=True)`, in the order of
        falling strength; without NaN
    """
    reach = np.maximum.accumulate(np.asarray(worst, np.float64))
    ends = reach[:-1] <= np.arange(1, len(reach))
    return 1 + np.concatenate([np.zeros(min(len(reach), 1), np.int64), np.cumsum(ends)])


def check_estimate(
    theta: ArrayLike, covariance: ArrayLike, name: str = "covariance"
) -> tuple[Floats, Floats]:
    """Check and return (K,) and (K, K) float64; NaN is allowed, infinity is not."""
    strength, matrix = np.asarray(theta, np.float64), np.asarray(covariance, np.float64)
    if strength.ndim != 1 or np.isinf(strength).any():
        raise ValueError("theta must be one-dimensional and hold no infinity")
    if matrix.shape != (len(strength), len(strength)):
        raise ValueError(f"{name} must be of shape (K, K) for K of theta, not {matrix.shape}")
    if np.isinf(matrix).any():
        raise ValueError(f"{name} must hold no infinity")
    return strength, matrix


def _errors(covariance: Floats) -> Floats:
    """(K, K) standard errors of differences; infinite on the diagonal and where unknown."""
    variance = covariance.diagonal()
    square = variance[:, None] + variance[None, :] - 2 * covariance
    floor = 1e-12 * variance.max(initial=0.0)
    known = square > floor
    errors: Floats = np.sqrt(np.where(known, square, np.inf))
    return errors


def _largest(
    covariance: Floats, error: Floats, generator: np.random.Generator, n_clusters: int | None
) -> Floats:
    """(DRAWS,) maxima over pairs of |z_i - z_j| / error_ij, z normal with this covariance.

    Dividing z by sqrt(chi-square / (G - 1)) makes it multivariate t.
    """
    if len(error) > MOST_DRAWN:
        largest = _bound(len(error), generator)
    else:
        largest = _drawn(covariance, error, generator)
    if n_clusters is None:
        return largest.astype(np.float64)
    freedom = n_clusters - 1
    return largest / np.sqrt(generator.chisquare(freedom, DRAWS) / freedom)


def _drawn(covariance: Floats, error: Floats, generator: np.random.Generator) -> NDArray[Any]:
    """The maxima of actual draws.

    Computed in single precision, one candidate against all later ones at a time, to stay in the
    processor's cache.
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
    return largest


def _bound(n_candidates: int, generator: np.random.Generator) -> Floats:
    """Maxima as if all pairs were independent, which are never smaller (Sidak 1967)."""
    n_pairs = n_candidates * (n_candidates - 1) / 2
    beyond = -np.expm1(np.log(generator.random(DRAWS)) / n_pairs)
    largest: Floats = -ndtri(beyond / 2)
    return largest
