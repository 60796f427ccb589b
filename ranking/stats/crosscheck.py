"""A second opinion on every fit, from a package that nobody here wrote."""

import choix
import numpy as np

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.newton import NotConverged


def largest_difference(battles: Battles, model: BradleyTerry, tol: float = 1e-9) -> float:
    """The largest difference in Elo between a fitted model and choix on the same win matrix.

    choix iterates a spectral method (I-LSR, Maystre and Grossglauser 2015) that shares nothing
    with Newton's but the maximum. Over the ranked candidates; 0 where there are none. Raises
    NotConverged where choix finds no answer.
    """
    if not model.ranked_.any():
        return 0.0
    wins = battles.among(model.ranked_).wins()
    try:
        other = choix.ilsr_pairwise_dense(wins, max_iter=1000, tol=tol)
    except (RuntimeError, ValueError) as error:
        raise NotConverged(f"the second opinion found no answer: {error}") from error
    gap = model.theta_[model.ranked_] - (other - other.mean())
    return float(np.abs(gap).max()) * model.elo_per_theta
