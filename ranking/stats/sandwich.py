"""Cluster-robust standard errors of Bradley-Terry ratings: a fast check of the bootstrap."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ranking.stats import arrays
from ranking.stats.arrays import Bools, Floats, Ints, summed
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, pseudo_inverse
from ranking.stats.intervals import NoInterval, check_confidence, small_sample, t_quantile, why_none

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
class _Robust:
    """Errors and intervals of a fitted model from a covariance, for both sandwiches."""

    confidence: float = 0.95
    model: BradleyTerry = field(default_factory=BradleyTerry)

    def _fit_model(self, battles: Battles) -> Battles:
        """Fit the model, and return the battles between ranked candidates."""
        check_confidence(self.confidence)
        self.model_ = replace(self.model).fit(battles)
        self.ratings_: Floats = self.model_.ratings_
        return battles.among(self.model_.ranked_)

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

    def _errors(self, covariance: Floats) -> Floats:
        variance = covariance.diagonal().copy()
        place = self.model_.anchor_place
        if place is not None:
            variance += variance[place] - 2 * covariance[place]
        errors: Floats = np.sqrt(variance.clip(min=0)) * self.model_.elo_per_theta
        errors[errors < VANISHING] = np.nan
        return errors


@dataclass(eq=False)
class Sandwich(_Robust):
    """H^-1 (sum over clusters u u') H^-1 * G / (G - 1), with H the information.

    Parameters
    ----------
    confidence : of the intervals, which use t quantiles with G - 1 degrees of freedom
    model : a `BradleyTerry` with the hyperparameters to use; it is not changed

    Attributes (K candidates; NaN for the unranked, and everywhere if ``reason_`` is set)
    ----------
    model_ : the fitted model
    ratings_, standard_errors_, low_, high_ : (K,) Elo; NaN errors for an anchor, which is fixed
    covariance_ : (K, K), of theta with mean 0
    n_clusters_ : G, between ranked candidates
    reason_ : `NoInterval` or None

    References: Liang and Zeger 1986; Cameron and Miller 2015 for the corrections.
    """

    def fit(self, battles: Battles) -> "Sandwich":
        """Fit the model and measure its errors. Raises as `BradleyTerry.fit` does."""
        inside = self._fit_model(battles)
        self._measure(self._covariance(inside), inside.n_clusters, inside.decisive)
        return self


@dataclass(eq=False)
class TwoWaySandwich(_Robust):
    """V_a + V_b - V_ab: votes that share either cluster, say prompt or rater, are not independent.

    Each V is the one-way `Sandwich` by a, by b, and by the distinct (a, b), with its own
    G / (G - 1). The sum need not be positive semi-definite; negative eigenvalues become 0.

    Parameters
    ----------
    confidence : of the intervals, which use t quantiles with min(G_a, G_b) - 1 degrees of freedom
    model : a `BradleyTerry` with the hyperparameters to use; it is not changed

    Attributes
    ----------
    those of `Sandwich`; ``n_clusters_`` is the smaller of G_a and G_b

    Reference: Cameron, Gelbach and Miller 2011.
    """

    def fit(
        self,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        cluster: ArrayLike,
        second_cluster: ArrayLike,
        weight: ArrayLike | None = None,
        n_candidates: int | None = None,
        count: ArrayLike | None = None,
    ) -> "TwoWaySandwich":
        """Fit the model to n votes, as `Battles.from_arrays` takes them, and measure its errors.

        Votes are arrays because `Battles` hold one cluster per vote. Both clusters are (n,)
        integers of any value. Raises as `Battles.from_arrays` and `BradleyTerry.fit` do.
        """
        a = arrays.integers("cluster", cluster)
        b = arrays.integers("second_cluster", second_cluster)
        _check_aligned(left, a, b)
        joint, *parents = _crossed(a, b)
        both = Battles.from_arrays(left, right, score, weight, joint, n_candidates, count)
        live = _live(len(joint), weight, count)
        # The clusters of the battles are numbered by the codes in use, in their order.
        used = np.flatnonzero(np.bincount(joint[live]))
        by_ab = self._fit_model(both)
        by_a, by_b = (
            replace(both, cluster=arrays.codes(parent[used][both.cluster])[0]).among(
                self.model_.ranked_
            )
            for parent in parents
        )
        fewer = min(by_a.n_clusters, by_b.n_clusters)
        total = self._covariance(by_a) + self._covariance(by_b) - self._covariance(by_ab)
        self._measure(_semi_definite(total), fewer, by_ab.decisive)
        return self


def _check_aligned(left: ArrayLike, *clusters: NDArray[Any]) -> None:
    n_votes = len(np.asarray(left))
    for name, array in zip(("cluster", "second_cluster"), clusters, strict=True):
        if len(array) != n_votes:
            raise ValueError(f"{name} has {len(array)} entries where left has {n_votes}")


def _crossed(a: NDArray[Any], b: NDArray[Any]) -> tuple[Ints, Ints, Ints]:
    """(n,) codes of the distinct (a, b), and the codes of a and of b in each."""
    (a_code, _), (b_code, n_b) = arrays.codes(a), arrays.codes(b)
    distinct, joint = np.unique(a_code * max(n_b, 1) + b_code, return_inverse=True)
    first, second = np.divmod(distinct, max(n_b, 1))
    return joint.astype(np.int64), first, second


def _live(n_votes: int, weight: ArrayLike | None, count: ArrayLike | None) -> Bools:
    """Mask of the votes with weight and count above 0; the others are ignored."""
    live = np.ones(n_votes, np.bool_)
    for column in (weight, count):
        if column is not None:
            live &= np.asarray(column) > 0
    return live


def _semi_definite(matrix: Floats) -> Floats:
    """The nearest positive semi-definite matrix; NaN stays NaN."""
    if not matrix.size or np.isnan(matrix).any():
        return matrix
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    floored: Floats = (vectors * values.clip(min=0)) @ vectors.T
    return floored
