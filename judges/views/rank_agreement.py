"""How far two judges agree on the ranking of an arena's candidates."""

from dataclasses import dataclass

from arena.models import Arena, Rater, Vote
from judges.models import Epoch
from judges.run_reports import RunReport
from ranking.rank_correlation import RankCorrelation, rank_correlation, scores_of_raters
from ranking.stats.bradley_terry import NotConvergedError


@dataclass(frozen=True)
class RankingComparison:
    """The ranking by a run's judge or jury, and another one's.

    `agreement` is None before another judge is chosen, and if one of them has no scores.
    """

    own: Epoch
    others: list[Epoch]
    chosen: Epoch | None = None
    agreement: RankCorrelation | None = None


def compare_rankings(report: RunReport, chosen: str) -> RankingComparison | None:
    """Compare the ranking by this run's judge with that by the epoch whose id is `chosen`.

    None if there is nothing to compare: several judges, no arena, no votes by other judges.
    """
    own = report.jury or (report.judges[0].epoch if len(report.judges) == 1 else None)
    arena = report.run.arena
    if own is None or arena is None:
        return None
    kinds = [Rater.Kind.JUDGE, Rater.Kind.JURY]
    votes = Vote.objects.live().filter(arena=arena, rater__kind__in=kinds)
    raters = set(votes.values_list("rater", flat=True).distinct())
    voters = Epoch.objects.filter(rater__in=raters).exclude(pk=own.pk).select_related("judge")
    others = list(voters.order_by("judge__name", "number"))
    if not others:
        return None
    other = next((epoch for epoch in others if str(epoch.pk) == chosen), None)
    agreement = _agreement_of_scores(arena, own, other) if other else None
    return RankingComparison(own, others, other, agreement)


def _agreement_of_scores(arena: Arena, own: Epoch, other: Epoch) -> RankCorrelation | None:
    try:
        scores = [
            scores_of_raters(arena=arena, rater_ids=[epoch.rater_id]) for epoch in (own, other)
        ]
    except NotConvergedError:
        return None
    return rank_correlation(*scores)
