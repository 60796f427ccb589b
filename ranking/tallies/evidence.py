"""From cells to the battles that the estimators read."""

from dataclasses import dataclass

import numpy as np

from ranking.stats import ENOUGH, Battles, Clusters
from ranking.tallies.cells import UNIT, Cells, Floats, Ints


def pair_battles(cells: Cells, candidates: Ints, both_bad_is_tie: bool) -> Battles:
    """The votes without their clusters: what the scores need. `candidates`: (K,) ids, ascending."""
    return _battles(cells, candidates, both_bad_is_tie, None)


def clustered_battles(
    cells: Cells, candidates: Ints, both_bad_is_tie: bool
) -> tuple[Battles, Clusters]:
    """The votes in the clusters of `choose_clusters`, whose rule is applied to whole cells."""
    counted = cells.votes if both_bad_is_tie else cells.decided
    cells = cells.where(counted > 0)
    clusters = clusters_of(cells)
    if clusters.codes is None:
        cells = cells.per_pair()
    return _battles(cells, candidates, both_bad_is_tie, clusters.codes), clusters


def clusters_of(cells: Cells) -> Clusters:
    """By prompt from 40 on, else by (prompt, pair); votes without a prompt by rater or by vote."""
    prompt, rater = cells.key("prompt"), cells.key("rater")
    if len(cells) and prompt.all():
        distinct, code = np.unique(prompt, return_inverse=True)
        if len(distinct) >= ENOUGH:
            return Clusters(code.astype(np.int64), "prompt")
        return Clusters(np.arange(len(cells)), "prompt_pair")
    owner = np.where(prompt > 0, -prompt, rater)  # a known prompt stays a cluster
    distinct, code = np.unique(owner, return_inverse=True)
    if len(distinct) >= ENOUGH:
        return Clusters(code.astype(np.int64), "rater")
    return Clusters(None, "vote")


@dataclass(frozen=True, eq=False)
class Rows:
    """(R,) rows, one for each outcome of each cell: `cell`, its place; what each of `count` votes
    gives to ``first``."""

    cell: Ints
    score: Floats
    count: Ints


def outcome_rows(cells: Cells, both_bad_is_tie: bool) -> Rows:
    """The votes of the cells by what they say; soft verdicts of a cell by their mean."""
    ties = cells["ties"] + cells["both_bad"] if both_bad_is_tie else cells["ties"]
    soft = cells["soft_first"] + cells["soft_second"] + cells["soft_ties"]
    share: Floats = cells["soft_points"] / (UNIT * np.maximum(soft, 1))
    kinds = [
        (np.ones(len(cells)), cells["first_wins"]),
        (np.zeros(len(cells)), cells["second_wins"]),
        (np.full(len(cells), 0.5), ties),
        (share, soft),
    ]
    there = [np.flatnonzero(count) for _, count in kinds]
    return Rows(
        np.concatenate(there),
        np.concatenate([s[at] for (s, _), at in zip(kinds, there, strict=True)]),
        np.concatenate([c[at] for (_, c), at in zip(kinds, there, strict=True)]),
    )


def _battles(
    cells: Cells, candidates: Ints, both_bad_is_tie: bool, cluster: Ints | None
) -> Battles:
    rows = outcome_rows(cells, both_bad_is_tie)
    return Battles(
        n_candidates=len(candidates),
        first=np.searchsorted(candidates, cells.key("first")[rows.cell]),
        second=np.searchsorted(candidates, cells.key("second")[rows.cell]),
        score=rows.score,
        weight=np.ones(len(rows.cell)),
        count=rows.count,
        cluster=None if cluster is None else cluster[rows.cell],
    )
