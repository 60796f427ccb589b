"""How often each pair is drawn, and what for.

40 % of the draws are among candidates that could be first, half of them with the leader; 20 % among
other pairs whose order is open; 10 % with newcomers; 30 % are spread evenly. Without an even part,
candidates would meet only those like them, which stretches the scores and makes their intervals too
narrow (docs/reference/statistics.md, "Choice of pairs").
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats.arrays import Floats, Ints, check_estimate
from ranking.stats.battles import expected_score

LEADER, FIRST, ORDER, NEWCOMERS, EVEN = 0.2, 0.2, 0.2, 0.1, 0.3
MOST = 0.1  # of all draws that one pair gets for what is asked of it, or
MOST_EVEN = 3  # times an even share
MOST_MORE = 0.05  # that the even part may add to it
FEW_VOTES = 30
PRIOR = 1.5  # standard deviation of theta without an estimate: 260 Elo at a scale of 400
SWEEPS = 100  # iterations to place the unranked; weights need few digits


@dataclass(frozen=True, eq=False)
class PairShares:
    """(P,) shares of the draws, which sum to 1 over all parts and pairs.

    Attributes
    ----------
    first : among candidates that could be first
    order : other pairs whose order is open
    newcomers : pairs with a candidate that has few votes
    even : everybody's share
    """

    first: Floats
    order: Floats
    newcomers: Floats
    even: Floats

    @property
    def total(self) -> Floats:
        total: Floats = self.first + self.order + self.newcomers + self.even
        return total


def pair_shares(
    pairs: tuple[Ints, Ints],
    theta: ArrayLike,
    covariance: ArrayLike,
    wins: ArrayLike,
    critical: float | None = None,
) -> PairShares:
    """Share the draws among the pairs that can be drawn.

    A candidate could be first if no other is clearly above it: by more than `critical` times the
    standard error of their difference. With v the variance of a difference, p the expected score
    and n the pair's votes, a part is shared in proportion to v (first), p (1 - p) v (order and
    newcomers) or 1 / sqrt(n + 1) (even). What a part cannot place goes to the next one.

    A candidate without a score is placed by its votes and a weak normal prior around the mean of
    the others with a standard deviation of 1.5 (odds of 4.5 to 1), and so is its variance where it
    is unknown. Until it has more than a newcomer's votes, it counts as a newcomer alone.

    Parameters
    ----------
    pairs : (P,) each, the two candidates of every pair that can be drawn
    theta : (K,) natural log-odds, NaN for the unranked
    covariance : (K, K) of theta; NaN where it is unknown
    wins : (K, K) score of the row's candidate against the column's, as `Battles.wins()`
    critical : of all differences at once (`simultaneous_value`); None if no interval is known

    Raises ValueError naming the invalid argument.
    """
    strength, matrix = check_estimate(theta, covariance)
    scored = _square("wins", wins, len(strength))
    low, high = pairs
    if not len(low):
        return PairShares(*np.zeros((4, 0)))
    votes = scored + scored.T
    is_shown = np.zeros(len(strength), np.bool_)
    is_shown[low] = is_shown[high] = True
    total = votes.sum(axis=1)
    is_new = total < max(FEW_VOTES, np.median(total[is_shown]) / 2)
    is_known = is_shown & (~np.isnan(matrix.diagonal()) | ~is_new)

    placed = _place_unranked(strength, scored)
    full = _complete_covariance(matrix, placed, votes)
    variance = _squared_distances(full)
    p = expected_score(placed[:, None] - placed[None, :])
    value = p * (1 - p) * variance

    is_first = is_open = np.zeros_like(votes, np.bool_)
    leader = -1
    if critical is not None and is_known.any():
        gap = placed[:, None] - placed[None, :]  # how far the row is ahead
        both_known = is_known[:, None] & is_known
        is_above = both_known & (gap > critical * np.sqrt(variance))
        could_lead = is_known & ~is_above.any(axis=0)
        is_first = could_lead[:, None] & could_lead
        is_open = both_known & ~is_above & ~is_above.T & ~is_first
        leader = int(np.argmax(np.where(could_lead, placed, -np.inf)))
    has_leader = (low == leader) | (high == leader)
    is_first, is_open = is_first[low, high], is_open[low, high]
    has_newcomer = is_new[low] | is_new[high]
    variance, value = variance[low, high], value[low, high]

    room = np.full(len(low), max(MOST, MOST_EVEN / len(low)))
    parts, left = [], 0.0
    for share, wanted in (
        (LEADER, variance * (is_first & has_leader)),
        (FIRST, variance * (is_first & ~has_leader)),
        (ORDER, value * is_open),
        (NEWCOMERS, value * has_newcomer),
    ):
        part, left = _fill(share + left, wanted, room)
        room = room - part
        parts.append(part)
    with_leader, among_others, order, newcomers = parts
    even, _ = _fill(EVEN + left, 1 / np.sqrt(votes[low, high] + 1), room + MOST_MORE)
    return PairShares(with_leader + among_others, order, newcomers, even)


def _fill(budget: float, wanted: Floats, room: Floats) -> tuple[Floats, float]:
    """Share a budget in proportion to what is `wanted`, nobody beyond their `room`; and what is
    left of it."""
    given, is_open = np.zeros_like(wanted), wanted > 0
    while budget > 0 and is_open.any():
        more = budget * np.where(is_open, wanted, 0.0) / wanted[is_open].sum()
        is_full = is_open & (given + more >= room)
        if not is_full.any():
            return given + more, 0.0
        budget -= float((room - given)[is_full].sum())
        given[is_full] = room[is_full]
        is_open &= ~is_full
    return given, max(budget, 0.0)


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


def _square(name: str, values: ArrayLike, size: int) -> Floats:
    matrix = np.asarray(values, np.float64)
    if matrix.shape != (size, size):
        raise ValueError(f"{name} must be of shape (K, K) for K of theta, not {matrix.shape}")
    if not (np.isfinite(matrix) & (matrix >= 0)).all():
        raise ValueError(f"{name} must be finite and not negative")
    return matrix
