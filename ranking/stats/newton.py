"""Newton's method on the K x K normal equations of the Bradley-Terry likelihood."""

import numpy as np

from ranking.stats.columns import Floats
from ranking.stats.pairs import Pairs

LONGEST_STEP = 4.0  # of theta: odds of 55 to 1


class NotConverged(ArithmeticError):
    """The iteration did not settle: there is no number to show."""


def maximise(
    pairs: Pairs, start: Floats | None = None, tol: float = 1e-9, max_iter: int = 100
) -> tuple[Floats, int]:
    """The strengths of greatest likelihood, of mean 0, and the steps taken.

    The candidates must be strongly connected by wins, or there is no maximum. ``tol`` bounds the
    last step; convergence is quadratic, so what remains is about its square. Raises NotConverged.
    """
    theta = np.zeros(pairs.n_candidates) if start is None else start
    gradient = pairs.gradient(theta)
    for iteration in range(1, max_iter + 1):
        step = _solve(pairs.information(theta), gradient)
        if np.abs(step).max() < tol:
            return _centred(theta + step), iteration
        theta, gradient = _advance(pairs, theta, step, gradient)
    raise NotConverged(f"no maximum found in {max_iter} Newton steps")


def pseudo_inverse(information: Floats) -> Floats:
    """(K, K): the inverse on the strengths of mean 0, a covariance when given the information.

    The variance of a difference is C[i, i] + C[j, j] - 2 C[i, j], wherever the zero is put.
    """
    lifted, lift = _lifted(information)
    try:
        inverse = np.linalg.inv(lifted)
    except np.linalg.LinAlgError as error:
        raise NotConverged("the information matrix is singular") from error
    return np.asarray(inverse - 1 / (lift * len(information) ** 2), np.float64)


def _solve(information: Floats, gradient: Floats) -> Floats:
    try:
        step = np.linalg.solve(_lifted(information)[0], gradient)
    except np.linalg.LinAlgError as error:
        raise NotConverged("the information matrix is singular") from error
    return np.asarray(step, np.float64)


def _lifted(information: Floats) -> tuple[Floats, float]:
    """The matrix with its null direction (all strengths moved alike) filled in, and by how much."""
    lift = float(np.trace(information)) / len(information) ** 2
    return information + lift, lift


def _advance(pairs: Pairs, theta: Floats, step: Floats, gradient: Floats) -> tuple[Floats, Floats]:
    """Go along a step, halved until it does not lead far beyond the top (the function is concave).

    Far from the maximum the information is almost singular and the step without bounds, so it is
    cut to where the quadratic it comes from still means something.
    """
    step = step / max(1.0, float(np.abs(step).max()) / LONGEST_STEP)
    slope = gradient @ step
    for _ in range(60):
        ahead = pairs.gradient(theta + step)
        if -0.5 * slope <= ahead @ step:
            return _centred(theta + step), ahead
        step, slope = step / 2, slope / 2
    raise NotConverged("no step improves the likelihood")


def _centred(theta: Floats) -> Floats:
    centred: Floats = theta - theta.mean()
    return centred
