"""Boards of a few raters, made when somebody asks, and how far two of them rank alike."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from arena.models import Arena, Vote
from ranking import stats  # names in it are loaded when used: correlations take SciPy a second
from ranking.services.counting import count_cells
from ranking.stats import BradleyTerry
from ranking.tallies import pair_battles


@dataclass(frozen=True)
class RankCorrelation:
    """Of the n candidates that both rank: -1..1, `kendall` is tau-b. None where it is not defined:
    for fewer than two candidates, or where one side gives all of them the same score."""

    n: int
    spearman: float | None
    kendall: float | None


def scores_of_raters(*, arena: Arena, rater_ids: Collection[int]) -> dict[int, float]:
    """Elo by candidate id: Bradley-Terry over the live votes of these raters, counted together.

    Only candidates in the part that results connect have a score; "both bad" enters none. Raises
    NotConverged. One query, however many votes there are.
    """
    votes = Vote.objects.live().filter(arena=arena, rater__in=rater_ids)
    cells = count_cells(votes).per_pair()
    candidates = np.unique(np.concatenate([cells.key("first"), cells.key("second")]))
    model = BradleyTerry().fit(pair_battles(cells, candidates, both_bad_is_tie=False))
    scores = zip(candidates.tolist(), model.ratings_.tolist(), strict=True)
    return {pk: score for pk, score in scores if not np.isnan(score)}


def rank_correlation(first: Mapping[int, float], second: Mapping[int, float]) -> RankCorrelation:
    """Spearman and Kendall's tau-b (Kendall 1945) of the scores that both give."""
    shared = sorted(first.keys() & second.keys())
    one, other = ([scores[pk] for pk in shared] for scores in (first, second))
    found = stats.score_correlations(one, other)
    return RankCorrelation(found.n, found.spearman, found.kendall)
