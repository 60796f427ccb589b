"""Two candidates side by side: how far apart, how sure, and how many more votes until it is told.

Everything stands on the variance of a difference, C_ii + C_jj - 2 C_ij, which two bars drawn side
by side do not show.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.columns import Floats, Ints
from ranking.stats.intervals import MIN_CLUSTERS, check_confidence, critical_value
from ranking.stats.pairs import expected_score
from ranking.stats.ranks import check_estimate

MOST_VOTES = 100_000  # beyond so many more votes for one pair, none will be told
BEYOND = 1e20  # stands for infinity
VANISHING = 1e-12  # part of the greatest variance; a difference's below it is rounding


class Lead(StrEnum):
    """What the votes say of two candidates."""

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
    Lead.AHEAD: "It is ahead by more than chance explains.",
    Lead.BEHIND: "It is behind by more than chance explains.",
    Lead.OPEN: "Which of the two is better is open: chance explains a difference like this.",
    Lead.FEW_CLUSTERS: f"Fewer than {MIN_CLUSTERS} independent groups of votes so far.",
    Lead.NO_VARIATION: "How far chance moves this difference cannot be measured.",
    Lead.NOT_COMPARABLE: "No chain of results leads both ways between the two.",
}


@dataclass(frozen=True)
class Difference:
    """How far i is ahead of j. Unknown numbers are NaN, and ``lead`` says why.

    ``elo`` with ``standard_error``, ``low`` and ``high``, in Elo; ``probability`` that i is
    preferred to j (a tie is half a preference) with ``probability_low`` and ``probability_high``.
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
    """Two that follow each other on a board.

    ``separated``: their difference exceeds the critical value of its standard errors; ``votes``:
    how many more votes between the two it would take, 0 for the separated, None where that cannot
    be told: they are level, their errors are unknown, or it takes more than the cap.
    """

    upper: int
    lower: int
    separated: bool
    votes: int | None

    @property
    def words(self) -> str:
        """For a page: "separated", "about 120 more votes" or why neither."""
        if self.separated:
            return "separated"
        if self.votes is None:
            return "cannot be told"
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
    """The difference between candidates i and j, with t intervals of G - 1 degrees of freedom.

    The probability is 1 / (1 + exp(theta_j - theta_i)), and its interval is that of the difference
    carried through the same curve, so the two always agree.

    Parameters
    ----------
    theta : (K,) natural log-odds, NaN for the unranked
    covariance : (K, K) of theta, as `Sandwich.covariance_`
    i, j : two different candidates
    n_clusters : G, clusters behind the covariance; None for as good as infinitely many
    scale : Elo points that stand for odds of 10 to 1

    Raises ValueError naming the argument that makes no sense.
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
    """For each two that follow each other on the board, from the top: separated, or votes to go.

    A vote between i and j adds w = p (1 - p) to the information along d = e_i - e_j, so n of them
    turn the variance v = d'Cd of votes taken as independent into v / (1 + n w v) (Sherman and
    Morrison 1950). The robust variance s^2 is taken to shrink alike: the design effect s^2 / v
    stays what it is. With the difference g held, |g| exceeds z standard errors from

        n = (z^2 s^2 / g^2 - 1) / (w v)

    on. It is a forecast: the difference will move, and votes on the same few prompts help less.

    Parameters
    ----------
    theta : (K,) natural log-odds, NaN for the unranked, who have no neighbours
    covariance : (K, K) of theta, robust, as `Sandwich.covariance_`
    independent : (K, K) of theta, votes taken as independent, as `BradleyTerry.covariance_`
    confidence : of z, which is 1.96 for 0.95
    n_clusters : G; when given, z is Student's t with G - 1 degrees of freedom
    most : above so many votes it cannot be told

    Raises ValueError naming the argument that makes no sense.
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
    told = zip(upper.tolist(), lower.tolist(), gap > reach, needed, strict=True)
    return [
        Neighbours(i, j, bool(apart), 0 if apart else math.ceil(n) if 0 <= n <= most else None)
        for i, j, apart, n in told
    ]


def _critical(confidence: float, n_clusters: int | None) -> float:
    """NaN where so few clusters measure no error."""
    few = n_clusters is not None and n_clusters < MIN_CLUSTERS
    return math.nan if few else critical_value(confidence, n_clusters)


def _divided(above: Floats, below: Floats) -> Floats:
    """A quotient, or BEYOND where it is beyond that or unknown."""
    within = above < BEYOND * below
    quotient: Floats = np.full(len(above), BEYOND)
    return np.divide(above, below, out=quotient, where=within)


def _variances(covariance: Floats, i: Ints, j: Ints) -> Floats:
    """Of theta_i - theta_j; NaN where there is none, or none but rounding."""
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
    """To two significant digits, upward: more would claim to know the future."""
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
