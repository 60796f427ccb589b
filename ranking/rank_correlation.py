"""How alike two rankings of the same candidates are."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from arena.models import Arena, Vote
from ranking.services.votes import read_only
from ranking.stats.agreement import score_correlations
from ranking.stats.bradley_terry import BradleyTerry


@dataclass(frozen=True)
class RankCorrelation:
    """Correlations (-1 to 1; `kendall` is tau-b) over the n candidates that both sides rank.

    None if undefined: fewer than two candidates, or all scores of one side are equal.
    """

    n: int
    spearman: float | None
    kendall: float | None


def scores_of_raters(*, arena: Arena, rater_ids: Collection[int]) -> dict[int, float]:
    """Elo by candidate id: Bradley-Terry over the live votes of these raters, counted together.

    Only candidates connected by results have a score; "both bad" votes are ignored. Raises
    NotConvergedError. One query, however many votes there are.
    """
    votes = Vote.objects.live().filter(arena=arena, rater__in=rater_ids)
    counts = read_only(votes).pairs()
    model = BradleyTerry().fit(counts.battles(counts.candidates, both_bad_is_tie=False))
    scores = zip(counts.candidates.tolist(), model.ratings_.tolist(), strict=True)
    return {pk: score for pk, score in scores if not np.isnan(score)}


def rank_correlation(first: Mapping[int, float], second: Mapping[int, float]) -> RankCorrelation:
    """Spearman and Kendall's tau-b (Kendall 1945) of the scores of the candidates in both."""
    shared = sorted(first.keys() & second.keys())
    result = score_correlations([first[pk] for pk in shared], [second[pk] for pk in shared])
    return RankCorrelation(result.n, result.spearman, result.kendall)
