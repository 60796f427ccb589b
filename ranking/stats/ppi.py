"""Prediction-powered inference (PPI++): a judge's verdicts make human votes more precise.

People decide the scores. The judge's errors are measured where people voted too, and correct its
verdicts elsewhere.
"""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.stats import arrays
from ranking.stats.arrays import Bools, Floats, Ints, summed
from ranking.stats.battles import Pairs
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError, maximise, pseudo_inverse
from ranking.stats.connectivity import Status
from ranking.stats.intervals import (
    VANISHING,
    NoInterval,
    Sandwich,
    check_confidence,
    contrasts,
    dense,
    normal_quantile,
    semi_definite,
    small_sample,
    t_quantile,
)
from ranking.stats.judged import Labelled, Unlabelled, among

# For a pair of candidates (within a stratum), let W' be the weight of the human votes on
# comparisons that the judge scored too, U the weight of the comparisons that only the judge scored,
# and f' and f the judge's mean scores in the two samples. The rectifier adds to the pair's human
# score lambda times
#
#     W' * kappa * (f - f'),    kappa = U / (U + W'),
#
# which is W' times (the judge's mean score for the pair - its mean where people voted). The
# expectation is 0 for any judge, and kappa is the optimal lambda of Angelopoulos, Duchi and Zrnic
# 2023, 1 / (1 + n / N), for each pair. That holds if the judge's own prompts are of the same kind
# as people's. If they are not, the judge's scores on the two show it: see `Rectifier.alike`.

FEWEST = 1.5  # effective clusters in a pair's mean; fewer do not show their variation
ALIKE = 0.9  # confidence of each candidate's test for prompts of another kind
SLACK = 0.02  # of a variance, by which tuning may let it grow before it is cut back
ROUNDING = 1e-12  # a smaller gain, or deviation of a score from the mean, is 0


