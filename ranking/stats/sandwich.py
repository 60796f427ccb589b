"""Cluster-robust standard errors of Bradley-Terry ratings: a fast check of the bootstrap."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from ranking.stats.arrays import Bools, Floats, Ints, summed
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, pseudo_inverse
from ranking.stats.intervals import (
    MIN_CLUSTERS,
    NoInterval,
    check_confidence,
    measurable,
    small_sample,
    t_quantile,
    why_none,
)

BLOCK = 4096  # clusters whose gradients are dense at once
VANISHING = 1e-9  # Elo; a smaller standard error is rounding, not precision

# -- Sums over independent units: clusters, or votes where there are none --------------------------


def totals_per_unit(battles: Battles) -> tuple[csr_array, csr_array]:
    """Two (P, U) matrices: per pair and unit the weight of votes, and the score of ``first``.

    Units are the clusters. Without clusters, each folded row is a unit that holds one of its votes,
    so that callers can use the sum of ``count`` independent draws in place of ``count`` columns.
    """
    pair = battles.pairs.locate(battles.first, battles.second)
    if battles.cluster is None:
        unit, weight = np.arange(len(pair)), battles.weight
    else:
        unit, weight = battles.cluster, battles.weight * battles.count
    n_units = len(pair) if battles.cluster is None else battles.n_clusters
    shape = (len(battles.pairs.first), n_units)
    scored = csr_array((weight * battles.score, (pair, unit)), shape=shape)
    return csr_array((weight, (pair, unit)), shape=shape), scored


def residuals(battles: Battles, theta: Floats) -> Floats:
    """(R,): weight * (observed score - expected score), for one vote of each row."""
    pairs = battles.pairs
    expected = pairs.win_probability(theta)[pairs.locate(battles.first, battles.second)]
    residual: Floats = battles.weight * (battles.score - expected)
    return residual


def meat(battles: Battles, theta: Floats) -> Floats:
    """(K, K): the sum over clusters of u u', u the cluster's share of the gradient at theta."""
    residual = residuals(battles, theta)
    if battles.cluster is None:
        pairs = battles.pairs
        place = pairs.locate(battles.first, battles.second)
        squares = summed(place, battles.count * residual**2, len(pairs.first))
        return pairs.laplacian(squares)
    return _squared(battles, battles.count * residual)


def _squared(battles: Battles, residual: Floats) -> Floats:
    assert battles.cluster is not None
    size = battles.n_candidates
    row = np.tile(battles.cluster, 2)
    column = np.concatenate([battles.first, battles.second])
    entries = (np.concatenate([residual, -residual]), (row, column))
    gradients = csr_array(entries, shape=(battles.n_clusters, size))
    total = np.zeros((size, size))
    for start in range(0, battles.n_clusters, BLOCK):
        block = gradients[start : start + BLOCK].toarray()
        total += block.T @ block
    return total


# -- Sandwich estimators ---------------------------------------------------------------------------


@dataclass(eq=False)
class Sandwich:
    """H^-1 (sum over clusters u u') H^-1 * G / (G - 1), with H the information.

    With a second grouping of the same votes, say by rater beside by prompt, votes that share either
    are dependent: V = V_a + E, with V_a of the grouping with the larger trace, and E the positive
    semi-definite part of V_b - V_0, V_0 of independent votes, scaled to the trace of V_b - V_0 (at
    least 0), because the part alone would add noise. Rows and columns are scaled so that no
    candidate's error is below that of either grouping alone.

    Parameters
    ----------
    confidence : of the intervals, which use t quantiles with G - 1 degrees of freedom, G the
        effective number of clusters of the grouping that has fewer
    model : a `BradleyTerry` with the hyperparameters to use; it is not changed

    Attributes (K candidates; NaN for the unranked, and everywhere if ``reason_`` is set)
    ----------
    model_ : the fitted model
    ratings_, standard_errors_, low_, high_ : (K,) Elo; NaN errors for an anchor, which is fixed
    covariance_ : (K, K), of theta with mean 0
    n_clusters_ : G, between ranked candidates
    strongest_ : the battles whose grouping alone gives the larger errors
    stretch_ : (K,) the standard error divided by that of ``strongest_`` alone, at least 1
    reason_ : `NoInterval` or None

    References: Liang and Zeger 1986; Cameron and Miller 2015 for the corrections; Cameron, Gelbach
    and Miller 2011 for two groupings, of which the last term is simplified here: the votes of one
    rater on one prompt count as independent, as they differ in the pair.
    """

    confidence: float = 0.95
    model: BradleyTerry = field(default_factory=BradleyTerry)

    def fit(self, battles: Battles, second: Battles | None = None) -> "Sandwich":
        """Fit the model and measure its errors. Raises as `BradleyTerry.fit` does.

        ``second``: the same votes in other clusters.
        """
        check_confidence(self.confidence)
        self.model_ = replace(self.model).fit(battles)
        self.ratings_: Floats = self.model_.ratings_
        groupings = [battles] if second is None else [battles, second]
        inside = [grouping.among(self.model_.ranked_) for grouping in groupings]
        alone = [self._covariance(grouping) for grouping in inside]
        strongest = max(range(len(alone)), key=lambda i: float(np.trace(alone[i])))
        self.strongest_ = groupings[strongest]
        covariance = alone[0]
        if second is not None:
            covariance = self._crossed(alone, strongest, replace(inside[0], cluster=None))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.sqrt(covariance.diagonal() / alone[strongest].diagonal())
        self.stretch_: Floats = self.model_.spread(np.where(ratio > 1, ratio, 1.0))
        n_clusters = min(grouping.effective_clusters for grouping in inside)
        self._measure(covariance, n_clusters, inside[0].decisive)
        return self

    def _measure(self, covariance: Floats, n_clusters: int, decisive: bool) -> None:
        """Set the attributes that follow from the (R, R) covariance of theta."""
        self.n_clusters_ = n_clusters
        self.reason_: NoInterval | None = why_none(n_clusters, decisive)
        if self.reason_:
            covariance = np.full(covariance.shape, np.nan)
        self.covariance_: Floats = self.model_.spread_square(covariance)
        self.standard_errors_: Floats = self.model_.spread(self._errors(covariance))
        if self.reason_ is None and np.isnan(self.standard_errors_).all():
            self.reason_ = NoInterval.NO_VARIATION
        reach = self.standard_errors_ * (
            t_quantile(self.confidence, n_clusters) if self.reason_ is None else np.nan
        )
        self.low_: Floats = self.ratings_ - reach
        self.high_: Floats = self.ratings_ + reach

    def _covariance(self, inside: Battles) -> Floats:
        """(R, R): the sandwich for the clusters of these battles; NaN if there are too few."""
        if inside.n_clusters < 2:
            return np.full((inside.n_candidates,) * 2, np.nan)
        theta = self.model_.theta_[self.model_.ranked_]
        bread = pseudo_inverse(inside.pairs.information(theta))
        covariance: Floats = bread @ meat(inside, theta) @ bread
        return covariance * small_sample(inside.n_clusters) ** 2

    def _crossed(self, alone: list[Floats], strongest: int, votes: Battles) -> Floats:
        """(R, R): the covariance where votes that share either cluster are dependent."""
        weaker = alone[1 - strongest]
        excess = weaker - self._covariance(votes)
        added = semi_definite(excess)
        share = max(excess.trace(), 0.0) / added.trace() if added.trace() > 0 else 0.0
        total = alone[strongest] + share * added
        own = total.diagonal()
        lifted = np.divide(weaker.diagonal(), own, out=np.ones(len(own)), where=own > 0)
        lifted = np.sqrt(lifted.clip(min=1))
        covariance: Floats = total * np.outer(lifted, lifted)
        return covariance

    def _errors(self, covariance: Floats) -> Floats:
        variance = covariance.diagonal().copy()
        place = self.model_.anchor_place
        if place is not None:
            variance += variance[place] - 2 * covariance[place]
        errors: Floats = np.sqrt(variance.clip(min=0)) * self.model_.elo_per_theta
        errors[errors < VANISHING] = np.nan
        return errors


def semi_definite(matrix: Floats) -> Floats:
    """The nearest positive semi-definite matrix; NaN stays NaN."""
    if not matrix.size or np.isnan(matrix).any():
        return matrix
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    floored: Floats = (vectors * values.clip(min=0)) @ vectors.T
    return floored


# -- Which votes are dependent ---------------------------------------------------------------------


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
