"""How two groups of raters order the same candidates: by their scores, and by their clear leads."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from arena.models.voting import VoteQuerySet
from ranking.board_data import rank_correlation
from ranking.services.cluster_tallies import count_by_prompt
from ranking.stats.differences import Lead, compare
from ranking.stats.sandwich import Sandwich
from ranking.tallies import dependence


@dataclass(frozen=True)
class OrderAgreement:
    """How two groups of raters order the candidates that both rank.

    `kendall`: tau-b of their scores; None as for `RankCorrelation`. `certain`: pairs of candidates
    with a clear lead by both; `same`: those of them in which both have the same one ahead.
    """

    n: int
    kendall: float | None
    certain: int
    same: int


def compare_orders(first: VoteQuerySet, second: VoteQuerySet) -> OrderAgreement:
    """Fit the votes of either group and compare their orders. Raises NotConvergedError.

    A lead is clear at 95 % for one check, with votes on the same prompt as dependent.
    """
    one, other = _leads(first), _leads(second)
    scores = rank_correlation(one.scores, other.scores)
    certain = one.clear.keys() & other.clear.keys()
    same = sum(one.clear[pair] == other.clear[pair] for pair in certain)
    return OrderAgreement(scores.n, scores.kendall, len(certain), same)


@dataclass(frozen=True)
class _Leads:
    """Scores by candidate id, and for each pair with a clear lead whether the lower id has it."""

    scores: Mapping[int, float]
    clear: Mapping[tuple[int, int], bool]


def _leads(votes: VoteQuerySet) -> _Leads:
    counts = count_by_prompt(votes)
    candidates = np.unique(np.concatenate([counts.key("first"), counts.key("second")]))
    groups = dependence(counts, None, candidates, both_bad_is_tie=False)
    fitted = Sandwich().fit(*groups.groupings)
    scores = {
        int(pk): float(score)
        for pk, score in zip(candidates, fitted.ratings_, strict=True)
        if not np.isnan(score)
    }
    clear = {}
    theta, covariance = fitted.model_.theta_, fitted.covariance_
    for i, j in combinations(np.flatnonzero(fitted.model_.ranked_).tolist(), 2):
        lead = compare(theta, covariance, i, j, n_clusters=fitted.n_clusters_).lead
        if lead in (Lead.AHEAD, Lead.BEHIND):
            clear[int(candidates[i]), int(candidates[j])] = lead == Lead.AHEAD
    return _Leads(scores, clear)
