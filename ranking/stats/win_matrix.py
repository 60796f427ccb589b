"""Who scored how much against whom: as the votes have it, and as a fitted model expects it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.battles import Battles
from ranking.stats.columns import Floats, Ints, summed
from ranking.stats.pairs import expected_score


@dataclass(frozen=True, eq=False)
class WinMatrix:
    """``share``: (K, K) floats from 0 to 1, what the row's candidate scored against the column's
    per unit of weight, ties as halves; NaN where the two never met, and on the diagonal.
    ``votes``: (K, K) int64, how many votes stand behind it, whatever their weight."""

    share: Floats
    votes: Ints


def observed_shares(battles: Battles) -> WinMatrix:
    """The shares that the votes show; ``share`` and its transpose add up to 1."""
    pairs, size = battles.pairs, battles.n_candidates
    share = np.full((size, size), np.nan)
    share[pairs.first, pairs.second] = pairs.score / pairs.weight
    share[pairs.second, pairs.first] = 1 - share[pairs.first, pairs.second]
    cells = summed(battles.first * size + battles.second, battles.count, size**2)
    votes = cells.astype(np.int64).reshape(size, size)
    return WinMatrix(share, votes + votes.T)


def predicted_shares(theta: ArrayLike, eta: float = 0.0) -> Floats:
    """(K, K): what the row's candidate is expected to score against the column's.

    Parameters
    ----------
    theta : (K,) natural log-odds, as the ``theta_`` of any fitted model; NaN for the unranked
    eta : the tie parameter, `RaoKupper.eta_`; 0 is Bradley-Terry. A win counts 1 and a tie a
        half, which makes P(win) + P(tie) / 2 the mean of the logistic function at both thresholds

    Returns
    -------
    floats from 0 to 1; NaN on the diagonal and in the rows and columns of the unranked

    Raises ValueError where ``theta`` is not (K,) or ``eta`` is negative.
    """
    strength = np.asarray(theta, np.float64)
    if strength.ndim != 1:
        raise ValueError(f"theta must be one-dimensional, not of shape {strength.shape}")
    if np.isinf(strength).any():
        raise ValueError("theta must be finite, or NaN for the unranked")
    if not eta >= 0:
        raise ValueError(f"eta must be 0 or more, not {eta}")
    gap = strength[:, None] - strength[None, :]
    share: Floats = (expected_score(gap - eta) + expected_score(gap + eta)) / 2
    np.fill_diagonal(share, np.nan)
    return share
