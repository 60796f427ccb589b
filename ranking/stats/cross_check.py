"""Cross-check of fits against choix, an independent package with a different method."""

import choix
import numpy as np

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError


def largest_difference(battles: Battles, model: BradleyTerry, tol: float = 1e-9) -> float:
    """The largest difference in Elo between a fitted model and choix on the same win matrix.

    Only ranked candidates are compared; 0 if there are none. choix iterates a spectral method
    (I-LSR, Maystre and Grossglauser 2015), which shares only the maximum with Newton's method.
    Raises NotConvergedError if choix does not converge.
    """
    if not model.ranked_.any():
        return 0.0
    wins = battles.among(model.ranked_).wins()
    try:
        other = choix.ilsr_pairwise_dense(wins, max_iter=1000, tol=tol)
    except (RuntimeError, ValueError) as error:
        raise NotConvergedError(f"the independent check did not converge: {error}") from error
    gap = model.theta_[model.ranked_] - (other - other.mean())
    return float(np.abs(gap).max()) * model.elo_per_theta
