"""People's votes made more precise by a judge's, and never less true for it."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.columns import Bools, Floats, Ints
from ranking.stats.connectivity import Status
from ranking.stats.intervals import NoInterval, check_confidence, small_sample, t_quantile
from ranking.stats.judged import Labelled, Unlabelled, among
from ranking.stats.newton import NotConverged
from ranking.stats.rectifier import Rectifier
from ranking.stats.sandwich import VANISHING, Sandwich


class NoGain(StrEnum):
    """Why the combined board is the people's board."""

    NO_INTERVAL = "no_interval"
    NOTHING_SHARED = "nothing_shared"
    UNINFORMATIVE = "uninformative"
    NO_MAXIMUM = "no_maximum"
    NO_VARIATION = "no_variation"

    @property
    def reason(self) -> str:
        """One sentence for a page."""
        return _REASONS[self]


_REASONS = {
    NoGain.NO_INTERVAL: "People's votes alone carry no interval that a judge could narrow.",
    NoGain.NOTHING_SHARED: "The judge has not scored enough comparisons, people's and others.",
    NoGain.UNINFORMATIVE: "What the judge says does not tell how people vote.",
    NoGain.NO_MAXIMUM: "With the judge's correction no finite scores fit so few votes.",
    NoGain.NO_VARIATION: "With the judge's correction the groups of votes agree exactly.",
}


