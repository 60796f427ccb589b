"""Bradley-Terry beside style: scores for answers of equal length, headings, lists and bold."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats import columns
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.columns import Bools, Floats, Ints
from ranking.stats.connectivity import Status
from ranking.stats.identified import NoStyle
from ranking.stats.intervals import NoInterval, check_confidence, t_quantile, why_none
from ranking.stats.sandwich import VANISHING
from ranking.stats.styled_fit import StyledFit, fit_style
from ranking.stats.styled_votes import StyledVotes


def style_differences(of_left: ArrayLike, of_right: ArrayLike) -> Floats:
    """(n, F): (left - right) / (left + right), from -1 to 1; 0 where both sides have none.

    Parameters
    ----------
    of_left, of_right : (n, F) counts of each answer: words, headings, list items, bold spans

    Raises ValueError where they are not (n, F) alike, finite and not negative.
    Reference: Li, Angelopoulos and Chiang 2024, "Does style matter?".
    """
    left, right = _table("of_left", of_left), _table("of_right", of_right)
    if left.shape != right.shape:
        raise ValueError(f"of_right is of shape {right.shape} where of_left is of {left.shape}")
    for name, table in (("of_left", left), ("of_right", right)):
        if (table < 0).any():
            raise ValueError(f"{name} must not be negative")
    both = left / 2 + right / 2  # halves, so that nothing overflows
    return np.divide(left / 2 - right / 2, both, out=np.zeros_like(both), where=both > 0)


@dataclass(eq=False)
class StyledBradleyTerry:
    """Bradley-Terry with F coefficients for style that all candidates share.

    The log-odds of a vote are theta_left - theta_right + sum of coefficient * difference, each
    difference divided by its standard deviation about 0 (its sign depends on which answer stands
    on the left, so 0 is its middle). A score is then what a candidate is worth among answers of
    one style, and a coefficient how much votes move with a standard deviation of style.

    Parameters
    ----------
    scale : Elo points that stand for odds of 10 to 1
    center : the mean rating of the ranked candidates
    confidence : of the intervals, which use t quantiles with G - 1 degrees of freedom

    Attributes (K candidates, F features; NaN wherever something cannot be known)
    ----------
    ratings_, standard_errors_, low_, high_ : (K,) Elo
    theta_ : (K,) natural log-odds, of mean 0 over the ranked
    coefficients_, coefficient_errors_, coefficient_low_, coefficient_high_ : (F,) natural log-odds
        per standard deviation
    deviations_ : (F,) the standard deviations; 0 for a feature that is 0 throughout
    coefficient_status_ : F of `NoStyle` or None, why a coefficient is not known
    covariance_ : (K, K) of theta with mean 0, cluster-robust with G / (G - 1)
    log_likelihood_ : float, nats, over the votes between ranked candidates
    status_, ranked_, components_ : as `BradleyTerry` has
    reason_ : `NoStyle` where there are no scores, `NoInterval` where there are no intervals, None
    n_clusters_ : G, between ranked candidates
    converged_, n_iter_ : True, and the Newton steps taken: a fit that does not settle raises
    """

    scale: float = 400.0
    center: float = 1000.0
    confidence: float = 0.95

    def fit(
        self,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        features: ArrayLike,
        weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        n_candidates: int | None = None,
        count: ArrayLike | None = None,
    ) -> "StyledBradleyTerry":
        """Fit n votes: as `Battles.from_arrays`, with ``features``, (n, F) floats.

        Raises ValueError naming the argument; NotConverged.
        """
        check_confidence(self.confidence)
        battles = Battles.from_arrays(left, right, score, weight, None, n_candidates, count)
        styles = _table("features", features)
        n_votes = len(np.asarray(left))
        if len(styles) != n_votes:
            raise ValueError(f"features has {len(styles)} entries where left has {n_votes}")
        groups = None if cluster is None else columns.integers("cluster", cluster, n_votes)
        plain = BradleyTerry(self.scale, self.center).fit(battles)
        votes = StyledVotes.between(
            plain.ranked_, left, right, score, styles, weight, count, groups
        )
        self.ranked_: Bools = plain.ranked_
        self.components_: Ints = plain.components_
        self.status_: tuple[Status, ...] = plain.status_
        self.n_clusters_ = votes.n_clusters
        no_interval = why_none(votes.n_clusters, bool((votes.score != 0.5).any()))
        self.deviations_, found = _fit(plain, votes, robust=no_interval is None)
        self.coefficient_status_ = tuple(found.status)
        self.log_likelihood_, self.n_iter_, self.converged_ = (
            found.log_likelihood,
            found.n_iter,
            True,
        )
        self.reason_: NoStyle | NoInterval | None = found.reason or no_interval
        self._publish(
            plain, found, 0.0 if no_interval else t_quantile(self.confidence, self.n_clusters_)
        )
        return self

    def _publish(self, plain: BradleyTerry, found: StyledFit, quantile: float) -> None:
        """Spread the parameters and their errors over all candidates and features."""
        size, points = int(plain.ranked_.sum()), plain.elo_per_theta
        errors: Floats = np.sqrt(found.covariance.diagonal().clip(min=0)) * points
        errors[errors < VANISHING] = np.nan
        if self.reason_ is None and np.isnan(errors).all():
            self.reason_ = NoInterval.NO_VARIATION
        self.theta_: Floats = plain.spread(found.x[:size])
        self.ratings_: Floats = plain.spread(plain.elo(found.x[:size]))
        self.standard_errors_: Floats = plain.spread(errors[:size])
        self.low_: Floats = self.ratings_ - quantile * self.standard_errors_
        self.high_: Floats = self.ratings_ + quantile * self.standard_errors_
        self.coefficients_: Floats = found.x[size:]
        self.coefficient_errors_: Floats = errors[size:] / points
        self.coefficient_low_: Floats = self.coefficients_ - quantile * self.coefficient_errors_
        self.coefficient_high_: Floats = self.coefficients_ + quantile * self.coefficient_errors_
        self.covariance_: Floats = plain.spread_square(found.covariance[:size, :size])


def _fit(plain: BradleyTerry, votes: StyledVotes, robust: bool) -> tuple[Floats, StyledFit]:
    """The features' standard deviations, and the fit."""
    n_features = len(votes.features)
    if not plain.ranked_.any():
        return np.full(n_features, np.nan), StyledFit.nothing(0, n_features)
    deviations, varies = votes.standardise()
    return deviations, fit_style(votes, varies, plain.theta_[plain.ranked_], robust)


def _table(name: str, values: ArrayLike) -> Floats:
    """(n, F) finite floats."""
    array = np.asarray(values)
    if array.ndim != 2:
        raise ValueError(f"{name} must be of shape (n, F), not {array.shape}")
    if array.size and array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, not {array.dtype}")
    table = array.astype(np.float64, copy=False)
    finite = np.isfinite(table)
    if not finite.all():
        row = int(np.argmin(finite.all(axis=1)))
        raise ValueError(f"{name} must be finite; row {row} is {table[row].tolist()}")
    return table
