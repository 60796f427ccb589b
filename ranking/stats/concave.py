"""Newton's method for strengths that share further parameters, where the likelihood is concave."""

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ranking.stats.columns import Floats
from ranking.stats.newton import NotConverged

LONGEST_STEP = 1e3  # of the votes' log-odds, in the root mean square
TOLERANCE = 1e-6  # of the last step; convergence is quadratic, so what remains is its square
VANISHED = 1e-12  # of the curvature at the start
FLAT = "the likelihood grows without a maximum"

Derivatives = tuple[Floats, Floats]  # the gradient (M,) and the information (M, M)


class Flattened(NotConverged):
    """The likelihood grows for ever: no finite parameters fit best."""


def climb(
    derivatives: Callable[[Floats], Derivatives],
    start: Floats,
    at_start: Derivatives,
    n_strengths: int,
    lowest: float = -np.inf,
    max_iter: int = 100,
) -> tuple[Floats, Floats, int]:
    """The maximum, the information one step before it, and the steps taken.

    Parameters
    ----------
    derivatives : of M parameters, the first ``n_strengths`` of which may all be moved alike
    start, at_start : (M,), inside the bounds, and the derivatives there
    lowest : what the shared parameters must exceed; a step goes 7/8 of the way at most

    The function must be strictly concave but for the strengths' shift: then the halved steps find
    a maximum, or there is none. Raises NotConverged; `Flattened` where curvature in some direction
    vanishes on the way, which is how a likelihood without a maximum ends.
    """
    x = start
    gradient, information = at_start
    diagonal = _lifted(information, n_strengths).diagonal()
    unit = LONGEST_STEP**2 * float(np.trace(information[:n_strengths, :n_strengths])) / 2
    metric = information / unit
    for iteration in range(1, max_iter + 1):
        step = _newton_step(information, n_strengths, gradient, diagonal)
        if np.abs(step).max() < TOLERANCE:
            return x + step, information, iteration
        length = math.sqrt(step @ metric @ step)
        step = step * min(1.0, 1 / length, _room(step, x[n_strengths:] - lowest))
        x, gradient, information = _advance(derivatives, x, step, gradient)
    raise NotConverged(f"no maximum found in {max_iter} Newton steps")


def solve(information: Floats, n_strengths: int, right_side: Floats) -> Floats:
    """The information's inverse times a vector or a matrix, whose strengths sum to 0."""
    try:
        factor = cho_factor(_lifted(information, n_strengths), lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise NotConverged("the information matrix is singular") from error
    return np.asarray(cho_solve(factor, right_side, check_finite=False), np.float64)


def covariance(information: Floats, n_strengths: int) -> Floats:
    """(M, M): the inverse of the information, for strengths of mean 0."""
    inverse = solve(information, n_strengths, np.eye(len(information)))
    shift = 1 / (_lift(information, n_strengths) * n_strengths**2)
    inverse[:n_strengths, :n_strengths] -= shift
    return inverse


def shared_information(information: Floats, n_strengths: int) -> Floats:
    """(F, F): what is known of the shared parameters when the strengths are not known either."""
    cross = information[:n_strengths, n_strengths:]
    block = information[:n_strengths, :n_strengths]
    explained = cross.T @ solve(block, n_strengths, cross) if cross.size else 0.0
    rest: Floats = information[n_strengths:, n_strengths:] - explained
    return rest


def _newton_step(
    information: Floats, n_strengths: int, gradient: Floats, diagonal: Floats
) -> Floats:
    """The step, unless a pivot shows that hardly any of the ``diagonal`` at the start is left."""
    try:
        lifted = _lifted(information, n_strengths)
        factor = cho_factor(lifted, lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise Flattened(FLAT) from error
    if (factor[0].diagonal() ** 2 <= VANISHED * diagonal).any():
        raise Flattened(FLAT)
    return np.asarray(cho_solve(factor, gradient, check_finite=False), np.float64)


def _lifted(information: Floats, n_strengths: int) -> Floats:
    """The matrix with its null direction (all strengths moved alike) filled in."""
    lifted = information.copy()
    lifted[:n_strengths, :n_strengths] += _lift(information, n_strengths)
    return lifted


def _lift(information: Floats, n_strengths: int) -> float:
    return float(np.trace(information[:n_strengths, :n_strengths])) / n_strengths**2


def _room(step: Floats, above: Floats) -> float:
    """How much of the step keeps the shared parameters, so far ``above`` their bound, inside it."""
    down = -step[len(step) - len(above) :]
    return 7 / 8 * float((above[down > 0] / down[down > 0]).min(initial=np.inf))


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