@dataclass(eq=False)
class PredictionPowered:
    """Bradley-Terry by PPI++: people decide, the judge narrows the interval.

    With g the Bradley-Terry gradient of one comparison x, y people's score of it and f the
    judge's, theta solves

        sum_labelled w g(x, y; theta)
            + lambda * [sum_unlabelled v g(x, f; theta) - sum_labelled kappa w g(x, f; theta)] = 0

    where, in each pair, v is the judge's weight scaled to the sum of ``kappa w`` over the labelled
    comparisons that it has scored, and kappa = N / (N + n) of the pair (see `rectifier`). Both
    samples so stand for the same pairs: **the estimand is the Bradley-Terry fit to endlessly many
    of people's votes, on pairs weighted as the labelled weights weight them**, however the judge's
    pairs were drawn. Weights of 1 are the people's board as it stands; `draw_weights` of the
    stored probabilities make it one on which all pairs count alike. Within a pair, weights of the
    judge matter only if its prompts were drawn unevenly. What must hold is that, pair by pair, the
    judge's comparisons are of the same kind as people's: prompts from one source, and the sides
    balanced in both (or ``by_side=True``).

    The bracket has expectation 0 whatever the judge is like, so a bad one costs precision at most,
    and lambda takes care of that: it minimises the trace of the cluster-robust covariance (the sum
    of the ratings' variances), clipped to 0..1. The weights being alike, the expected scores drop
    out of the bracket: the equations are those of people's votes with shifted scores, and concave.
    A vote that the judge has not scored counts in full and is not corrected; a pair that only one
    of the two samples knows is people's alone, or nobody's.

    Parameters
    ----------
    confidence : of the intervals, t quantiles with G - 1 degrees of freedom; G and G / (G - 1)
        count people's clusters
    tuning : None, or the lambda, 0..1, to use instead; 0 gives the people's board exactly
    model : the `BradleyTerry` to fit; its hyperparameters are used, it is not changed
    by_side : compare like sides with like, for a judge that has read one order only

    Attributes (K candidates; NaN for those that people's votes do not rank)
    ----------
    people_ : `Sandwich` of people's votes alone
    lambda_ : the lambda in use
    ratings_, standard_errors_, low_, high_ : (K,) Elo; NaN errors for an anchor, which is fixed
    theta_ : (K,) natural log-odds, of mean 0 over the ranked
    covariance_ : (K, K), of theta
    gain_ : trace of people's covariance over that of this one: so many times people's votes would
        give the same precision; NaN without an interval
    ranked_, components_, status_ : those of people's votes
    reason_ : `NoInterval` or None
    no_gain_ : `NoGain` where a lambda of 0 was not asked for but came out; else None

    References: Angelopoulos, Duchi and Zrnic 2023, PPI++ and its power tuning; Liang and Zeger
    1986, the clusters.
    """

    confidence: float = 0.95
    tuning: float | None = None
    model: BradleyTerry = field(default_factory=BradleyTerry)
    by_side: bool = False

    def fit(self, labelled: Labelled, unlabelled: Unlabelled) -> "PredictionPowered":
        """Fit both. Raises as `BradleyTerry.fit` does; ValueError where the samples differ."""
        self._check(labelled, unlabelled)
        self.people_ = Sandwich(self.confidence, self.model).fit(labelled.battles)
        self._model = self.people_.model_
        self.ranked_: Bools = self._model.ranked_
        self.components_: Ints = self._model.components_
        self.status_: tuple[Status, ...] = self._model.status_
        self.reason_: NoInterval | None = self.people_.reason_
        self._theta = self._model.theta_[self.ranked_]
        self._covariance = self.people_.covariance_[np.ix_(self.ranked_, self.ranked_)]
        self.lambda_, self.gain_ = 0.0, math.nan if self.reason_ else 1.0
        self.no_gain_: NoGain | None = None
        if self.tuning != 0:
            self.no_gain_ = self._combine(labelled, unlabelled)
        self._publish()
        return self

    def _combine(self, labelled: Labelled, unlabelled: Unlabelled) -> NoGain | None:
        """Put the combined estimate in place of people's; or the reason why not."""
        if self.reason_:
            return NoGain.NO_INTERVAL
        people, judge = among(labelled, self.ranked_), among(unlabelled, self.ranked_)
        rectifier = Rectifier.of(people, judge, self.by_side)
        if not rectifier.shared:
            return NoGain.NOTHING_SHARED
        weight = rectifier.tuned(self._theta) if self.tuning is None else self.tuning
        try:
            theta = rectifier.solve(self._theta, weight)
        except NotConverged:
            return NoGain.NO_MAXIMUM
        covariance = rectifier.covariance(theta, weight)
        return self._accept(theta, covariance * small_sample(self.people_.n_clusters_) ** 2, weight)

    def _accept(self, theta: Floats, covariance: Floats, weight: float) -> NoGain | None:
        before, after = (_vanishing(self._model, c) for c in (self._covariance, covariance))
        if (after & ~before).any():
            return NoGain.NO_VARIATION
        gain = float(self._covariance.trace() / covariance.trace())
        if self.tuning is None and (weight == 0 or gain < 1):
            return NoGain.UNINFORMATIVE
        self._theta, self._covariance, self.lambda_, self.gain_ = theta, covariance, weight, gain
        return None

    def _publish(self) -> None:
        model, theta, covariance = self._model, self._theta, self._covariance
        self.theta_: Floats = model.spread(theta)
        self.ratings_: Floats = model.spread(model.elo(theta))
        self.covariance_: Floats = model.spread_square(covariance)
        self.standard_errors_: Floats = model.spread(_errors(model, covariance))
        quantile = math.nan
        if self.reason_ is None:
            quantile = t_quantile(self.confidence, self.people_.n_clusters_)
        reach = quantile * self.standard_errors_
        self.low_: Floats = self.ratings_ - reach
        self.high_: Floats = self.ratings_ + reach

    def _check(self, labelled: Labelled, unlabelled: Unlabelled) -> None:
        check_confidence(self.confidence)
        if self.tuning is not None and not 0 <= self.tuning <= 1:
            raise ValueError(f"tuning must be from 0 to 1 or None, not {self.tuning}")
        told, most = unlabelled.n_candidates, labelled.n_candidates
        if told > most:
            raise ValueError(f"unlabelled has {told} candidates where labelled has {most}")
        if (labelled.cluster is None) != (unlabelled.cluster is None):
            raise ValueError("cluster must be given for both labelled and unlabelled, or neither")


def _errors(model: BradleyTerry, covariance: Floats) -> Floats:
    """(R,) Elo; of the difference to the anchor where there is one, NaN where nothing varies."""
    variance = covariance.diagonal().copy()
    place = model.anchor_place
    if place is not None:
        variance += variance[place] - 2 * covariance[place]
    errors: Floats = np.sqrt(variance.clip(min=0)) * model.elo_per_theta
    errors[errors < VANISHING] = np.nan
    return errors


def _vanishing(model: BradleyTerry, covariance: Floats) -> Bools:
    """(R,): who has no error to show; the anchor is one."""
    return np.isnan(_errors(model, covariance))
