"""Cluster-robust standard errors of Bradley-Terry ratings: the fast check on the bootstrap."""

from dataclasses import dataclass, field, replace

import numpy as np

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.clustering import meat
from ranking.stats.columns import Floats
from ranking.stats.intervals import (
    NoInterval,
    check_confidence,
    small_sample,
    t_quantile,
    why_none_for,
)
from ranking.stats.newton import pseudo_inverse

VANISHING = 1e-9  # Elo; a standard error below it is rounding, not precision


@dataclass(eq=False)
class Sandwich:
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

    confidence: float = 0.95
    model: BradleyTerry = field(default_factory=BradleyTerry)

    def fit(self, battles: Battles) -> "Sandwich":
        """Fit the model and measure its errors. Raises as `BradleyTerry.fit` does."""
        check_confidence(self.confidence)
        self.model_ = replace(self.model).fit(battles)
        self.ratings_: Floats = self.model_.ratings_
        inside = battles.among(self.model_.ranked_)
        self.n_clusters_ = inside.n_clusters
        self.reason_: NoInterval | None = why_none_for(inside)
        size = inside.n_candidates
        covariance = np.full((size, size), np.nan) if self.reason_ else self._covariance(inside)
        self.covariance_: Floats = self.model_.spread_square(covariance)
        self.standard_errors_: Floats = self.model_.spread(self._errors(covariance))
        if self.reason_ is None and np.isnan(self.standard_errors_).all():
            self.reason_ = NoInterval.NO_VARIATION
        reach = self.standard_errors_ * (
            t_quantile(self.confidence, self.n_clusters_) if self.reason_ is None else np.nan
        )
        self.low_: Floats = self.ratings_ - reach
        self.high_: Floats = self.ratings_ + reach
        return self

    def _covariance(self, inside: Battles) -> Floats:
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
