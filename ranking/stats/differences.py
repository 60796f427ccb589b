"""Differences of two candidates: size, uncertainty, and votes needed for a clear lead.

All of these depend on the variance of a difference, C_ii + C_jj - 2 C_ij, which two separate
intervals do not show.

A 95 % interval errs in 5 % of cases if it is checked once. Checking after every few votes, and
stopping at the first interval that excludes 0, errs far more often. The sequential tests here may
be checked after every vote.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ranking.stats.arrays import Bools, Floats, Ints, check_estimate
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
    strength, matrix = _check_scores(theta, covariance, confidence, scale)
    size = len(strength)
    for name, index in (("i", i), ("j", j)):
        if not 0 <= index < size:
            raise ValueError(f"{name} must be from 0 to {size - 1}, not {index}")
    if i == j:
        raise ValueError(f"i and j must be different candidates, not both {i}")
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
    direct: Bools | None = None,
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
    direct : (K, K) who is better by the votes between just the two. If these reverse the order, the
        two are not separated, and there is no forecast

    Raises ValueError naming the invalid argument.
    """
    strength, robust = _check_scores(theta, covariance, confidence)
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
    separated = gap > reach
    if direct is not None:
        separated &= ~direct[lower, upper]
        needed[direct[lower, upper]] = BEYOND
    rows = zip(upper.tolist(), lower.tolist(), separated, needed, strict=True)
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
    first, other = covariance[i, i], covariance[j, j]
    variance = first + other - 2 * covariance[i, j]
    with np.errstate(invalid="ignore"):
        is_known = variance > VANISHING * np.maximum(first, other)
    return np.where(is_known, variance, np.nan)


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


def _check_scores(
    theta: ArrayLike, covariance: ArrayLike, confidence: float, scale: float = 400.0
) -> tuple[Floats, Floats]:
    check_confidence(confidence)
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a positive number, not {scale}")
    return check_estimate(theta, covariance)


TYPICAL = 60 * math.log(10) / 400  # natural log-odds; the size of difference to detect, 60 Elo
SCATTER = 20  # with fewer clusters, the robust error alone is not trusted
HALVINGS = 60  # bisections, to double precision


