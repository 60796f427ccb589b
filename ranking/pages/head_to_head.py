"""What a board's votes and scores say of two of its candidates. Pure: no queries."""

from dataclasses import dataclass

import numpy as np

from ranking.models import Snapshot
from ranking.pages.published import Pairs
from ranking.stats import (
    Difference,
    compare,
    neighbours,
    observed_shares,
)
from ranking.stats.intervals import MIN_CLUSTERS
from ranking.votes import Floats


@dataclass(frozen=True)
class HeadToHead:
    """Of candidates a and b; None wherever it is not known.

    Attributes
    ----------
    wins, losses, ties, both_bad : votes between the two, seen from a
    counted : those that the scores stand on
    observed : a's share of the points of these, from 0 to 1
    difference : how far a is ahead, None where one of them is not on the board
    more_votes : how many more votes would separate them, in words; empty for the separated
    own_part : how much of what is known about the difference their own votes carry, from 0 to 1
    """

    wins: int
    losses: int
    ties: int
    both_bad: int
    counted: int
    observed: float | None
    difference: Difference | None
    more_votes: str
    own_part: float | None


def head_to_head(pairs: Pairs, snapshot: Snapshot, a: int, b: int) -> HeadToHead:
    """Compare the candidates with these two different ids."""
    i, j = pairs.place(a), pairs.place(b)
    if i is None or j is None:
        return HeadToHead(*record_between(pairs, a, b), 0, None, None, "", None)
    voted = observed_shares(pairs.battles)
    counted, share = int(voted.votes[i, j]), float(voted.share[i, j])
    difference = difference_between(pairs, snapshot, i, j)
    naive = _independent(pairs, i, j)
    return HeadToHead(
        *record_between(pairs, a, b),
        counted=counted,
        observed=share if counted else None,
        difference=difference,
        more_votes=_more_votes(pairs, snapshot, i, j, naive),
        own_part=_own_part(difference, counted, naive),
    )


def difference_between(pairs: Pairs, snapshot: Snapshot, i: int, j: int) -> Difference:
    """How far the candidate at place i is ahead of the one at place j."""
    settings = snapshot.settings
    own = clusters_between(pairs, snapshot, i, j)
    # The board's own degrees of freedom, unless one of the two has too few votes to be measured.
    is_few = own is not None and own < MIN_CLUSTERS
    n_clusters = own if is_few else settings.get("n_clusters")
    return compare(
        pairs.theta, pairs.covariance, i, j, settings["confidence"], n_clusters, pairs.scale
    )


def clusters_between(pairs: Pairs, snapshot: Snapshot, i: int, j: int) -> int | None:
    """The clusters that hold the votes of the candidate that has fewer; None for not told."""
    settings = snapshot.settings
    met = dict(settings.get("clusters_met", []))
    ids = pairs.candidates[[i, j]].tolist()
    told = [settings.get("n_clusters"), *(met.get(pk) for pk in ids)]
    return min((n for n in told if n is not None), default=None)


def record_between(pairs: Pairs, a: int, b: int) -> tuple[int, int, int, int]:
    """Wins, losses, ties of a against b, and how often both were bad; soft verdicts by side."""
    cells = pairs.cells
    mine = cells.where((cells.key("first") == min(a, b)) & (cells.key("second") == max(a, b)))
    of_first = int((mine["first_wins"] + mine["soft_first"]).sum())
    of_second = int((mine["second_wins"] + mine["soft_second"]).sum())
    ties, bad = int((mine["ties"] + mine["soft_ties"]).sum()), int(mine["both_bad"].sum())
    return (of_first, of_second, ties, bad) if a < b else (of_second, of_first, ties, bad)


def _independent(pairs: Pairs, i: int, j: int) -> Floats | None:
    """(2, 2): covariance of the two strengths, votes taken as independent; None without scores."""
    if np.isnan(pairs.theta[[i, j]]).any():
        return None
    covariance: Floats = pairs.independent[np.ix_([i, j], [i, j])]
    return covariance


def _more_votes(pairs: Pairs, snapshot: Snapshot, i: int, j: int, naive: Floats | None) -> str:
    """As the board says it of neighbours; of any other two by the same rule."""
    for row in snapshot.findings.get("neighbours") or []:
        if {row["upper"], row["lower"]} == {int(pairs.candidates[i]), int(pairs.candidates[j])}:
            return "" if row["separated"] else str(row["words"])
    if naive is None:
        return ""
    told = neighbours(
        pairs.theta[[i, j]],
        pairs.covariance[np.ix_([i, j], [i, j])],
        naive,
        snapshot.settings["confidence"],
        snapshot.settings.get("n_clusters"),
    )[0]
    return "" if told.separated else told.words


def _own_part(difference: Difference, counted: int, naive: Floats | None) -> float | None:
    """The leverage of their own votes: n p (1 - p) of the information 1 / v on the difference.

    Each of the n votes adds p (1 - p) along e_i - e_j, and v is the variance of the difference
    with all votes taken as independent; what is left came through others.
    """
    if naive is None:
        return None
    variance = naive[0, 0] + naive[1, 1] - 2 * naive[0, 1]
    p = difference.probability
    return float(min(1.0, counted * p * (1 - p) * variance))
