"""Newton's method for strengths that share further parameters, where the likelihood is concave."""

from collections.abc import Callable

import numpy as np

from ranking.stats.columns import Floats
from ranking.stats.newton import NotConverged

LONGEST_STEP = 4.0  # of any parameter
TOLERANCE = 1e-6  # of the last step; convergence is quadratic, so what remains is its square

Derivatives = tuple[Floats, Floats]  # the gradient (M,) and the information (M, M)


def climb(
    derivatives: Callable[[Floats], Derivatives],
    start: Floats,
    n_strengths: int,
    lowest: Floats,
    max_iter: int = 100,
) -> tuple[Floats, int]:
    """The maximum, and the steps taken.

    Parameters
    ----------
    derivatives : of M parameters, the first ``n_strengths`` of which may all be moved alike
    start : (M,), inside the bounds
    lowest : (M,), what each parameter must exceed; a step goes 7/8 of the way at most

    Raises NotConverged. The function must be strictly concave but for the strengths' shift, and
    its maximum must exist: then the halved steps cannot miss it.
    """
    x = start
    gradient, information = derivatives(x)
    for iteration in range(1, max_iter + 1):
        step = solve(information, n_strengths, gradient)
        if np.abs(step).max() < TOLERANCE:
            return x + step, iteration
        step = step * _reach(x, step, lowest)
        x, gradient, information = _advance(derivatives, x, step, gradient)
    raise NotConverged(f"no maximum found in {max_iter} Newton steps")


def solve(information: Floats, n_strengths: int, right_side: Floats) -> Floats:
    """The information's inverse times a vector or a matrix, whose strengths sum to 0."""
    lifted = information.copy()
    lifted[:n_strengths, :n_strengths] += _lift(information, n_strengths)
    try:
        return np.asarray(np.linalg.solve(lifted, right_side), np.float64)
    except np.linalg.LinAlgError as error:
        raise NotConverged("the information matrix is singular") from error


def covariance(information: Floats, n_strengths: int) -> Floats:
    """(M, M): the inverse of the information, for strengths of mean 0."""
    inverse = solve(information, n_strengths, np.eye(len(information)))
    shift = 1 / (_lift(information, n_strengths) * n_strengths**2)
    inverse[:n_strengths, :n_strengths] -= shift
    return inverse


def _lift(information: Floats, n_strengths: int) -> float:
    return float(np.trace(information[:n_strengths, :n_strengths])) / n_strengths**2


def _reach(x: Floats, step: Floats, lowest: Floats) -> float:
    """How much of the step keeps to the bounds and to where its quadratic means something."""
    room, down = x - lowest, step < 0
    inside = float((room[down] / -step[down]).min(initial=np.inf))
    return min(1.0, 7 / 8 * inside, LONGEST_STEP / float(np.abs(step).max()))


def _advance(
    derivatives: Callable[[Floats], Derivatives], x: Floats, step: Floats, gradient: Floats
) -> tuple[Floats, Floats, Floats]:
    """Go along a step, halved until it does not lead far beyond the top."""
    slope = gradient @ step
    for _ in range(60):
        ahead, information = derivatives(x + step)
        if -0.5 * slope <= ahead @ step:
            return x + step, ahead, information
        step, slope = step / 2, slope / 2
    raise NotConverged("no step improves the likelihood")