@dataclass(frozen=True)
class SequentialTest:
    """A test of the current difference of two candidates.

    Parameters
    ----------
    gap : natural log-odds, finite
    error : its robust standard error, above 0 and finite
    n_clusters : G, clusters behind the error; None for practically infinitely many
    confidence : probability that, without a difference, the test never decides
    burden : how many times as large L must be, in a family of tests (`burdens`)
    """

    gap: float
    error: float
    n_clusters: int | None = None
    confidence: float = 0.95
    burden: float = 1.0

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if not math.isfinite(self.gap):
            raise ValueError(f"gap must be a finite number, not {self.gap}")
        if not (math.isfinite(self.error) and self.error > 0):
            raise ValueError(f"error must be above 0 and finite, not {self.error}")

    @classmethod
    def measured(
        cls,
        gap: float,
        error: float,
        independent: float,
        n_clusters: int | None,
        confidence: float = 0.95,
        burden: float = 1.0,
    ) -> "SequentialTest":
        """A test of a difference estimated from votes, of which a new candidate may have few.

        `n_clusters`: clusters with votes of the candidate that has fewer. By chance, few clusters
        may all have the expected outcome and leave no residual; so below `SCATTER` clusters the
        error is at least that of independent votes, whose variance is `independent` (0: unknown).
        """
        if n_clusters is not None and n_clusters < SCATTER:
            error = max(error, math.sqrt(independent))
        return cls(gap, error, n_clusters, confidence, burden)

    @property
    def chance_ahead(self) -> float:
        """The probability that the true difference is above 0, given a flat prior.

        Student's t with G - 1 degrees of freedom, centred at the gap.
        """
        freedom = math.inf if self.n_clusters is None else self.n_clusters - 1
        return 1 - float(stdtr(freedom, -self.gap / self.error))

    @property
    def is_decided(self) -> bool:
        """Whether the sign of the difference is decided; valid at every check.

        With z the gap in standard errors, I = 1 / error^2 and tau = `TYPICAL`, the mixture
        likelihood ratio against "no difference" is (Robbins 1970)

            L = (1 + tau^2 I)^(-1/2) exp(z^2 / 2 * tau^2 I / (1 + tau^2 I)).

        The difference is decided if L >= 1 / (1 - confidence). Without a difference, the
        probability that L ever gets there is at most 1 - confidence (Ville's inequality), however
        often it is checked; approximately, because the error is an estimate. For few clusters z is
        corrected by Student's t. L may fall below the threshold again with later votes.

        With fewer clusters than a `CompleteSeparation` needs, nothing is decided: the error is too
        uncertain, and a candidate that nearly always wins would be decided before one that always
        does.
        """
        return self.log_evidence >= _enough(self)

    @property
    def log_evidence(self) -> float:
        """log L, the e-value of "a difference"; minus infinity where nothing can be decided."""
        return -math.inf if self.clusters_to_go else self._log_ratio(1.0)

    @property
    def clusters_to_go(self) -> int:
        """The number of further clusters with votes before anything can be decided."""
        if self.n_clusters is None:
            return 0
        return CompleteSeparation(self.n_clusters, self.confidence).prompts_to_go

    def votes_to_go(self, independent: float, most: int = MOST_VOTES) -> int | None:
        """The votes still needed between the two for a decision, if the gap does not change.

        0 if it is decided, None for more than `most`; at least one for each missing cluster. n
        votes turn the variance v = `independent`, as if votes were independent, into
        v / (1 + n p (1 - p) v), and shrink the robust variance alike, as in `neighbours`.
        """
        if not (math.isfinite(independent) and independent > 0):
            raise ValueError(f"independent must be above 0 and finite, not {independent}")
        if self.is_decided:
            return 0
        p = float(expected_score(np.array([self.gap]))[0])
        gained = p * (1 - p) * independent  # by the first vote
        low, high = 1.0, 1 + (most + 1) * gained
        enough = _enough(self)
        if self._log_ratio(high) < enough:
            return None
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._log_ratio(middle) >= enough else (middle, high)
        votes = max(math.ceil((high - 1) / gained), self.clusters_to_go)
        return votes if votes <= most else None

    @property
    def radius(self) -> float:
        """Half the width of the confidence sequence, in natural log-odds.

        Infinite if nothing can be decided yet.

        The differences d for which the likelihood ratio of ``gap - d`` stays under
        1 / (1 - confidence): with this confidence all intervals, of all checks, hold the true
        difference (Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021).
        """
        if self.clusters_to_go:
            return math.inf
        spread = TYPICAL**2 / self.error**2
        enough = math.log1p(spread) + 2 * _enough(self)
        z = math.sqrt(enough * (1 + spread) / spread)
        if self.n_clusters is None:
            return z * self.error
        return -float(stdtrit(self.n_clusters - 1, ndtr(-z))) * self.error

    def _log_ratio(self, more: float) -> float:
        """log L with `more` times the current information."""
        spread = TYPICAL**2 * more / self.error**2
        z = self._as_normal(abs(self.gap) / self.error * math.sqrt(more))
        return (z**2 * spread / (1 + spread) - math.log1p(spread)) / 2

    def _as_normal(self, t: float) -> float:
        """The normal deviate with the same tail probability as this Student's t deviate."""
        if self.n_clusters is None:
            return t
        tail = float(stdtr(self.n_clusters - 1, -t))
        return -float(ndtri(tail)) if tail > 0 else t


