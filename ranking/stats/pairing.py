"""Which pairs to compare next: those whose votes tell most about the candidates not yet settled.

One vote between i and j adds p (1 - p) d d' to the information, d = e_i - e_j. By Sherman and
Morrison (1950) that takes

    p (1 - p) ||C_U d||^2 / (1 + p (1 - p) d'C d)

off the summed variances of the unsettled candidates U, whose rows of the covariance are C_U: the
criterion of an A-optimal design (Atkinson, Donev and Tobias 2007).
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.columns import Bools, Floats
from ranking.stats.pairs import expected_score
from ranking.stats.ranks import check_estimate

PRIOR = 1.5  # standard deviation of theta where there is no estimate: 260 Elo at a scale of 400
EXPLORATION = 0.1
MOST_RATIO = 1000.0
SWEEPS = 100  # towards the prior's compromise for the unranked; weights need few digits


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

    While every candidate is settled, a pair's weight is proportional to 1 / sqrt(votes + 1): near
    to uniform. As long as some are not, a share of ``1 - exploration`` goes to pairs in proportion
    to what their next vote takes off the variances of the unsettled ones.

    A candidate without an estimate gets one from a weak prior, normal around the mean of the
    ranked with a deviation of 1.5 (odds of 4.5 to 1), and from its votes; one without an error
    gets the error that this prior and its votes leave.

    Parameters
    ----------
    theta : (K,) natural log-odds, NaN for the unranked
    covariance : (K, K) of theta; NaN where it is not known
    counts : (K, K) votes that each pair has, symmetric
    target_error : Elo; a candidate whose standard error is above it is not settled
    wins : (K, K) what the row's candidate scored against the column's, as `Battles.wins()`; used
        to place the unranked, who else stand in the middle
    scale : Elo points that stand for odds of 10 to 1
    exploration : 0 to 1, the share that is always spread near-uniformly
    most_ratio : at least 1, of the greatest weight to the least; small ones are lifted to hold it

    Raises ValueError naming the argument that makes no sense.
    """
    strength, matrix = check_estimate(theta, covariance)
    votes = _square("counts", counts, len(strength))
    if not np.array_equal(votes, votes.T):
        raise ValueError("counts must be symmetric")
    scored = votes / 2 if wins is None else _square("wins", wins, len(strength))
    _check(target_error, scale, exploration, most_ratio)
    if len(strength) < 2:
        return np.zeros(votes.shape)
    placed = _placed(strength, scored)
    full = _completed(matrix, placed, votes)
    errors = np.sqrt(full.diagonal().clip(min=0)) * scale / math.log(10)
    weights = _shared_out(1 / np.sqrt(votes + 1))
    gain = _gain(full, placed, errors > target_error)
    if gain.any():
        weights = exploration * weights + (1 - exploration) * _shared_out(gain)
    return _shared_out(np.maximum(weights, weights.max() / most_ratio))


def _gain(covariance: Floats, theta: Floats, unsettled: Bools) -> Floats:
    """(K, K): what the next vote of a pair takes off the variances of the unsettled."""
    p = expected_score(theta[:, None] - theta[None, :])
    told = p * (1 - p)
    rows = covariance[unsettled]
    gain: Floats = told * _apart(rows.T @ rows) / (1 + told * _apart(covariance))
    return gain


def _apart(gram: Floats) -> Floats:
    """(K, K): (e_i - e_j)' M (e_i - e_j) of a semi-definite matrix M."""
    own = gram.diagonal()
    apart: Floats = (own[:, None] + own[None, :] - 2 * gram).clip(min=0)
    return apart


def _placed(theta: Floats, wins: Floats) -> Floats:
    """Strengths for all: the unranked's where prior and votes balance, the ranked held fixed.

    Each sweep moves by the gradient over a bound of its slope (p (1 - p) is at most 1/4, twice
    that between two that both move), which never overshoots (Böhning and Lindsay 1988).
    """
    lost = np.isnan(theta)
    middle = theta[~lost].mean() if not lost.all() else 0.0
    placed = np.where(lost, middle, theta)
    if not lost.any():
        return placed
    votes = (wins + wins.T)[lost]
    bound = (votes * np.where(lost, 0.5, 0.25)).sum(axis=1) + PRIOR**-2
    for _ in range(SWEEPS):
        expected = votes * expected_score(placed[lost, None] - placed[None, :])
        pull = (wins[lost] - expected).sum(axis=1) - (placed[lost] - middle) / PRIOR**2
        placed[lost] += pull / bound
    return placed


def _completed(covariance: Floats, theta: Floats, votes: Floats) -> Floats:
    """The covariance, with what prior and votes leave for those without one.

    That is (C0^-1 + L)^-1 = (1 + C0 L)^-1 C0, for C0 the known part beside the prior's variances
    (it is singular, hence the second form) and L the information of the votes on the others.
    """
    loose = np.isnan(covariance.diagonal())
    if np.isnan(covariance[np.ix_(~loose, ~loose)]).any():
        raise ValueError("covariance must be known between candidates whose variances are")
    if not loose.any():
        return covariance
    start = np.where(loose[:, None] | loose[None, :], 0.0, covariance)
    start[loose, loose] = PRIOR**2
    p = expected_score(theta[:, None] - theta[None, :])
    told = votes * p * (1 - p) * (loose[:, None] | loose[None, :])
    np.fill_diagonal(told, 0)
    laplacian = np.diag(told.sum(axis=1)) - told
    full = np.linalg.solve(np.eye(len(theta)) + start @ laplacian, start)
    symmetric: Floats = (full + full.T) / 2
    return symmetric


def _shared_out(weights: Floats) -> Floats:
    """With an empty diagonal, exactly symmetric, and of sum 1 over the pairs."""
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


def _check(target_error: float, scale: float, exploration: float, most_ratio: float) -> None:
    for name, value in (("target_error", target_error), ("scale", scale)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number, not {value}")
    if not 0 <= exploration <= 1:
        raise ValueError(f"exploration must be from 0 to 1, not {exploration}")
    if not (math.isfinite(most_ratio) and most_ratio >= 1):
        raise ValueError(f"most_ratio must be 1 or more, not {most_ratio}")
