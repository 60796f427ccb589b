"""Differences of two candidates: size, uncertainty, and votes needed for a clear lead.

All of these depend on the variance of a difference, C_ii + C_jj - 2 C_ij, which two separate
intervals do not show.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.arrays import Floats, Ints, check_estimate
from ranking.stats.battles import expected_score
from ranking.stats.intervals import MIN_CLUSTERS, check_confidence, critical_value

MOST_VOTES = 100_000  # larger forecasts for one pair are not given
BEYOND = 1e20  # stands for infinity
VANISHING = 1e-12  # part of the larger variance; a smaller variance of a difference is rounding


class Lead(StrEnum):
    """What the votes say about two candidates."""

    AHEAD = "ahead"
    BEHIND = "behind"
    OPEN = "open"
    FEW_CLUSTERS = "few_clusters"
    NO_VARIATION = "no_variation"
    NOT_COMPARABLE = "not_comparable"

    @property
    def reason(self) -> str:
        """One sentence for a page, about the first of the two."""
        return _REASONS[self]


_REASONS = {
    Lead.AHEAD: "It is clearly ahead.",
    Lead.BEHIND: "It is clearly behind.",
    Lead.OPEN: "The two are too close to call.",
    Lead.FEW_CLUSTERS: f"Fewer than {MIN_CLUSTERS} independent groups of votes so far.",
    Lead.NO_VARIATION: "The votes do not vary enough to measure the uncertainty.",
    Lead.NOT_COMPARABLE: "No chain of results connects the two in both directions.",
}


@dataclass(frozen=True)
class Difference:
    """How far i is ahead of j. Unknown numbers are NaN, and ``lead`` says why.

    Attributes
    ----------
    elo, standard_error, low, high : in Elo
    probability, probability_low, probability_high : that i is preferred to j; a tie is half a
        preference
    lead : `Lead`
    """

    elo: float
    standard_error: float
    low: float
    high: float
    probability: float
    probability_low: float
    probability_high: float
    lead: Lead


@dataclass(frozen=True)
class Neighbours:
    """Two candidates adjacent on a board.

    Attributes
    ----------
    upper, lower : candidates
    separated : whether their difference exceeds the critical value times its standard error
    votes : forecast of the further votes between the two until it does; 0 if it does, None if
        there is no forecast: they are level, their errors are unknown, or it exceeds the cap
    """

    upper: int
    lower: int
    separated: bool
    votes: int | None

    @property
    def words(self) -> str:
        """For a page: "clear lead", "about 120 more votes" or "too close to call"."""
        if self.separated:
            return "clear lead"
        if self.votes is None:
            return "too close to call"
        return f"about {rounded_up(self.votes):,} more vote{'s' if self.votes > 1 else ''}"


def compare(
    theta: ArrayLike,
    covariance: ArrayLike,
    i: int,
    j: int,
    confidence: float = 0.95,
    n_clusters: int | None = None,
    scale: float = 400.0,
) -> Difference:
    """The difference of candidates i and j, with t intervals of G - 1 degrees of freedom.

    The probability is 1 / (1 + exp(theta_j - theta_i)). Its interval is the interval of the
    difference under the same transformation, so the two always agree.

    Parameters
    ----------
    theta : (K,) natural log-odds, NaN for the unranked
    covariance : (K, K) of theta, as `Sandwich.covariance_`
    i, j : two different candidates
    n_clusters : G, clusters behind the covariance; None for practically infinitely many
    scale : Elo points for odds of 10 to 1

    Raises ValueError naming the invalid argument.
    """
    strength, matrix = _check(theta, covariance, confidence, scale)
    _check_pair(i, j, len(strength))
    gap = float(strength[i] - strength[j])
    critical = _critical(confidence, n_clusters)
    error = math.sqrt(_variances(matrix, np.array([i]), np.array([j]))[0])
    error = math.nan if math.isnan(critical) else error
    reach = critical * error
    lead = _lead(gap, reach, critical)
    ends = np.array([gap, gap - reach, gap + reach])
    elo, low, high = (ends * scale / math.log(10)).tolist()
    chance, least, greatest = expected_score(ends).tolist()
    error *= scale / math.log(10)
    return Difference(elo, error, low, high, chance, least, greatest, lead)


def neighbours(
    theta: ArrayLike,
    covariance: ArrayLike,
    independent: ArrayLike,
    confidence: float = 0.95,
    n_clusters: int | None = None,
    most: int = MOST_VOTES,
) -> list[Neighbours]:
    """Adjacent candidates, from the top: separated, or how many more votes would separate them.

    A vote between i and j adds w = p (1 - p) to the information along d = e_i - e_j, so n of them
    turn the variance v = d'Cd of independent votes into v / (1 + n w v) (Sherman and Morrison
    1950). The robust variance s^2 is assumed to shrink alike, with a constant design effect
    s^2 / v. If the difference g does not change, |g| exceeds z standard errors after

        n = (z^2 s^2 / g^2 - 1) / (w v)

    more votes. This is a forecast: g will change, and votes on the same few prompts help less.

    Parameters
    ----------
    theta : (K,) natural log-odds, NaN for the unranked, who have no neighbours
    covariance : (K, K) of theta, robust, as `Sandwich.covariance_`
    independent : (K, K) of theta, as if votes were independent, as `BradleyTerry.covariance_`
    confidence : determines z, which is 1.96 for 0.95
    n_clusters : G; if given, z is Student's t with G - 1 degrees of freedom
    most : the largest forecast to give

    Raises ValueError naming the invalid argument.
    """
    strength, robust = _check(theta, covariance, confidence)
    naive = check_estimate(theta, independent, "independent")[1]
    if most < 0:
        raise ValueError(f"most must be 0 or more, not {most}")
    order = np.argsort(-strength, kind="stable")[: np.count_nonzero(~np.isnan(strength))]
    upper, lower = order[:-1], order[1:]
    gap = strength[upper] - strength[lower]
    reach = _critical(confidence, n_clusters) * np.sqrt(_variances(robust, upper, lower))
    p = expected_score(gap)
    gained = p * (1 - p) * _variances(naive, upper, lower)  # by the first vote: w v
    excess = _divided(reach, gap) ** 2 - 1
    needed = _divided(excess, gained)
    rows = zip(upper.tolist(), lower.tolist(), gap > reach, needed, strict=True)
    return [
        Neighbours(
            i, j, bool(separated), 0 if separated else math.ceil(n) if 0 <= n <= most else None
        )
        for i, j, separated, n in rows
    ]


def _critical(confidence: float, n_clusters: int | None) -> float:
    """The critical value; NaN if there are too few clusters to measure an error."""
    few = n_clusters is not None and n_clusters < MIN_CLUSTERS
    return math.nan if few else critical_value(confidence, n_clusters)


def _divided(above: Floats, below: Floats) -> Floats:
    """The quotient, or BEYOND if it is larger or unknown."""
    within = above < BEYOND * below
    quotient: Floats = np.full(len(above), BEYOND)
    return np.divide(above, below, out=quotient, where=within)


def _variances(covariance: Floats, i: Ints, j: Ints) -> Floats:
    """The variance of theta_i - theta_j; NaN if it is unknown or only a rounding error."""
    own, other = covariance[i, i], covariance[j, j]
    variance = own + other - 2 * covariance[i, j]
    with np.errstate(invalid="ignore"):
        known = variance > VANISHING * np.maximum(own, other)
    return np.where(known, variance, np.nan)


def _lead(gap: float, reach: float, critical: float) -> Lead:
    if math.isnan(gap):
        return Lead.NOT_COMPARABLE
    if math.isnan(reach):
        return Lead.FEW_CLUSTERS if math.isnan(critical) else Lead.NO_VARIATION
    if abs(gap) <= reach:
        return Lead.OPEN
    return Lead.AHEAD if gap > 0 else Lead.BEHIND


def rounded_up(votes: int) -> int:
    """Round up to two significant digits; more would suggest false precision."""
    unit = int(10 ** max(0, len(str(votes)) - 2))
    return -(-votes // unit) * unit


def _check(
    theta: ArrayLike, covariance: ArrayLike, confidence: float, scale: float = 400.0
) -> tuple[Floats, Floats]:
    check_confidence(confidence)
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive number, not {scale}")
    return check_estimate(theta, covariance)


def _check_pair(i: int, j: int, size: int) -> None:
    for name, index in (("i", i), ("j", j)):
        if not 0 <= index < size:
            raise ValueError(f"{name} must be from 0 to {size - 1}, not {index}")
    if i == j:
        raise ValueError(f"i and j must be different candidates, not both {i}")
