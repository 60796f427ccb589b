"""Newton's method on the K x K normal equations of the Bradley-Terry likelihood."""

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ranking.stats.columns import Floats
from ranking.stats.pairs import Pairs

LONGEST_STEP = 4.0  # of theta: odds of 55 to 1
NEAR = 0.001  # of theta; after a step this short, its information serves for what remains
FINAL_STEPS = 8
REMAINS = 0.001  # of the tolerance; the next step, where it is known to be shorter, is left out


class NotConverged(ArithmeticError):
    """The iteration did not settle: there is no number to show."""


def maximise(
    pairs: Pairs, start: Floats | None = None, tol: float = 1e-9, max_iter: int = 100
) -> tuple[Floats, int]:
    """The strengths of greatest likelihood, of mean 0, and the Newton steps taken.

    The candidates must be strongly connected by wins, or there is no maximum. ``tol`` bounds the
    last step; what remains is about a thousandth of that. Raises NotConverged.
    """
    theta = np.zeros(pairs.n_candidates) if start is None else start
    probability = pairs.win_probability(theta)
    gradient = pairs.gradient_where(probability)
    for iteration in range(1, max_iter + 1):
        factor = _factor(pairs.information_where(probability))
        step = cho_solve(factor, gradient, check_finite=False)
        length = float(np.abs(step).max())
        if length < NEAR:
            found = _settle(pairs, theta + step, length, factor, tol)
            if found is not None:
                return _centred(found), iteration
        theta, probability, gradient = _advance(pairs, theta, step, gradient)
    raise NotConverged(f"no maximum found in {max_iter} Newton steps")


def pseudo_inverse(information: Floats) -> Floats:
    """(K, K): the inverse on the strengths of mean 0, a covariance when given the information.

    The variance of a difference is C[i, i] + C[j, j] - 2 C[i, j], wherever the zero is put.
    """
    lift = _lift(information)
    try:
        inverse = np.linalg.inv(information + lift)
    except np.linalg.LinAlgError as error:
        raise NotConverged("the information matrix is singular") from error
    return np.asarray(inverse - 1 / (lift * len(information) ** 2), np.float64)


def _settle(
    pairs: Pairs, theta: Floats, length: float, factor: tuple[Any, bool], tol: float
) -> Floats | None:
    """The maximum, from strengths that a step of this length led to; None where it is not reached.

    Steps with one fixed information shrink by a constant rate, about the length of the step that
    it came from: the next one is last * last / previous. They cost no information matrix.
    """
    for _ in range(FINAL_STEPS):
        step = cho_solve(factor, pairs.gradient(theta), check_finite=False)
        theta = theta + step
        previous, length = length, float(np.abs(step).max())
        if length < tol or length**2 < REMAINS * tol * previous:
            return theta
    return None


def _factor(information: Floats) -> tuple[Any, bool]:
    """The Cholesky factor, positive definite once lifted; the information itself is used up."""
    information += _lift(information)
    try:
        factor: tuple[Any, bool] = cho_factor(information, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise NotConverged("the information matrix is singular") from error
    return factor


def _lift(information: Floats) -> float:
    """What, added to each entry, fills the null direction: all strengths moved alike."""
    return float(np.trace(information)) / len(information) ** 2


def _advance(
    pairs: Pairs, theta: Floats, step: Floats, gradient: Floats
) -> tuple[Floats, Floats, Floats]:
    """Go along a step, halved until it does not lead far beyond the top (the function is concave).

    Far from the maximum the information is almost singular and the step without bounds, so it is
    cut to where the quadratic it comes from still means something. Returns the strengths there,
    the probabilities and the gradient.
    """
    step = step / max(1.0, float(np.abs(step).max()) / LONGEST_STEP)
    slope = gradient @ step
    for _ in range(60):
        probability = pairs.win_probability(theta + step)
        ahead = pairs.gradient_where(probability)
        if -0.5 * slope <= ahead @ step:
            return _centred(theta + step), probability, ahead
        step, slope = step / 2, slope / 2
    raise NotConverged("no step improves the likelihood")


def _centred(theta: Floats) -> Floats:
    centred: Floats = theta - theta.mean()
    return centred