@dataclass(frozen=True)
class StyleDifference:
    """The difference in style-controlled scores, in Elo. The interval is conservative: its error is
    the sum of both, because the covariance of these scores is not stored."""

    elo: float
    low: float | None
    high: float | None

    def at_every_check(
        self, test: SequentialTest, n_clusters: int | None, theta_per_elo: float
    ) -> "StyleDifference":
        """This with the confidence sequence of the test in place of its interval for one check.

        `n_clusters`: those of the interval; None for infinitely many. Without bounds if nothing can
        be decided yet.
        """
        if self.low is None or self.high is None:
            return self
        once = critical_value(test.confidence, n_clusters)
        error = (self.high - self.low) / 2 / once * theta_per_elo
        if test.clusters_to_go or error <= 0:
            return replace(self, low=None, high=None)
        radius = replace(test, error=error).radius / theta_per_elo
        if not math.isfinite(radius):
            return replace(self, low=None, high=None)
        return replace(self, low=self.elo - radius, high=self.elo + radius)


@dataclass(frozen=True)
class CompleteSeparation:
    """A test for two candidates if one has won on every prompt: no finite difference fits.

    Parameters
    ----------
    n_prompts : the number of independent prompts, 0 or more
    confidence : probability that, without a difference, the test never decides
    burden : as of a `SequentialTest`
    """

    n_prompts: int
    confidence: float = 0.95
    burden: float = 1.0

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if self.n_prompts < 0:
            raise ValueError(f"n_prompts must be 0 or more, not {self.n_prompts}")

    @property
    def chance(self) -> float:
        """The probability that the winner is the better one: 1 - 2^-(n + 1), with a flat prior."""
        return 1 - 0.5 ** (self.n_prompts + 1)

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the exact two-sided sign test, checked once, rejects "no difference"."""
        return 2 * 0.5**self.n_prompts < 1 - self.confidence

    @property
    def is_decided(self) -> bool:
        """Whether it is decided that the winner is better; valid at every check.

        Without a difference every prompt is a coin toss. The alternative is a uniform mixture of
        all shares: if all n prompts go to one side, the likelihood ratio is L = 2^n / (n + 1)
        (Robbins 1970), and the winner is decided if L >= 1 / (1 - confidence).
        """
        return self.log_evidence >= _enough(self)

    @property
    def log_evidence(self) -> float:
        """log L, the e-value of "a difference"."""
        return self._log_ratio(self.n_prompts)

    @property
    def prompts_to_go(self) -> int:
        """The number of further prompts that the winner must win for a decision."""
        enough, n = _enough(self), self.n_prompts
        while self._log_ratio(n) < enough:
            n += 1
        return n - self.n_prompts

    @staticmethod
    def _log_ratio(n: int) -> float:
        return n * math.log(2) - math.log1p(n)


def _enough(test: SequentialTest | CompleteSeparation) -> float:
    """The log L from which a test decides."""
    return math.log(test.burden) - math.log(1 - test.confidence)


def burdens(log_evidence: Sequence[float], confidence: float = 0.95) -> list[float]:
    """The burden of each of m tests so that few of those they decide are false (e-BH).

    With E the e-values in descending order, the k tests are decided with the largest k for which
    E_k >= m / (k (1 - confidence)). Their burden is m / k, and that of the others, of which none
    would be decided with it, m / (k + 1). The expected share of false ones among those decided is
    at most 1 - confidence, however the tests depend on one another and whenever they are checked.

    Intervals of these burdens hold 0 exactly where a test is not decided (e-BY). References: Wang
    and Ramdas 2022; Xu, Wang and Ramdas 2024.
    """
    m, enough = len(log_evidence), -math.log(1 - confidence)
    order = sorted(log_evidence, reverse=True)
    decided = [k for k in range(1, m + 1) if order[k - 1] >= enough + math.log(m / k)]
    k = max(decided, default=0)
    least = enough + math.log(m / k) if k else math.inf
    return [m / k if evidence >= least else m / (k + 1) for evidence in log_evidence]


def neighbour_findings(
    order: Iterable[Neighbours], ids: Sequence[int | str]
) -> list[dict[str, Any]]:
    """Neighbours as JSON, by the ids or names of the candidates."""
    return [
        {
            "upper": ids[pair.upper],
            "lower": ids[pair.lower],
            "separated": pair.separated,
            "votes": pair.votes,
            "words": pair.words,
        }
        for pair in order
    ]
