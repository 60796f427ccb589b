"""How alike two rankings of the same candidates are."""

from collections.abc import Mapping
from dataclasses import dataclass

from ranking.stats.agreement import score_correlations


@dataclass(frozen=True)
class RankCorrelation:
    """Correlations (-1 to 1; `kendall` is tau-b) over the n candidates that both sides rank.

    None if undefined: fewer than two candidates, or all scores of one side are equal.
    """

    n: int
    spearman: float | None
    kendall: float | None


def rank_correlation(first: Mapping[int, float], second: Mapping[int, float]) -> RankCorrelation:
    """Spearman and Kendall's tau-b (Kendall 1945) of the scores of the candidates in both."""
    shared = sorted(first.keys() & second.keys())
    result = score_correlations([first[pk] for pk in shared], [second[pk] for pk in shared])
    return RankCorrelation(result.n, result.spearman, result.kendall)
