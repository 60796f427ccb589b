"""Bradley-Terry strengths by maximum likelihood, ties as half a win each way."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ranking.stats.battles import Battles
from ranking.stats.columns import Bools, Floats, Ints
from ranking.stats.connectivity import Status, connect
from ranking.stats.newton import maximise, pseudo_inverse


@dataclass(eq=False)
class BradleyTerry:
    """Bradley-Terry on the Elo scale: rating = center + scale / ln 10 * theta.

    Parameters
    ----------
    scale : Elo points that stand for odds of 10 to 1
    center : the mean rating of the ranked candidates, or the anchor's rating
    anchor : index of the candidate fixed at ``center``; while it is unranked the mean is used

    Attributes (K candidates; NaN wherever a candidate is not ranked)
    ----------
    ratings_ : (K,) Elo
    theta_ : (K,) natural log-odds, of mean 0 over the ranked
    ranked_ : (K,) bool
    components_ : (K,) int, strongly connected components; 0 is the largest, the ranked one
    status_ : K of `Status`, each with a ``reason``
    anchored_ : bool, whether the anchor could be used
    log_likelihood_ : float, nats, over the votes between ranked candidates; NaN without any
    covariance_ : (K, K) inverse information of theta, as if votes were independent
    converged_, n_iter_ : True, and the Newton steps taken: a fit that does not settle raises

    References: Bradley and Terry 1952; Hunter 2004 for the conditions of a maximum.
    """

    scale: float = 400.0
    center: float = 1000.0
    anchor: int | None = None

    def fit(self, battles: Battles, start: Floats | None = None) -> "BradleyTerry":
        """Rank the largest connected part. Votes with the unranked count for nobody.

        ``start``: (K,) strengths to begin from, such as the ``theta_`` of a fit to a few votes
        less; NaN is taken as 0. It saves steps and changes no result.
        Raises NotConverged; ValueError where an argument or hyperparameter makes no sense.
        """
        self._check(battles.n_candidates)
        begin = _start(start, battles.n_candidates)
        for name in ("covariance_", "log_likelihood_"):
            vars(self).pop(name, None)
        found = connect(battles.wins())
        self.ranked_: Bools = found.ranked
        self.components_: Ints = found.components
        self.status_: tuple[Status, ...] = found.status
        self.anchored_ = self.anchor is not None and bool(found.ranked[self.anchor])
        self._pairs = battles.among(found.ranked).pairs
        theta, self.n_iter_ = np.zeros(0), 0
        if found.ranked.any():
            theta, self.n_iter_ = maximise(self._pairs, begin[found.ranked])
        self.converged_ = True
        self.theta_: Floats = self.spread(theta)
        self.ratings_: Floats = self.spread(self.elo(theta))
        return self

    @cached_property
    def log_likelihood_(self) -> float:
        """Nats, over the votes between ranked candidates; NaN without any."""
        theta = self.theta_[self.ranked_]
        return self._pairs.log_likelihood(theta) if len(theta) else math.nan

    @cached_property
    def covariance_(self) -> Floats:
        """(K, K): covariance of theta by the inverse information; NaN for the unranked."""
        theta = self.theta_[self.ranked_]
        if not len(theta):
            return np.full((len(self.ranked_),) * 2, np.nan)
        return self.spread_square(pseudo_inverse(self._pairs.information(theta)))

    @property
    def anchor_place(self) -> int | None:
        """Where the anchor stands among the ranked; None where the mean is fixed instead."""
        return int(self.ranked_[: self.anchor].sum()) if self.anchored_ else None

    @property
    def elo_per_theta(self) -> float:
        """Elo points per unit of theta."""
        return self.scale / math.log(10)

    def elo(self, theta: Floats) -> Floats:
        """Elo of the ranked candidates' strengths, (..., R), each set by itself."""
        if not theta.size:
            return theta
        place = self.anchor_place
        zero = theta.mean(axis=-1, keepdims=True) if place is None else theta[..., [place]]
        elo: Floats = self.center + self.elo_per_theta * (theta - zero)
        return elo

    def spread(self, values: Floats) -> Floats:
        """(..., R) values of the ranked as (..., K), NaN for the others."""
        wide = np.full((*values.shape[:-1], len(self.ranked_)), np.nan)
        wide[..., self.ranked_] = values
        return wide

    def spread_square(self, values: Floats) -> Floats:
        """(R, R) values of the ranked as (K, K), NaN for the others."""
        wide = np.full((len(self.ranked_),) * 2, np.nan)
        wide[np.ix_(self.ranked_, self.ranked_)] = values
        return wide

    def _check(self, n_candidates: int) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number, not {self.scale}")
        if not math.isfinite(self.center):
            raise ValueError(f"center must be a finite number, not {self.center}")
        if self.anchor is not None and not 0 <= self.anchor < n_candidates:
            raise ValueError(f"anchor must be from 0 to {n_candidates - 1}, not {self.anchor}")


def _start(start: Floats | None, n_candidates: int) -> Floats:
    if start is None:
        return np.zeros(n_candidates)
    if np.shape(start) != (n_candidates,) or np.isinf(start).any():
        raise ValueError(f"start must hold {n_candidates} strengths that are not infinite")
    return np.nan_to_num(np.asarray(start, np.float64))
