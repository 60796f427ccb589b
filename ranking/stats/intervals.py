"""Common parts of all intervals: reasons for having none, and corrections for few clusters."""

import math
from enum import StrEnum

import numpy as np
from scipy.special import ndtri, stdtrit

from ranking.stats.arrays import Bools, Floats
from ranking.stats.battles import Battles

MIN_CLUSTERS = 5


class NoInterval(StrEnum):
    """Why a board has scores but no intervals."""

    NOTHING_RANKED = "nothing_ranked"
    NO_DECISIVE_VOTE = "no_decisive_vote"
    FEW_CLUSTERS = "few_clusters"
    NO_VARIATION = "no_variation"

    @property
    def reason(self) -> str:
        """One sentence for a page."""
        return _REASONS[self]


_REASONS = {
    NoInterval.NOTHING_RANKED: "No two candidates are comparable yet.",
    NoInterval.NO_DECISIVE_VOTE: "Every vote so far is a tie.",
    NoInterval.FEW_CLUSTERS: f"Fewer than {MIN_CLUSTERS} independent groups of votes so far.",
    NoInterval.NO_VARIATION: "All groups of votes agree exactly, so the uncertainty is unknown.",
}


def why_none(n_clusters: int, decisive: bool) -> NoInterval | None:
    """Why there is no interval with this many clusters; None if there is one."""
    if not n_clusters:
        return NoInterval.NOTHING_RANKED
    if not decisive:
        return NoInterval.NO_DECISIVE_VOTE
    return NoInterval.FEW_CLUSTERS if n_clusters < MIN_CLUSTERS else None


def measurable(battles: Battles) -> Bools:
    """(K,) mask: the candidates with votes in enough clusters to estimate their error.

    With few clusters the estimate is too small: a single vote with the expected outcome leaves no
    residual at all.
    """
    enough: Bools = battles.clusters_per_candidate() >= MIN_CLUSTERS
    return enough


def known_among(covariance: Floats, known: Bools) -> Floats:
    """(K, K): the covariance, NaN for candidates that are not `known` (K,)."""
    masked: Floats = np.where(known[:, None] & known, covariance, np.nan)
    return masked


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless the confidence is strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")


def check_resamples(n_resamples: int) -> None:
    """Raise ValueError for too few replicates to compute a quantile."""
    if n_resamples < 2:
        raise ValueError(f"n_resamples must be at least 2, not {n_resamples}")


def small_sample(n_clusters: int) -> float:
    """sqrt(G / (G - 1)): a standard error from G clusters is too small by this factor."""
    return math.sqrt(n_clusters / (n_clusters - 1))


def t_quantile(confidence: float, n_clusters: int) -> float:
    """The two-sided quantile of Student's t with G - 1 degrees of freedom."""
    return float(stdtrit(n_clusters - 1, (1 + confidence) / 2))


def normal_quantile(confidence: float) -> float:
    """The two-sided normal quantile: 1.96 for 0.95."""
    return float(ndtri((1 + confidence) / 2))


def critical_value(confidence: float, n_clusters: int | None) -> float:
    """The half-width of an interval in standard errors: t for G clusters, normal for None.

    Raises ValueError for fewer than two clusters, which leave no degree of freedom.
    """
    if n_clusters is None:
        return normal_quantile(confidence)
    if n_clusters < 2:
        raise ValueError(f"n_clusters must be at least 2, not {n_clusters}")
    return t_quantile(confidence, n_clusters)


def widening(confidence: float, n_clusters: int) -> float:
    """The factor for a bootstrap's deviations: both corrections for few clusters."""
    ratio = t_quantile(confidence, n_clusters) / normal_quantile(confidence)
    return small_sample(n_clusters) * ratio
