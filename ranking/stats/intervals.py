"""What all intervals share: which votes depend on one another, how much one rater may weigh, when
there is no interval and why, and corrections for few clusters; and cluster-robust standard errors
of Bradley-Terry ratings (the sandwich), a fast check of the bootstrap.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri, stdtrit

from ranking.stats.arrays import Bools, Floats, Ints, summed
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry

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
    NoInterval.NOTHING_RANKED: "No candidate has a score yet.",
    NoInterval.NO_DECISIVE_VOTE: "Every vote so far is a tie.",
    NoInterval.FEW_CLUSTERS: f"Fewer than {MIN_CLUSTERS} independent groups of votes so far.",
    NoInterval.NO_VARIATION: "There is no variation, so the uncertainty is unknown.",
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
            return "One rater cast all votes, so the results say nothing about other raters."
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


RATER_SHARE = 0.1  # of human votes, unless the arena sets another one


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


def capped_note(n_raters: int, share: float) -> str:
    """One sentence for a page; empty if nobody is capped."""
    if not n_raters:
        return ""
    whose = "1 rater’s votes are" if n_raters == 1 else f"{n_raters:,} raters’ votes are each"
    return f"{whose} capped at {100 * share:.0f}% of the weight."


BLOCK = 4096  # clusters whose gradients are dense at once
BLOCK_CELLS = 4_000_000  # of (cluster, candidate) at once, 32 MB
STEPS = 20  # of the series of the jackknife
SETTLED = 1e-3  # part of the largest movement; a smaller step ends the series
VANISHING = 1e-9  # Elo; a smaller standard error is rounding, not precision


def totals_per_unit(battles: Battles) -> tuple[csr_array, csr_array]:
    """Two (P, U) matrices: per pair and unit the weight of votes, and the score of ``first``.

    Units are the clusters. Without clusters, each folded row is a unit that holds one of its votes,
    so that callers can use the sum of ``count`` independent draws in place of ``count`` columns.
    """
    pair = battles.pair_of_row
    if battles.cluster is None:
        unit, weight = np.arange(len(pair)), battles.weight
    else:
        unit, weight = battles.cluster, battles.weight * battles.count
    n_units = len(pair) if battles.cluster is None else battles.n_clusters
    shape = (len(battles.pairs.first), n_units)
    both = np.empty(len(pair), np.complex128)  # one matrix takes half the time of two
    both.real, both.imag = weight, weight * battles.score
    totals = csr_array((both, (pair, unit)), shape=shape)
    return totals.real, totals.imag


def residuals(battles: Battles, theta: Floats) -> Floats:
    """(R,): weight * (observed score - expected score), for one vote of each row."""
    expected = battles.pairs.win_probability(theta)[battles.pair_of_row]
    residual: Floats = battles.weight * (battles.score - expected)
    return residual


def meat(battles: Battles, theta: Floats) -> Floats:
    """(K, K): the sum over clusters of u u', u the cluster's share of the gradient at theta."""
    residual = residuals(battles, theta)
    if battles.cluster is None:
        pairs = battles.pairs
        squares = summed(battles.pair_of_row, battles.count * residual**2, len(pairs.first))
        return pairs.laplacian(squares)
    return _squared(battles, battles.count * residual)


def _squared(battles: Battles, residual: Floats) -> Floats:
    gradients = _gradients(battles, residual)
    total = np.zeros((battles.n_candidates,) * 2)
    for start in range(0, battles.n_clusters, BLOCK):
        block = dense(gradients[start : start + BLOCK])
        total += block.T @ block
    return total


def _gradients(battles: Battles, residual: Floats) -> Floats | csr_array:
    """(G, K): each cluster's sum of residuals for ``first``, against ``second``."""
    assert battles.cluster is not None
    shape = (battles.n_clusters, battles.n_candidates)
    return contrasts(battles.cluster, battles.first, battles.second, residual, shape)


def contrasts(
    cluster: Ints, first: Ints, second: Ints, values: Floats, shape: tuple[int, int]
) -> Floats | csr_array:
    """(G, K): each cluster's sum of (R,) values for ``first``, against ``second``.

    Sparse if there are few rows: building a sparse matrix takes ten times as long as counting.
    """
    size = shape[0] * shape[1]
    if size <= 4 * len(values):
        total = summed(cluster * shape[1] + first, values, size)
        total -= summed(cluster * shape[1] + second, values, size)
        return total.reshape(shape)
    row, column = np.tile(cluster, 2), np.concatenate([first, second])
    return csr_array((np.concatenate([values, -values]), (row, column)), shape=shape)


def dense(matrix: Any) -> Floats:
    """A matrix, sparse or not, as an array."""
    array: Floats = matrix.toarray() if isinstance(matrix, csr_array) else matrix
    return array


