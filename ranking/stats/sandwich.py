"""Cluster-robust standard errors of Bradley-Terry ratings: the fast check on the bootstrap."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.stats import columns
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.clustering import meat
from ranking.stats.columns import Bools, Floats, Ints
from ranking.stats.intervals import (
    NoInterval,
    check_confidence,
    small_sample,
    t_quantile,
    why_none,
)
from ranking.stats.newton import pseudo_inverse

VANISHING = 1e-9  # Elo; a standard error below it is rounding, not precision


@dataclass(eq=False)
class _Robust:
    """What both sandwiches share: errors and intervals of a fitted model from a covariance."""

    confidence: float = 0.95
    model: BradleyTerry = field(default_factory=BradleyTerry)

    def _rank(self, battles: Battles) -> Battles:
        """Fit the model; the battles between the ranked."""
        check_confidence(self.confidence)
        self.model_ = replace(self.model).fit(battles)
        self.ratings_: Floats = self.model_.ratings_
        return battles.among(self.model_.ranked_)

    def _measure(self, covariance: Floats, n_clusters: int, decisive: bool) -> None:
        """Set what is learned from the (R, R) covariance of the ranked candidates' theta."""
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
        """(R, R): the sandwich for the clusters of these battles; NaN where there are too few."""
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
    model : the `BradleyTerry` to fit; its hyperparameters are used, it is not changed

    Attributes (K candidates; NaN for the unranked, and everywhere when ``reason_`` is set)
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
        inside = self._rank(battles)
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
    model : the `BradleyTerry` to fit; its hyperparameters are used, it is not changed

    Attributes
    ----------
    those of `Sandwich`; ``n_clusters_`` is the smaller of G_a and G_b, and few of either are few

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

        Votes come as arrays because `Battles` keep one cluster each. Both clusters are (n,)
        integers of any value. Raises as `Battles.from_arrays` and `BradleyTerry.fit` do.
        """
        a = columns.integers("cluster", cluster)
        b = columns.integers("second_cluster", second_cluster)
        _check_aligned(left, a, b)
        joint, *parents = _crossed(a, b)
        both = Battles.from_arrays(left, right, score, weight, joint, n_candidates, count)
        live = _live(len(joint), weight, count)
        # The battles' clusters stand for the codes in use, in their order.
        used = np.flatnonzero(np.bincount(joint[live]))
        by_ab = self._rank(both)
        by_a, by_b = (
            replace(both, cluster=columns.codes(parent[used][both.cluster])[0]).among(
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
    """(n,) codes of the distinct (a, b), and of which a and which b each code consists."""
    (a_code, _), (b_code, n_b) = columns.codes(a), columns.codes(b)
    distinct, joint = np.unique(a_code * max(n_b, 1) + b_code, return_inverse=True)
    first, second = np.divmod(distinct, max(n_b, 1))
    return joint.astype(np.int64), first, second


def _live(n_votes: int, weight: ArrayLike | None, count: ArrayLike | None) -> Bools:
    """Which votes have a weight and a count above 0: the others are no votes."""
    live = np.ones(n_votes, np.bool_)
    for column in (weight, count):
        if column is not None:
            live &= np.asarray(column) > 0
    return live


def _semi_definite(matrix: Floats) -> Floats:
    """The nearest matrix without negative eigenvalues; NaN stays NaN."""
    if not matrix.size or np.isnan(matrix).any():
        return matrix
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    floored: Floats = (vectors * values.clip(min=0)) @ vectors.T
    return floored
