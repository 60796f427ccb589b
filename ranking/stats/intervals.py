"""What all intervals share: which votes depend on one another, how much one rater may weigh, when
there is no interval and why, and corrections for few clusters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

import numpy as np
from scipy.special import ndtri, stdtrit

from ranking.stats.arrays import Bools, Floats, Ints
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


@dataclass(frozen=True, eq=False)
class Dependence:
    """The groupings of a board's votes whose members are dependent.

    Attributes
    ----------
    groupings : one or two `Battles` of the same votes, by prompt and by rater
    rule : "prompt_rater", "prompt", "rater" or "vote" (all votes independent)
    n_raters : if the result holds for these raters only, their number; else 0
    effective : the effective numbers of "prompts" and "raters", where they are known
    """

    groupings: tuple[Battles, ...]
    rule: str
    n_raters: int = 0
    effective: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def choose(cls, by_prompt: Battles | None, by_rater: Battles | None, votes: Battles) -> Self:
        """The groupings that are known and have enough clusters.

        ``by_prompt``: None if no prompt is known. ``by_rater``: None if no rater is known, or if
        the result is about these raters alone, as with judges. ``votes``: without clusters. Fewer
        than 5 effective raters say too little about others: the result then holds for them only.
        """
        sampled = by_rater is not None and by_rater.effective_clusters >= MIN_CLUSTERS
        known = {"prompt": by_prompt, "rater": by_rater if sampled else None}
        used = {name: grouping for name, grouping in known.items() if grouping is not None}
        n_raters = 0 if sampled or by_rater is None else by_rater.n_clusters
        both = {"prompts": by_prompt, "raters": by_rater}
        effective = {name: of.effective_clusters for name, of in both.items() if of is not None}
        rule = "_".join(used) or "vote"
        return cls(tuple(used.values()) or (votes,), rule, n_raters, effective)

    @property
    def note(self) -> str:
        """One sentence for a page; empty for the usual rule."""
        if not self.n_raters:
            return "Prompts are unknown; all votes are treated as independent." * (
                self.rule == "vote"
            )
        if self.n_raters == 1:
            return "All votes are by one rater; the results say nothing about others."
        return f"The results hold for these {self.n_raters:,} raters only: they are too few."

    @property
    def measurable(self) -> Bools:
        """(K,) mask: the candidates with enough clusters of their own in every grouping."""
        mask: Bools = np.logical_and.reduce([measurable(grouping) for grouping in self.groupings])
        return mask

    @property
    def clusters_per_candidate(self) -> Ints:
        """(K,): the number of clusters of each candidate's votes, in the grouping with fewer."""
        fewest: Ints = np.min(
            [grouping.clusters_per_candidate() for grouping in self.groupings], axis=0
        )
        return fewest


# -- The weight of one rater -----------------------------------------------------------------------

RATER_SHARE = 0.1  # of the votes of people, where nothing else is set


def largest_share(n_raters: int, share: float) -> float:
    """The share of a board's votes that one of its raters may weigh, from 0 to 1.

    At least twice the average rater's, so that a cap never applies if all cast equally many votes.
    """
    return min(1.0, max(share, 2 / max(n_raters, 1)))


def capped_weights(votes: Floats, share: float) -> Floats:
    """(R,) the weight of one vote of each rater, so that no rater exceeds this share of the total
    weight.

    Parameters
    ----------
    votes : (R,) votes of each rater, 0 or more
    share : as `largest_share`

    The m heaviest raters get s / (1 - m s) times the votes of the others each, with the smallest m
    that leaves nobody else above that.
    """
    weights: Floats = np.ones(len(votes))
    order = np.argsort(-votes, kind="stable")
    rest = float(votes.sum())
    limit = share * rest
    for n_capped, heaviest in enumerate(order.tolist()):
        if votes[heaviest] <= limit or (n_capped + 1) * share >= 1:
            break
        rest -= float(votes[heaviest])
        limit = share * rest / (1 - (n_capped + 1) * share)
    over = votes > limit
    weights[over] = limit / votes[over]
    return weights


def vote_weights(rater: Ints, share: float = RATER_SHARE) -> tuple[Floats, float]:
    """(N,) the weights of votes by these raters, and the share that each of them is capped at.

    ``rater``: (N,), negative if unknown; each such vote is taken to be by a rater of its own.
    """
    known = rater >= 0
    cast = np.bincount(rater[known]).astype(np.float64)
    votes = np.concatenate([cast, np.ones(np.count_nonzero(~known))])
    most = largest_share(int(np.count_nonzero(votes)), share)
    weights = np.ones(len(rater))
    weights[known] = capped_weights(votes, most)[rater[known]]
    return weights, most


def capped_note(n_raters: int, share: float) -> str:
    """One sentence for a page; empty if nobody is capped."""
    if not n_raters:
        return ""
    whose = "1 rater’s votes are" if n_raters == 1 else f"{n_raters:,} raters’ votes are each"
    return f"{whose} capped at {100 * share:.0f} % of the weight."