def movements(battles: Battles, theta: Floats, bread: Floats) -> Iterator[Floats]:
    """(B, K) blocks of how far theta moves without each cluster, to first order.

    d = (H - H_g)^-1 u_g, with H_g the cluster's part of the information H and u_g its share of the
    gradient. The inverse is that of the series d = H^-1 (u_g + H_g d), without a matrix for each
    cluster; for clusters that hold nearly all that is known of a candidate it stops after `STEPS`.
    """
    assert battles.cluster is not None
    size = battles.n_candidates
    p = battles.pairs.win_probability(theta)[battles.pair_of_row]
    information = battles.count * battles.weight * p * (1 - p)
    residual = battles.count * residuals(battles, theta)
    width = max(1, BLOCK_CELLS // max(size, 1))
    block = battles.cluster // width
    order = np.argsort(block, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(block))[:-1])
    for start, rows in zip(range(0, battles.n_clusters, width), parts, strict=True):
        height, held = min(width, battles.n_clusters - start), information[rows]
        place = (battles.cluster[rows] - start) * size
        first, second = place + battles.first[rows], place + battles.second[rows]
        own = residual[rows]
        # A cluster has votes on few of many candidates: cells are (cluster, candidate).
        cells, at = np.unique(np.concatenate([first, second]), return_inverse=True)
        at_first, at_second = at[: len(rows)], at[len(rows) :]
        shape = (height, size)

        def step(pull: Floats) -> Floats:
            values = summed(at_first, own + pull, len(cells))  # noqa: B023
            values -= summed(at_second, own + pull, len(cells))  # noqa: B023
            sparse = csr_array((values, (cells // size, cells % size)), shape=shape)  # noqa: B023
            return dense(sparse @ bread)

        moved = step(np.zeros(len(rows)))
        for _ in range(STEPS):
            last, moved = moved, step(held * (moved.take(first) - moved.take(second)))
            if np.abs(moved - last).max(initial=0) <= SETTLED * np.abs(moved).max(initial=0):
                break
        yield moved


def jackknife(battles: Battles, theta: Floats, bread: Floats) -> Floats:
    """(K, K): the sum over clusters of d d', d how far theta moves without the cluster (CR3)."""
    total = np.zeros((battles.n_candidates,) * 2)
    for moved in movements(battles, theta, bread):
        total += moved.T @ moved
    return total


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
    jackknifed : instead, the jackknife over clusters (CR3): (G - 1) / G sum d d', with d how far
        theta moves without a cluster. It is larger where clusters are unequal

    Attributes (K candidates; NaN for the unranked, and everywhere if ``reason_`` is set)
    ----------
    model_ : the fitted model
    ratings_, standard_errors_, low_, high_ : (K,) Elo; NaN errors for an anchor, which is fixed
    covariance_ : (K, K), of theta with mean 0
    n_clusters_ : G, between ranked candidates
    strongest_ : the battles whose grouping alone gives the larger errors
    reason_ : `NoInterval` or None

    References: Liang and Zeger 1986; Bell and McCaffrey 2002 for the jackknife (CR3), Cameron and
    Miller 2015 for the degrees of freedom; Cameron, Gelbach and Miller 2011 for two groupings, of
    which the last term is simplified here: the votes of one rater on one prompt count as
    independent, as they differ in the pair.
    """

    confidence: float = 0.95
    model: BradleyTerry = field(default_factory=BradleyTerry)
    jackknifed: bool = False

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
        variance = covariance.diagonal().copy()
        place = self.model_.anchor_place
        if place is not None:
            variance += variance[place] - 2 * covariance[place]
        errors: Floats = np.sqrt(variance.clip(min=0)) * self.model_.elo_per_theta
        errors[errors < VANISHING] = np.nan
        self.standard_errors_: Floats = self.model_.spread(errors)
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
        ranked = self.model_.ranked_
        theta, bread = self.model_.theta_[ranked], self.model_.covariance_[np.ix_(ranked, ranked)]
        if inside.cluster is not None and self.jackknifed:
            return jackknife(inside, theta, bread) / small_sample(inside.n_clusters) ** 2
        covariance: Floats = bread @ meat(inside, theta) @ bread
        return covariance * small_sample(inside.n_clusters) ** 2

    def _crossed(self, alone: list[Floats], strongest: int, votes: Battles) -> Floats:
        """(R, R): the covariance where votes that share either cluster are dependent."""
        weaker = alone[1 - strongest]
        excess = weaker - self._covariance(votes)
        added = semi_definite(excess)
        share = max(excess.trace(), 0.0) / added.trace() if added.trace() > 0 else 0.0
        total = alone[strongest] + share * added
        var = total.diagonal()
        lifted = np.divide(weaker.diagonal(), var, out=np.ones(len(var)), where=var > 0)
        lifted = np.sqrt(lifted.clip(min=1))
        covariance: Floats = total * np.outer(lifted, lifted)
        return covariance


def semi_definite(matrix: Floats) -> Floats:
    """The nearest positive semi-definite matrix; NaN stays NaN."""
    if not matrix.size or np.isnan(matrix).any():
        return matrix
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    floored: Floats = (vectors * values.clip(min=0)) @ vectors.T
    return floored
