"""Weights for drawing pairs: how much a vote on each would reduce the uncertainty.

One vote between i and j adds p (1 - p) d d' to the information, d = e_i - e_j. By Sherman and
Morrison (1950) that reduces the summed variances of the unsettled candidates U by

    p (1 - p) ||C_U d||^2 / (1 + p (1 - p) d'C d),

where C_U are the covariance's rows for U: the criterion of an A-optimal design (Atkinson, Donev
and Tobias 2007). A candidate is settled if its standard error is at most the target.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.arrays import Bools, Floats, check_estimate
from ranking.stats.battles import expected_score

PRIOR = 1.5  # standard deviation of theta without an estimate: 260 Elo at a scale of 400
EXPLORATION = 0.1
MOST_RATIO = 1000.0
SWEEPS = 100  # iterations to place the unranked; weights need few digits


def pair_weights(
    theta: ArrayLike,
    covariance: ArrayLike,
    counts: ArrayLike,
    target_error: float,
    wins: ArrayLike | None = None,
    scale: float = 400.0,
    exploration: float = EXPLORATION,
    most_ratio: float = MOST_RATIO,
) -> Floats:
    """(K, K) symmetric weights, positive off the diagonal, that sum to 1 over the pairs.

    If every candidate is settled, a pair's weight is proportional to 1 / sqrt(votes + 1), close to
    uniform. If some are not, a share of ``1 - exploration`` goes to pairs in proportion to how much
    their next vote would reduce the variances of the unsettled candidates.

    A candidate without an estimate gets one from its votes and a weak normal prior around the mean
    of the ranked with a standard deviation of 1.5 (odds of 4.5 to 1); a candidate without a
    standard error gets the one implied by this prior and its votes.

    Parameters
    ----------
    theta : (K,) natural log-odds, NaN for the unranked
    covariance : (K, K) of theta; NaN where it is unknown
    counts : (K, K) number of votes per pair, symmetric
    target_error : Elo; a candidate with a larger standard error is not settled
    wins : (K, K) score of the row's candidate against the column's, as `Battles.wins()`; used to
        place the unranked, which otherwise are placed at the mean
    scale : Elo points for odds of 10 to 1
    exploration : 0 to 1, the share that is always close to uniform
    most_ratio : at least 1, the limit of largest to smallest weight; smaller weights are raised

    Raises ValueError naming the invalid argument.
    """
    strength, matrix = check_estimate(theta, covariance)
    votes = _square("counts", counts, len(strength))
    if not np.array_equal(votes, votes.T):
        raise ValueError("counts must be symmetric")
    scored = votes / 2 if wins is None else _square("wins", wins, len(strength))
    for name, value in (("target_error", target_error), ("scale", scale)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number, not {value}")
    if not 0 <= exploration <= 1:
        raise ValueError(f"exploration must be from 0 to 1, not {exploration}")
    if not (math.isfinite(most_ratio) and most_ratio >= 1):
        raise ValueError(f"most_ratio must be 1 or more, not {most_ratio}")
    if len(strength) < 2:
        return np.zeros(votes.shape)
    placed = _place_unranked(strength, scored)
    full = _complete_covariance(matrix, placed, votes)
    errors = np.sqrt(full.diagonal().clip(min=0)) * scale / math.log(10)
    weights = _normalise(1 / np.sqrt(votes + 1))
    gain = _gain(full, placed, errors > target_error)
    if gain.any():
        weights = exploration * weights + (1 - exploration) * _normalise(gain)
    return _normalise(np.maximum(weights, weights.max() / most_ratio))


def _gain(covariance: Floats, theta: Floats, unsettled: Bools) -> Floats:
    """(K, K): the reduction of the unsettled candidates' variances by a pair's next vote."""
    p = expected_score(theta[:, None] - theta[None, :])
    information = p * (1 - p)
    rows = covariance[unsettled]
    reduced = information * _squared_distances(rows.T @ rows)
    gain: Floats = reduced / (1 + information * _squared_distances(covariance))
    return gain


def _squared_distances(gram: Floats) -> Floats:
    """(K, K): (e_i - e_j)' M (e_i - e_j) for a positive semi-definite matrix M."""
    variances = gram.diagonal()
    distances: Floats = (variances[:, None] + variances[None, :] - 2 * gram).clip(min=0)
    return distances


def _place_unranked(theta: Floats, wins: Floats) -> Floats:
    """Strengths of all: posterior modes for the unranked, with the ranked held fixed.

    Each sweep adds the gradient divided by an upper bound on the curvature (p (1 - p) is at most
    1/4, twice that between two candidates that both move), which never overshoots (Böhning and
    Lindsay 1988).
    """
    unranked = np.isnan(theta)
    mean = theta[~unranked].mean() if not unranked.all() else 0.0
    placed = np.where(unranked, mean, theta)
    if not unranked.any():
        return placed
    votes = (wins + wins.T)[unranked]
    bound = (votes * np.where(unranked, 0.5, 0.25)).sum(axis=1) + PRIOR**-2
    for _ in range(SWEEPS):
        expected = votes * expected_score(placed[unranked, None] - placed[None, :])
        gradient = (wins[unranked] - expected).sum(axis=1) - (placed[unranked] - mean) / PRIOR**2
        placed[unranked] += gradient / bound
    return placed


def _complete_covariance(covariance: Floats, theta: Floats, votes: Floats) -> Floats:
    """The covariance, completed from prior and votes for candidates without one.

    This is (C0^-1 + L)^-1 = (1 + C0 L)^-1 C0, where C0 is the known part with the prior's variances
    (singular, hence the second form) and L the information in the completed candidates' votes.
    """
    unknown = np.isnan(covariance.diagonal())
    if np.isnan(covariance[np.ix_(~unknown, ~unknown)]).any():
        raise ValueError("covariance must be known wherever both variances are")
    if not unknown.any():
        return covariance
    either = unknown[:, None] | unknown[None, :]
    start = np.where(either, 0.0, covariance)
    start[unknown, unknown] = PRIOR**2
    p = expected_score(theta[:, None] - theta[None, :])
    information = votes * p * (1 - p) * either
    np.fill_diagonal(information, 0)
    laplacian = np.diag(information.sum(axis=1)) - information
    full = np.linalg.solve(np.eye(len(theta)) + start @ laplacian, start)
    symmetric: Floats = (full + full.T) / 2
    return symmetric


def _normalise(weights: Floats) -> Floats:
    """Symmetric weights with an empty diagonal that sum to 1 over the pairs."""
    off = weights + weights.T
    np.fill_diagonal(off, 0)
    shares: Floats = 2 * off / off.sum()
    return shares


def _square(name: str, values: ArrayLike, size: int) -> Floats:
    matrix = np.asarray(values, np.float64)
    if matrix.shape != (size, size):
        raise ValueError(f"{name} must be of shape (K, K) for K of theta, not {matrix.shape}")
    if not (np.isfinite(matrix) & (matrix >= 0)).all():
        raise ValueError(f"{name} must be finite and not negative")
    return matrix
