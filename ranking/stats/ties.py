"""The Rao-Kupper model of win, tie and loss, with one parameter for ties."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.arrays import Bools, Floats, Ints
from ranking.stats.battles import Battles, Outcomes, expected_score
from ranking.stats.bradley_terry import BradleyTerry, covariance, maximise_joint
from ranking.stats.connectivity import Status


class NoTieModel(StrEnum):
    """Why there is no Rao-Kupper fit, or only a plain Bradley-Terry one."""

    NOTHING_RANKED = "nothing_ranked"
    NO_TIES = "no_ties"
    ONLY_TIES = "only_ties"
    UNBOUNDED = "unbounded"

    @property
    def reason(self) -> str:
        """One sentence for a page."""
        return _REASONS[self]


_REASONS = {
    NoTieModel.NOTHING_RANKED: "No candidate has a score yet.",
    NoTieModel.NO_TIES: "No vote is a tie, so the model with ties is plain Bradley-Terry.",
    NoTieModel.ONLY_TIES: "Every vote so far is a tie, so any scores fit with enough ties.",
    NoTieModel.UNBOUNDED: "The wins all fit one order in which only close candidates tie, so no "
    "finite tie parameter fits best.",
}


class Chances(NamedTuple):
    """Probabilities that add up to 1, each of the broadcast shape."""

    win: Floats
    tie: Floats
    loss: Floats


@dataclass(eq=False)
class RaoKupper:
    """Bradley-Terry with ties: P(win) = 1 / (1 + exp(eta - gap)), P(loss) the same for -gap.

    A vote is decisive if one side is better by more than a threshold ``eta >= 0`` (log nu in the
    paper), in units of theta; the rest are ties, with probability ``(exp(2 eta) - 1) P(win)
    P(loss)``. Scores must be 0, a half or 1. A weight multiplies the logarithm of its vote's
    probability, so a weight of 2 is a vote cast twice, also in the errors.

    Parameters
    ----------
    scale : Elo points for odds of 10 to 1
    center : the mean rating of the ranked candidates

    Attributes (K candidates; NaN for the unranked, and everywhere without a maximum)
    ----------
    ratings_ : (K,) Elo
    theta_ : (K,) natural log-odds, of mean 0 over the ranked
    eta_ : float, the tie parameter; 0 without ties
    standard_errors_ : (K,) Elo, from the inverse information, as if votes were independent
    eta_error_ : float, the standard error of eta; NaN if eta is 0, at the edge of its range
    covariance_ : (K, K), of theta with mean 0
    log_likelihood_ : float, nats, over the votes between ranked candidates
    ranked_, components_, status_ : as in `BradleyTerry`
    reason_ : `NoTieModel` or None. With NO_TIES the fit is Bradley-Terry; with others there is none
    converged_, n_iter_ : True, and the number of Newton steps; `fit` raises if it does not converge

    Reference: Rao and Kupper 1967.
    """

    scale: float = 400.0
    center: float = 1000.0

    def fit(self, battles: Battles) -> "RaoKupper":
        """Fit the largest strongly connected component; votes with others are ignored.

        Raises ValueError for scores other than 0, a half and 1, and as `BradleyTerry.fit` does.
        """
        if not np.isin(battles.score, (0, 0.5, 1)).all():
            raise ValueError("score must be 0, 0.5 or 1 in a model of wins, ties and losses")
        plain = BradleyTerry(self.scale, self.center).fit(battles)
        self.ranked_: Bools = plain.ranked_
        self.components_: Ints = plain.components_
        self.status_: tuple[Status, ...] = plain.status_
        self.converged_ = True
        outcomes = Outcomes.count(battles.among(plain.ranked_))
        self.reason_ = _why_none(outcomes)
        size = outcomes.n_candidates
        x, spread = np.full(size + 1, np.nan), np.full((size + 1, size + 1), np.nan)
        self.n_iter_, self.log_likelihood_ = 0, math.nan
        if self.reason_ is None:
            start = np.append(plain.theta_[plain.ranked_], outcomes.typical_eta())
            x, _, self.n_iter_ = maximise_joint(
                outcomes.derivatives, start, outcomes.derivatives(start), size, lowest=0.0
            )
            spread = covariance(outcomes.derivatives(x)[1], size)
            self.log_likelihood_ = outcomes.log_likelihood(x)
        elif self.reason_ is NoTieModel.NO_TIES:
            x = np.append(plain.theta_[plain.ranked_], 0.0)
            spread[:size, :size] = plain.covariance_[np.ix_(plain.ranked_, plain.ranked_)]
            self.n_iter_, self.log_likelihood_ = plain.n_iter_, plain.log_likelihood_
        errors: Floats = np.sqrt(spread.diagonal())
        self.theta_: Floats = plain.spread(x[:-1])
        self.ratings_: Floats = plain.spread(plain.elo(x[:-1]))
        self.eta_ = float(x[-1])
        self.covariance_: Floats = plain.spread_square(spread[:-1, :-1])
        self.standard_errors_: Floats = plain.spread(errors[:-1] * plain.elo_per_theta)
        self.eta_error_ = float(errors[-1])
        return self

    def probabilities(self, i: ArrayLike, j: ArrayLike) -> Chances:
        """The probabilities of win, tie and loss of i against j.

        ``i`` and ``j``: candidates or integer arrays of them, broadcast against each other. NaN if
        one of them is unranked. Raises ValueError for an index out of range.
        """
        apart = self._strength("i", i) - self._strength("j", j)
        gap, eta = np.ravel(apart), self.eta_
        win, loss = expected_score(gap - eta), expected_score(-gap - eta)
        tie = -math.expm1(-2 * eta) * expected_score(eta - gap) * expected_score(eta + gap)
        return Chances(*(chance.reshape(np.shape(apart)) for chance in (win, tie, loss)))

    def _strength(self, name: str, index: ArrayLike) -> Floats:
        array = np.asarray(index)
        size = len(self.theta_)
        if array.dtype.kind not in "iu" or ((array < 0) | (array >= size)).any():
            raise ValueError(f"{name} must hold integers from 0 to {size - 1}")
        strength: Floats = self.theta_[array]
        return strength


def _why_none(outcomes: Outcomes) -> NoTieModel | None:
    if not len(outcomes.first):
        return NoTieModel.NOTHING_RANKED
    if not outcomes.tied.any():
        return NoTieModel.NO_TIES
    if not (outcomes.won.any() or outcomes.lost.any()):
        return NoTieModel.ONLY_TIES
    return None if outcomes.has_maximum() else NoTieModel.UNBOUNDED