@dataclass(frozen=True, eq=False)
class Rectifier:
    """R = n + N comparisons, the n human votes first, oriented so that ``first < second``.

    Attributes
    ----------
    pairs : human votes alone; weights are normalised to a mean of 1
    first, second, unit : (R,) candidates, and codes of the cluster
    score, weight : (n,) of the human votes
    correction : (R,) the row's addition to its pair's score, per unit of lambda
    influence : (R,) the correction, enlarged because the row is part of its pair's mean; used for
        variances
    shared : whether any pair has enough votes in both samples to be corrected
    contrast : (R,) as ``correction``, but between prompts with human votes and all others
    """

    pairs: Pairs
    first: Ints
    second: Ints
    unit: Ints
    score: Floats
    weight: Floats
    correction: Floats
    influence: Floats
    shared: bool
    contrast: Floats

    @classmethod
    def of(
        cls, people: Labelled, judge: Unlabelled, by_side: bool, left_out: Bools | None = None
    ) -> "Rectifier":
        """Compare the two samples per pair and stratum, or with ``by_side`` also per side.

        ``left_out``: (K,) mask of candidates that are compared on prompts with human votes only.
        """
        n, size = len(people), people.n_candidates
        left, right = _joined(people.left, judge.left), _joined(people.right, judge.right)
        turned = left > right
        first, second = np.where(turned, right, left), np.where(turned, left, right)
        weight = _joined(_normalised(people.weight), _normalised(judge.weight))
        score = np.where(turned[:n], 1 - people.score, people.score)
        predicted = _joined(people.predicted, judge.predicted)
        predicted = np.where(turned, 1 - predicted, predicted)
        pair = left * size + right if by_side else first * size + second
        if people.stratum is not None and judge.stratum is not None:
            stratum, _ = arrays.codes(_joined(people.stratum, judge.stratum))
            pair = stratum * size**2 + pair
        unit = _units(people, judge)
        is_human, voted = np.arange(len(unit)) < n, np.isin(unit, unit[:n])
        if left_out is not None:
            predicted[(left_out[first] | left_out[second]) & ~voted] = np.nan
        corrected = _corrections(pair, unit, weight, predicted, is_human)
        contrast, *_ = _corrections(pair, unit, weight, predicted, voted)
        pairs = Pairs.total(size, first[:n], second[:n], score, weight[:n])
        return cls(pairs, first, second, unit, score, weight[:n], *corrected, contrast)

    def solve(self, start: Floats, weight: float) -> Floats:
        """(K,) where the human gradient plus ``weight`` times the rectifier is 0 (Newton's method).

        Raises NotConvergedError if there is no such point because a shifted score is out of range.
        """
        live = np.flatnonzero(self.correction)
        place = self.pairs.locate(self.first[live], self.second[live])
        shift = summed(place, self.correction[live], len(self.pairs.first))
        shifted = replace(self.pairs, score=self.pairs.score + weight * shift)
        return maximise(shifted, start=start)[0]

    def alike(self) -> tuple[Bools, Floats]:
        """(K,) the candidates that fare differently on the judge's own prompts, and the doubt.

        For each candidate, the judge's scores on prompts with human votes and on all others are
        compared within pairs, as the rectifier compares them: with prompts of the same kind, only
        chance makes a difference, whatever the judge is like (score test; Rao 1948). The largest
        difference is left out first, because it causes opposite ones for its opponents. The doubt
        is how close the others come to that (squared), from 0 to 1; 1 for those left out.
        """
        contrast, most = self.contrast, normal_quantile(ALIKE)
        left_out: Bools = np.zeros(self.pairs.n_candidates, np.bool_)
        while True:
            moved = dense(self._per_cluster(contrast))
            chance = np.sqrt((moved**2).sum(axis=0))
            z = np.abs(moved.sum(axis=0)) / np.where(chance > 0, chance, np.inf)
            if z.max() <= most:
                return left_out, np.where(left_out, 1, (z / most) ** 2)
            left_out[z.argmax()] = True
            contrast = contrast * ~(left_out[self.first] | left_out[self.second])

    def tuned(self, theta: Floats, relative: Floats) -> float:
        """The lambda from 0 to 1 that minimises the covariance's trace, quadratic in lambda.

        It is smaller if it would make the error of some rating, a combination ``relative`` (K, K)
        of theta, larger than it is with human votes alone.
        """
        people, judge = self._people(theta), self._judge
        bread = pseudo_inverse(self.pairs.information(theta))
        steep, slope = dense(judge.T @ judge), dense(people.T @ judge)
        square = bread @ bread  # trace(bread M bread) = sum(M * square)
        if not (steep * square).sum() > 0:
            return 0.0
        best = -float((slope * square).sum() / (steep * square).sum())
        variances = _variances(relative @ bread, dense(people.T @ people))
        steep, slope = (_variances(relative @ bread, matrix) for matrix in (steep, slope))
        root = np.sqrt(slope**2 + SLACK * variances * steep)
        most = np.divide(root - slope, steep, out=np.ones(len(variances)), where=steep > 0).min()
        return min(max(best, 0.0), float(most), 1.0)

    def covariance(self, theta: Floats, weight: float) -> Floats:
        """(K, K): the sandwich over clusters, with gradients from both samples."""
        bread = pseudo_inverse(self.pairs.information(theta))
        share = self._people(theta) + weight * self._judge
        covariance: Floats = bread @ dense(share.T @ share) @ bread
        return covariance

    def _people(self, theta: Floats) -> Any:
        """(G, K): each cluster's share of the human gradient at theta."""
        n = len(self.score)
        place = self.pairs.locate(self.first[:n], self.second[:n])
        return self._per_cluster(
            self.weight * (self.score - self.pairs.win_probability(theta)[place])
        )

    @cached_property
    def _judge(self) -> Any:
        """(G, K): each cluster's share of the rectifier, which does not depend on theta."""
        return self._per_cluster(self.influence)

    def _per_cluster(self, value: Floats) -> Any:
        n = len(value)
        shape = (int(self.unit.max(initial=-1)) + 1, self.pairs.n_candidates)
        return contrasts(self.unit[:n], self.first[:n], self.second[:n], value, shape)


def _variances(by: Floats, matrix: Floats) -> Floats:
    """(K,): the diagonal of ``by @ matrix @ by.T``."""
    variances: Floats = ((by @ matrix) * by).sum(axis=1)
    return variances


