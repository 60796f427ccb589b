"""Maximum-likelihood Bradley-Terry strengths, and observed win matrices.

A tie is half a win for each side. Strengths are natural log-odds, theta. `maximise_joint` fits
models with further parameters that all candidates share, such as ties or style.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ranking.stats.arrays import Bools, Floats, Ints, summed
from ranking.stats.battles import Battles, Pairs
from ranking.stats.connectivity import Status, connect

LONGEST_STEP = 4.0  # of theta: odds of 55 to 1
NEAR = 0.001  # of theta; after a step this short, the remaining steps reuse its information
FINAL_STEPS = 8
REMAINS = 0.001  # of the tolerance; a next step predicted to be shorter is skipped


class NotConvergedError(ArithmeticError):
    """The iteration did not converge, so there is no result."""


def maximise(
    pairs: Pairs, start: Floats | None = None, tol: float = 1e-9, max_iter: int = 100
) -> tuple[Floats, int]:
    """The maximum-likelihood strengths (K,), of mean 0, and the number of Newton steps.

    The candidates must be strongly connected by wins, or there is no maximum. ``tol`` bounds the
    last step; the remaining error is about a thousandth of it. Raises NotConvergedError.
    """
    theta = np.zeros(pairs.n_candidates) if start is None else start
    probability = pairs.win_probability(theta)
    gradient = pairs.gradient_where(probability)
    for iteration in range(1, max_iter + 1):
        factor = _factor(pairs.information_where(probability))
        step = cho_solve(factor, gradient, check_finite=False)
        length = float(np.abs(step).max())
        if length < NEAR:
            maximum = _settle(pairs, theta + step, length, factor, tol)
            if maximum is not None:
                return _centred(maximum), iteration
        theta, probability, gradient = _advance(pairs, theta, step, gradient)
    raise NotConvergedError(f"no maximum found in {max_iter} Newton steps")


def pseudo_inverse(information: Floats) -> Floats:
    """(K, K): the inverse for strengths of mean 0, which is their covariance C.

    The variance of a difference, C[i, i] + C[j, j] - 2 C[i, j], is the same for any choice of zero.
    """
    lift = _lift(information)
    try:
        inverse = np.linalg.inv(information + lift)
    except np.linalg.LinAlgError as error:
        raise NotConvergedError("the information matrix is singular") from error
    return np.asarray(inverse - 1 / (lift * len(information) ** 2), np.float64)


def _settle(
    pairs: Pairs, theta: Floats, length: float, factor: tuple[Any, bool], tol: float
) -> Floats | None:
    """Continue to the maximum after a step of this ``length``; None if it is not reached.

    Steps with one fixed information need no new matrix. They shrink at a constant rate, about the
    length of the step that the information came from: the next one is last * last / previous.
    """
    for _ in range(FINAL_STEPS):
        step = cho_solve(factor, pairs.gradient(theta), check_finite=False)
        theta = theta + step
        previous, length = length, float(np.abs(step).max())
        if length < tol or length**2 < REMAINS * tol * previous:
            return theta
    return None


def _factor(information: Floats) -> tuple[Any, bool]:
    """The Cholesky factor of the lifted, positive definite information, which is overwritten."""
    information += _lift(information)
    try:
        factor: tuple[Any, bool] = cho_factor(information, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise NotConvergedError("the information matrix is singular") from error
    return factor


def _lift(information: Floats) -> float:
    """The constant added to each entry to fill the null direction, a shift of all strengths."""
    return float(np.trace(information)) / len(information) ** 2


def _advance(
    pairs: Pairs, theta: Floats, step: Floats, gradient: Floats
) -> tuple[Floats, Floats, Floats]:
    """Take a step, halved until it does not overshoot the maximum by much.

    Far from the maximum the information is almost singular and the step unbounded, so the step is
    cut to where its quadratic approximation still holds. Returns the new strengths, the
    probabilities and the gradient.
    """
    step = step / max(1.0, float(np.abs(step).max()) / LONGEST_STEP)
    slope = gradient @ step
    for _ in range(60):
        probability = pairs.win_probability(theta + step)
        ahead = pairs.gradient_where(probability)
        if -0.5 * slope <= ahead @ step:
            return _centred(theta + step), probability, ahead
        step, slope = step / 2, slope / 2
    raise NotConvergedError("no step improves the likelihood")


def _centred(theta: Floats) -> Floats:
    centred: Floats = theta - theta.mean()
    return centred


LONGEST_JOINT_STEP = 1e3  # root mean square of the votes' log-odds
TOLERANCE = 1e-6  # of the last step; convergence is quadratic, so the remaining error is its square
VANISHED = 1e-12  # of the curvature at the start
NO_MAXIMUM = "the likelihood grows without a maximum"

Derivatives = tuple[Floats, Floats]  # the gradient (M,) and the information (M, M)


class NoMaximumError(NotConvergedError):
    """The likelihood grows without bound: no finite parameters fit best."""


def maximise_joint(
    derivatives: Callable[[Floats], Derivatives],
    start: Floats,
    at_start: Derivatives,
    n_strengths: int,
    lowest: float = -np.inf,
    max_iter: int = 100,
) -> tuple[Floats, Floats, int]:
    """The maximum, the information one step before it, and the number of steps.

    Parameters
    ----------
    derivatives : of M parameters, the first ``n_strengths`` of which may be shifted together
    start, at_start : (M,), inside the bounds, and the derivatives there
    lowest : bound that the shared parameters must exceed; a step goes at most 7/8 of the way

    The function must be strictly concave except for the shift of the strengths: then the halved
    steps find the maximum, if there is one. Raises NotConvergedError; `NoMaximumError` if the
    curvature vanishes in some direction on the way, as it does without a maximum.
    """
    x = start
    gradient, information = at_start
    diagonal = _lifted(information, n_strengths).diagonal()
    unit = LONGEST_JOINT_STEP**2 * float(np.trace(information[:n_strengths, :n_strengths])) / 2
    metric = information / unit
    for iteration in range(1, max_iter + 1):
        step = _newton_step(information, n_strengths, gradient, diagonal)
        if np.abs(step).max() < TOLERANCE:
            return x + step, information, iteration
        length = math.sqrt(step @ metric @ step)
        step = step * min(1.0, 1 / length, _room(step, x[n_strengths:] - lowest))
        x, gradient, information = _advance_jointly(derivatives, x, step, gradient)
    raise NotConvergedError(f"no maximum found in {max_iter} Newton steps")


def solve(information: Floats, n_strengths: int, right_side: Floats) -> Floats:
    """The inverse information times a vector or matrix whose entries for strengths sum to 0."""
    try:
        factor = cho_factor(_lifted(information, n_strengths), lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise NotConvergedError("the information matrix is singular") from error
    return np.asarray(cho_solve(factor, right_side, check_finite=False), np.float64)


def covariance(information: Floats, n_strengths: int) -> Floats:
    """(M, M): the inverse information, for strengths of mean 0."""
    inverse = solve(information, n_strengths, np.eye(len(information)))
    shift = 1 / (_joint_lift(information, n_strengths) * n_strengths**2)
    inverse[:n_strengths, :n_strengths] -= shift
    return inverse


def shared_information(information: Floats, n_strengths: int) -> Floats:
    """(F, F): the information about the shared parameters, with the strengths profiled out."""
    cross = information[:n_strengths, n_strengths:]
    block = information[:n_strengths, :n_strengths]
    explained = cross.T @ solve(block, n_strengths, cross) if cross.size else 0.0
    rest: Floats = information[n_strengths:, n_strengths:] - explained
    return rest


def _newton_step(
    information: Floats, n_strengths: int, gradient: Floats, diagonal: Floats
) -> Floats:
    """The step. Raises NoMaximumError if a pivot is negligible relative to ``diagonal``."""
    try:
        lifted = _lifted(information, n_strengths)
        factor = cho_factor(lifted, lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise NoMaximumError(NO_MAXIMUM) from error
    if (factor[0].diagonal() ** 2 <= VANISHED * diagonal).any():
        raise NoMaximumError(NO_MAXIMUM)
    return np.asarray(cho_solve(factor, gradient, check_finite=False), np.float64)


def _lifted(information: Floats, n_strengths: int) -> Floats:
    """The matrix with its null direction, a shift of all strengths, filled in."""
    lifted = information.copy()
    lifted[:n_strengths, :n_strengths] += _joint_lift(information, n_strengths)
    return lifted


def _joint_lift(information: Floats, n_strengths: int) -> float:
    return float(np.trace(information[:n_strengths, :n_strengths])) / n_strengths**2


def _room(step: Floats, above: Floats) -> float:
    """The allowed share of a step, for shared parameters that are ``above`` their bounds so far."""
    down = -step[len(step) - len(above) :]
    return 7 / 8 * float((above[down > 0] / down[down > 0]).min(initial=np.inf))


def _advance_jointly(
    derivatives: Callable[[Floats], Derivatives], x: Floats, step: Floats, gradient: Floats
) -> tuple[Floats, Floats, Floats]:
    """Take a step, halved until it does not overshoot the maximum by much."""
    slope = gradient @ step
    for _ in range(60):
        ahead, information = derivatives(x + step)
        if -0.5 * slope <= ahead @ step:
            return x + step, ahead, information
        step, slope = step / 2, slope / 2
    raise NotConvergedError("no step improves the likelihood")


@dataclass(eq=False)
class BradleyTerry:
    """Bradley-Terry on the Elo scale: rating = center + scale / ln 10 * theta.

    Parameters
    ----------
    scale : Elo points for odds of 10 to 1
    center : the mean rating of the ranked candidates, or the anchor's rating
    anchor : index of the candidate fixed at ``center``; if it is unranked, the mean is fixed

    Attributes (K candidates; NaN for the unranked)
    ----------
    ratings_ : (K,) Elo
    theta_ : (K,) natural log-odds, of mean 0 over the ranked
    ranked_ : (K,) bool
    components_ : (K,) int, strongly connected components, the largest first; 0 is the ranked one
    status_ : K of `Status`, each with a ``reason``
    anchored_ : bool, whether the anchor could be used
    log_likelihood_ : float, nats, over the votes between ranked candidates; NaN without any
    covariance_ : (K, K) inverse information of theta, as if votes were independent
    converged_, n_iter_ : True, and the number of Newton steps; `fit` raises if it does not converge

    References: Bradley and Terry 1952; Hunter 2004 for the conditions of a maximum.
    """

    scale: float = 400.0
    center: float = 1000.0
    anchor: int | None = None

    def fit(self, battles: Battles, start: Floats | None = None) -> "BradleyTerry":
        """Fit the largest strongly connected component; votes with others are ignored.

        ``start``: (K,) starting strengths, such as the ``theta_`` of a fit to slightly fewer
        votes; NaN is taken as 0. They save steps and do not change the result.
        Raises NotConvergedError; ValueError for an invalid argument or hyperparameter.
        """
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number, not {self.scale}")
        if not math.isfinite(self.center):
            raise ValueError(f"center must be a finite number, not {self.center}")
        if self.anchor is not None and not 0 <= self.anchor < battles.n_candidates:
            raise ValueError(
                f"anchor must be from 0 to {battles.n_candidates - 1}, not {self.anchor}"
            )
        begin = _start(start, battles.n_candidates)
        for name in ("covariance_", "log_likelihood_"):
            with suppress(AttributeError):  # of an earlier fit
                delattr(self, name)
        connectivity = connect(battles.wins(weighted=False))
        self.ranked_: Bools = connectivity.ranked
        self.components_: Ints = connectivity.components
        self.status_: tuple[Status, ...] = connectivity.status
        self.anchored_ = self.anchor is not None and bool(self.ranked_[self.anchor])
        self._pairs = battles.among(self.ranked_).pairs
        theta, self.n_iter_ = np.zeros(0), 0
        if self.ranked_.any():
            theta, self.n_iter_ = maximise(self._pairs, begin[self.ranked_])
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
        """(K, K): the inverse information of theta; NaN for the unranked."""
        theta = self.theta_[self.ranked_]
        if not len(theta):
            return np.full((len(self.ranked_),) * 2, np.nan)
        return self.spread_square(pseudo_inverse(self._pairs.information(theta)))

    @property
    def anchor_place(self) -> int | None:
        """The anchor's place among the ranked; None if the mean is fixed instead."""
        return int(self.ranked_[: self.anchor].sum()) if self.anchored_ else None

    @property
    def elo_per_theta(self) -> float:
        """Elo points per unit of theta."""
        return self.scale / math.log(10)

    def elo(self, theta: Floats) -> Floats:
        """Elo of the strengths (..., R) of the ranked candidates, each set centred separately."""
        if not theta.size:
            return theta
        place = self.anchor_place
        zero = theta.mean(axis=-1, keepdims=True) if place is None else theta[..., [place]]
        elo: Floats = self.center + self.elo_per_theta * (theta - zero)
        return elo

    def spread(self, values: Floats) -> Floats:
        """(..., R) values of the ranked as (..., K), NaN for the unranked."""
        wide = np.full((*values.shape[:-1], len(self.ranked_)), np.nan)
        wide[..., self.ranked_] = values
        return wide

    def spread_square(self, values: Floats) -> Floats:
        """(R, R) values of the ranked as (K, K), NaN for the unranked."""
        wide = np.full((len(self.ranked_),) * 2, np.nan)
        wide[np.ix_(self.ranked_, self.ranked_)] = values
        return wide


