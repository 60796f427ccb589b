"""A difference that is watched while votes come in: when may it be called known?

A 95 % interval errs in 5 % of cases if one looks at it once. Whoever looks after every few votes
and stops at the first interval that leaves out 0 errs far more often. The rule here may be asked
after every vote, as long as one likes.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtr

from ranking.stats.differences import MOST_VOTES
from ranking.stats.intervals import check_confidence
from ranking.stats.pairs import expected_score

TYPICAL = 60 * math.log(10) / 400  # natural log-odds: differences that are looked for, 60 Elo
SCATTER = 20  # clusters whose own scatter is trusted, be it ever so small
HALVINGS = 60  # of the interval that holds the answer; double precision has no more


@dataclass(frozen=True)
class Watched:
    """A difference as it stands now.

    Parameters
    ----------
    gap : natural log-odds, not NaN
    error : its standard error, above 0 and finite, robust
    n_clusters : G, the clusters that the error was measured from; None for as good as infinitely
        many
    confidence : that it is never called known, at any look, while there is none
    """

    gap: float
    error: float
    n_clusters: int | None = None
    confidence: float = 0.95

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
    ) -> "Watched":
        """The difference as votes have it of whom some may be new.

        `n_clusters` are those that hold votes of the candidate that has fewer: the others say
        nothing about it. Few may all say what was expected by chance, and then leave no residual,
        so below `SCATTER` clusters the error is no less than that of votes taken as independent,
        whose variance is `independent` (0: not known).
        """
        if n_clusters is not None and n_clusters < SCATTER:
            error = max(error, math.sqrt(independent))
        return cls(gap, error, n_clusters, confidence)

    @property
    def chance_ahead(self) -> float:
        """The probability that the true difference is above 0.

        Student's t with G - 1 degrees of freedom around the gap: what remains of a difference of
        which nothing was known before the votes.
        """
        return 1 - self._chance_below(self.gap / self.error)

    @property
    def is_known(self) -> bool:
        """Whether the difference is known.

        With z the gap in standard errors, I = 1 / error^2 and tau the differences looked for, the
        votes are compared with "no difference" by the mixture likelihood ratio (Robbins 1970)

            L = (1 + tau^2 I)^(-1/2) exp(z^2 / 2 * tau^2 I / (1 + tau^2 I)),

        and known it is from L >= 1 / (1 - confidence) on: without a difference the chance that L
        ever gets so high is at most 1 - confidence (Ville's inequality), however often one looks;
        about so, since the error is an estimate. z is widened as Student's t asks for where few
        clusters measured it. The votes of a later day may fall below L again.

        Fewer clusters than a `ShutOut` takes decide nothing: their scatter is too rough a measure,
        and who wins nearly always would be known before who wins always.
        """
        enough = -math.log(1 - self.confidence)
        return not self.clusters_to_go and self._log_ratio(1.0) >= enough

    @property
    def clusters_to_go(self) -> int:
        """In how many more clusters there must be votes before anything is known; 0 for enough."""
        if self.n_clusters is None:
            return 0
        return ShutOut(self.n_clusters, self.confidence).prompts_to_go

    def votes_to_go(self, independent: float, most: int = MOST_VOTES) -> int | None:
        """How many more votes between the two until it is known, if the gap stays what it is.

        0 for what is known, None where it takes more than `most`; one at least for each cluster
        that is missing. n votes turn the variance v = `independent`, of votes taken as independent,
        into v / (1 + n p (1 - p) v), and the robust variance alike, as `neighbours` has it.
        """
        if not (math.isfinite(independent) and independent > 0):
            raise ValueError(f"independent must be above 0 and finite, not {independent}")
        if self.is_known:
            return 0
        p = float(expected_score(np.array([self.gap]))[0])
        gained = p * (1 - p) * independent  # by the first vote
        low, high = 1.0, 1 + (most + 1) * gained
        enough = -math.log(1 - self.confidence)
        if self._log_ratio(high) < enough:
            return None
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._log_ratio(middle) >= enough else (middle, high)
        votes = max(math.ceil((high - 1) / gained), self.clusters_to_go)
        return votes if votes <= most else None

    def _log_ratio(self, more: float) -> float:
        """log L with `more` times the information of today."""
        spread = TYPICAL**2 * more / self.error**2
        z = self._as_normal(abs(self.gap) / self.error * math.sqrt(more))
        return (z**2 * spread / (1 + spread) - math.log1p(spread)) / 2

    def _as_normal(self, t: float) -> float:
        """The normal deviate that is as rare as this one of Student's t."""
        if self.n_clusters is None:
            return t
        rare = float(stdtr(self.n_clusters - 1, -t))
        return -float(ndtri(rare)) if rare > 0 else t

    def _chance_below(self, t: float) -> float:
        """That what is drawn around 0 is below -t."""
        freedom = math.inf if self.n_clusters is None else self.n_clusters - 1
        return float(stdtr(freedom, -t))


@dataclass(frozen=True)
class ShutOut:
    """One of two has won on every prompt so far: no finite difference describes that.

    Parameters
    ----------
    n_prompts : how many independent ones, 0 or more
    confidence : that it is never called known, at any look, while there is no difference
    """

    n_prompts: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        if self.n_prompts < 0:
            raise ValueError(f"n_prompts must be 0 or more, not {self.n_prompts}")

    @property
    def chance(self) -> float:
        """The probability that the winner is the better one: 1 - 2^-(n + 1).

        Of its share of prompts nothing was known before, so any share was as likely as any other.
        """
        return 1 - 0.5 ** (self.n_prompts + 1)

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the exact two-sided sign test, asked once, leaves out "no difference"."""
        return 2 * 0.5**self.n_prompts < 1 - self.confidence

    @property
    def is_known(self) -> bool:
        """Whether the winner is known to be better, at this look or any other.

        Without a difference every prompt is a coin toss. Against it stands the mixture of all
        shares, each as likely: of n prompts that all fall to one side the likelihood ratio is
        L = 2^n / (n + 1) (Robbins 1970), and L >= 1 / (1 - confidence) is enough.
        """
        return self._log_ratio(self.n_prompts) >= -math.log(1 - self.confidence)

    @property
    def prompts_to_go(self) -> int:
        """On how many more prompts the same has to happen until it is known; 0 where it is."""
        enough, n = -math.log(1 - self.confidence), self.n_prompts
        while self._log_ratio(n) < enough:
            n += 1
        return n - self.n_prompts

    @staticmethod
    def _log_ratio(n: int) -> float:
        return n * math.log(2) - math.log1p(n)