def _corrections(
    stratum: Ints, unit: Ints, weight: Floats, predicted: Floats, is_human: Bools
) -> tuple[Floats, Floats, bool]:
    """(R,) corrections and influences, 0 without a verdict or a mean; and whether any is usable."""
    correction, influence = np.zeros(len(predicted)), np.zeros(len(predicted))
    live = np.flatnonzero(~np.isnan(predicted))
    place, size = arrays.codes(stratum[live])
    weight, predicted = weight[live], predicted[live]
    is_human = is_human[live]
    labelled = summed(place, np.where(is_human, weight, 0), size)
    total = summed(place, weight, size)
    kappa = 1 - labelled / total
    clusters = _effective(place, unit[live], weight, total)
    usable = (labelled > 0) & (kappa > 0) & (clusters >= FEWEST)
    part = np.where(is_human, -kappa[place], 1 - kappa[place]) * usable[place]
    deviation = predicted - (summed(place, weight * predicted, size) / total)[place]
    deviation[np.abs(deviation) < ROUNDING] = 0
    correction[live] = part * weight * deviation
    # A mean of m clusters is pulled towards each of them, so deviations from it are too small.
    enlarged = np.sqrt(clusters / np.where(usable, clusters - 1, clusters))
    influence[live] = correction[live] * enlarged[place]
    return correction, influence, bool(usable.any())


def _effective(place: Ints, unit: Ints, weight: Floats, total: Floats) -> Floats:
    """The effective number of clusters behind each mean, given unequal weights (Kish 1965)."""
    cell, n_cells = arrays.codes(place * (int(unit.max(initial=0)) + 1) + unit)
    inside = summed(cell, weight, n_cells)
    place_of = np.zeros(n_cells, np.int64)
    place_of[cell] = place
    effective: Floats = 1 / summed(place_of, (inside / total[place_of]) ** 2, len(total))
    return effective


def _units(people: Labelled, judge: Unlabelled) -> Ints:
    if people.cluster is None or judge.cluster is None:
        return np.arange(len(people) + len(judge))
    return arrays.codes(_joined(people.cluster, judge.cluster))[0]


def _normalised(weight: Floats) -> Floats:
    return weight / weight.mean() if len(weight) else weight