def _start(start: Floats | None, n_candidates: int) -> Floats:
    if start is None:
        return np.zeros(n_candidates)
    if np.shape(start) != (n_candidates,) or np.isinf(start).any():
        raise ValueError(f"start must hold {n_candidates} strengths that are not infinite")
    return np.nan_to_num(np.asarray(start, np.float64))


@dataclass(frozen=True, eq=False)
class WinMatrix:
    """Scores and votes per pair of candidates.

    Attributes
    ----------
    share : (K, K) floats from 0 to 1, the score of the row's candidate against the column's per
        unit of weight, ties as halves; NaN where the two never met, and on the diagonal
    votes : (K, K) int64, the number of votes, whatever their weight
    """

    share: Floats
    votes: Ints


def observed_shares(battles: Battles) -> WinMatrix:
    """The observed shares; ``share`` and its transpose add up to 1."""
    pairs, size = battles.pairs, battles.n_candidates
    share = np.full((size, size), np.nan)
    share[pairs.first, pairs.second] = pairs.score / pairs.weight
    share[pairs.second, pairs.first] = 1 - share[pairs.first, pairs.second]
    cells = summed(battles.first * size + battles.second, battles.count, size**2)
    votes = cells.astype(np.int64).reshape(size, size)
    return WinMatrix(share, votes + votes.T)


def largest_difference(battles: Battles, model: BradleyTerry, tol: float = 1e-9) -> float:
    """The largest difference in Elo between a fitted model and choix on the same win matrix.

    Only ranked candidates are compared; 0 if there are none. choix iterates a spectral method
    (I-LSR, Maystre and Grossglauser 2015), which shares only the maximum with Newton's method.
    Raises NotConvergedError if choix does not converge.
    """
    import choix  # noqa: PLC0415  (it loads scipy.stats: half a second that few callers need)

    if not model.ranked_.any():
        return 0.0
    wins = battles.among(model.ranked_).wins()
    try:
        other = choix.ilsr_pairwise_dense(wins, max_iter=1000, tol=tol)
    except (RuntimeError, ValueError) as error:
        raise NotConvergedError(f"the independent check did not converge: {error}") from error
    gap = model.theta_[model.ranked_] - (other - other.mean())
    return float(np.abs(gap).max()) * model.elo_per_theta