def _joined(people: NDArray[Any], judge: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([people, judge])


class NoGain(StrEnum):
    """Why the combined board equals the human-votes board."""

    NO_INTERVAL = "no_interval"
    FEW_PROMPTS = "few_prompts"
    NOTHING_SHARED = "nothing_shared"
    OTHER_PROMPTS = "other_prompts"
    UNINFORMATIVE = "uninformative"
    NO_MAXIMUM = "no_maximum"
    NO_VARIATION = "no_variation"

    @property
    def reason(self) -> str:
        """One sentence for a page."""
        return _REASONS[self]


_REASONS = {
    NoGain.NO_INTERVAL: "The human votes alone have no interval that a judge could narrow.",
    NoGain.FEW_PROMPTS: "People voted on too few known prompts for a judge to narrow their "
    "intervals.",
    NoGain.NOTHING_SHARED: "The judge has not scored enough comparisons with and without human "
    "votes.",
    NoGain.OTHER_PROMPTS: "The prompts that only the judge has seen differ in kind from those "
    "that people voted on: by the judge's own verdicts, the candidates fare differently on them.",
    NoGain.UNINFORMATIVE: "The judge's verdicts would not narrow the intervals: they are too few "
    "where nobody voted, or say too little about human votes that the scores do not say already.",
    NoGain.NO_MAXIMUM: "With the judge's correction, no finite scores fit so few votes.",
    NoGain.NO_VARIATION: "With the judge's correction, all groups of votes agree exactly.",
}


@dataclass(eq=False)
class PredictionPowered:
    """Bradley-Terry by PPI++: people decide the scores, the judge narrows the intervals.

    With g the Bradley-Terry gradient of one comparison x, y its human score and f the judge's,
    theta solves

        sum_labelled w g(x, y; theta)
            + lambda * [sum_unlabelled v g(x, f; theta) - sum_labelled kappa w g(x, f; theta)] = 0

    where, in each pair, v is the judge's weight scaled to the sum of ``kappa w`` over the labelled
    comparisons that it has scored, and kappa = N / (N + n) of the pair (see `Rectifier`). So both
    samples stand for the same pairs: **the estimand is the Bradley-Terry fit to infinitely many
    human votes, with pairs weighted as the labelled weights weight them**, however the judge's
    pairs were drawn. Weights of 1 give the human-votes board as it is; `draw_weights` of the stored
    probabilities make all pairs count equally. Within a pair, the judge's weights matter only if
    its prompts were drawn unevenly. The assumption is that, pair by pair, the judge's comparisons
    are of the same kind as people's: prompts from one source, and sides balanced in both (or
    ``by_side=True``). Within strata, such as categories of prompts, each stratum needs it for
    itself, and those without human votes are not used. It is tested for each candidate: if a
    candidate fares differently on the judge's own prompts, only people's prompts count in the
    bracket, and the stronger the evidence of that, the closer its error is to the one with human
    votes alone (`Rectifier.alike`).

    The bracket has expectation 0 whatever the judge is like, so a bad judge can only cost
    precision, which lambda prevents: it minimises the trace of the cluster-robust covariance (the
    sum of the ratings' variances), clipped to 0..1 and to where no rating's error is more than 1 %
    larger than with human votes alone; that excess is then cut. With equal weights the expected
    scores cancel out of the bracket: the equations are those of human votes with shifted scores,
    and concave. A vote that the judge has not scored counts in full and is not corrected; a pair in
    only one of the two samples is not corrected.

    Parameters
    ----------
    confidence : of the intervals, t quantiles with G - 1 degrees of freedom; G is the effective
        number of clusters of human votes
    tuning : None, or a fixed lambda from 0 to 1; 0 gives the human-votes board exactly
    model : a `BradleyTerry` with the hyperparameters to use; it is not changed
    by_side : compare per side, for a judge that saw each pair in one order only

    Attributes (K candidates; NaN for those that human votes do not rank)
    ----------
    people_ : `Sandwich` of the human votes alone
    lambda_ : the lambda that was used
    ratings_, standard_errors_, low_, high_ : (K,) Elo; NaN errors for an anchor, which is fixed
    theta_ : (K,) natural log-odds, of mean 0 over the ranked
    covariance_ : (K, K), of theta
    gain_ : trace of the covariance from human votes alone divided by this one's: how many times as
        many human votes would give the same precision; NaN without an interval
    ranked_, components_, status_ : those of the human votes
    reason_ : `NoInterval` or None
    no_gain_ : `NoGain` if lambda is 0 although ``tuning`` is not, else None
    left_out_ : (K,) mask: the candidates that fare differently on the judge's own prompts

    References: Angelopoulos, Duchi and Zrnic 2023 for PPI++ and its power tuning; Liang and Zeger
    1986 for the clusters.
    """

    confidence: float = 0.95
    tuning: float | None = None
    model: BradleyTerry = field(default_factory=BradleyTerry)
    by_side: bool = False

    def fit(
        self,
        labelled: Labelled,
        unlabelled: Unlabelled,
        crossed: Sandwich | None = None,
        published: Bootstrap | None = None,
    ) -> "PredictionPowered":
        """Fit both samples. Raises as `BradleyTerry.fit`; ValueError if they do not match.

        ``crossed``: a fitted sandwich of the human votes with a second grouping, such as by rater.
        Judges cannot reduce what that adds to the covariance, so it is added here too; but no error
        becomes larger than it is with human votes alone. ``published``: a bootstrap of the human
        votes, whose intervals are then scaled by the errors, so that none becomes wider.
        """
        check_confidence(self.confidence)
        if self.tuning is not None and not 0 <= self.tuning <= 1:
            raise ValueError(f"tuning must be from 0 to 1 or None, not {self.tuning}")
        n_judged, n_voted = unlabelled.n_candidates, labelled.n_candidates
        if n_judged > n_voted:
            raise ValueError(f"unlabelled has {n_judged} candidates where labelled has {n_voted}")
        if (labelled.cluster is None) != (unlabelled.cluster is None):
            raise ValueError("cluster must be given for both labelled and unlabelled, or neither")
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
        self.left_out_: Bools = np.zeros(len(self.ranked_), np.bool_)
        if self.tuning != 0:
            self.no_gain_ = self._combine(labelled, unlabelled)
        if crossed is not None:
            self._cross(crossed)
        model, theta, covariance = self._model, self._theta, self._covariance
        self.theta_: Floats = model.spread(theta)
        self.ratings_: Floats = model.spread(model.elo(theta))
        self.covariance_: Floats = model.spread_square(covariance)
        self.standard_errors_: Floats = model.spread(_rating_errors(model, covariance))
        quantile = math.nan
        if self.reason_ is None:
            quantile = t_quantile(self.confidence, self.people_.n_clusters_)
        reach = quantile * self.standard_errors_
        self.low_: Floats = self.ratings_ - reach
        self.high_: Floats = self.ratings_ + reach
        if published is not None:
            share = self.standard_errors_ / self.people_.standard_errors_
            self.low_ = self.ratings_ - share * (published.ratings_ - published.low_)
            self.high_ = self.ratings_ + share * (published.high_ - published.ratings_)
            self.standard_errors_ = share * published.standard_errors_
        return self

    def _cross(self, crossed: Sandwich) -> None:
        place = np.ix_(self.ranked_, self.ranked_)
        wider, by_prompt = crossed.covariance_[place], self.people_.covariance_[place]
        self.people_, self.reason_ = crossed, crossed.reason_
        if self.reason_:
            self.gain_ = math.nan
        if self.no_gain_ is NoGain.NO_INTERVAL and not self.reason_:
            self.no_gain_ = NoGain.FEW_PROMPTS
        if self.lambda_:
            added = semi_definite(wider - by_prompt)
            self._covariance = _capped(self._covariance + added, wider)
        else:
            self._covariance = wider
        if not self.reason_:
            self.gain_ = float(wider.trace() / self._covariance.trace())

    def _combine(self, labelled: Labelled, unlabelled: Unlabelled) -> NoGain | None:
        """Replace the human estimate by the combined one; or return why not."""
        if self.reason_:
            return NoGain.NO_INTERVAL
        people, judge = among(labelled, self.ranked_), among(unlabelled, self.ranked_)
        rectifier = Rectifier.of(people, judge, self.by_side)
        if not rectifier.shared:
            return NoGain.NOTHING_SHARED
        doubt = np.zeros(len(self._theta))
        if self.tuning is None:
            left_out, doubt = rectifier.alike()
            self.left_out_[self.ranked_] = left_out
            if left_out.any():
                rectifier = Rectifier.of(people, judge, self.by_side, left_out)
            if not rectifier.shared:
                return NoGain.OTHER_PROMPTS
        weight = self.tuning
        if weight is None:
            weight = rectifier.tuned(self._theta, _relative(self._model, len(self._theta)))
        try:
            theta = rectifier.solve(self._theta, weight)
        except NotConvergedError:
            return NoGain.NO_MAXIMUM
        covariance = rectifier.covariance(theta, weight)
        n_clusters = labelled.battles.among(self.ranked_).n_clusters
        covariance *= small_sample(n_clusters) ** 2
        if self.tuning is None:  # the errors at theta differ a little from those tuned for
            covariance = _capped(covariance, self._covariance, doubt)
        return self._accept(theta, covariance, weight)

    def _accept(self, theta: Floats, covariance: Floats, weight: float) -> NoGain | None:
        before, after = (
            np.isnan(_rating_errors(self._model, c)) for c in (self._covariance, covariance)
        )
        if (after & ~before).any():
            return NoGain.NO_VARIATION
        gain = float(self._covariance.trace() / covariance.trace())
        if self.tuning is None and (weight == 0 or gain < 1 + ROUNDING):
            return NoGain.UNINFORMATIVE
        self._theta, self._covariance, self.lambda_, self.gain_ = theta, covariance, weight, gain
        return None


def _capped(covariance: Floats, most: Floats, doubt: Floats | float = 0.0) -> Floats:
    """The covariance, rows and columns scaled so that no error is above that of ``most``.

    Smaller ones come closer to it by the share ``doubt``, (K,).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.sqrt(most.diagonal() / covariance.diagonal())
    scale = np.where(scale < 1, scale, 1 + (np.where(scale > 1, scale, 1.0) - 1) * doubt)
    scale = np.where(np.isfinite(scale), scale, 1.0)
    capped: Floats = covariance * np.outer(scale, scale)
    return capped


def _relative(model: BradleyTerry, size: int) -> Floats:
    """(R, R): the map from theta to ratings, which are relative to the anchor if there is one."""
    relative = np.eye(size)
    if model.anchor_place is not None:
        relative[:, model.anchor_place] -= 1
    return relative


def _rating_errors(model: BradleyTerry, covariance: Floats) -> Floats:
    """(R,) standard errors in Elo, relative to any anchor; NaN for ratings that do not vary."""
    variance = covariance.diagonal().copy()
    place = model.anchor_place
    if place is not None:
        variance += variance[place] - 2 * covariance[place]
    errors: Floats = np.sqrt(variance.clip(min=0)) * model.elo_per_theta
    errors[errors < VANISHING] = np.nan
    return errors
