"""Two judges of one arena: do their boards come out in the same order?"""

from dataclasses import dataclass

from arena.models import Arena, Rater, Vote
from judges.models import Epoch
from judges.reports import RunReport
from ranking.services.rater_boards import RankCorrelation, rank_correlation, scores_of_raters
from ranking.stats import NotConverged


@dataclass(frozen=True)
class Beside:
    """The judge or jury of a run beside another one; `found` is None before one is chosen, and
    where no scores could be made of the votes of one of the two."""

    own: Epoch
    others: list[Epoch]
    chosen: Epoch | None = None
    found: RankCorrelation | None = None


def beside(report: RunReport, wanted: str) -> Beside | None:
    """Compare the board of this run's judge with that of the epoch whose id is `wanted`.

    None where there is nothing to compare: several judges, no arena, nobody else's votes.
    """
    own = report.jury or (report.judges[0].epoch if len(report.judges) == 1 else None)
    if own is None or report.run.arena is None:
        return None
    others = _who_voted(report.run.arena, besides=own)
    if not others:
        return None
    chosen = next((one for one in others if str(one.pk) == wanted), None)
    found = _correlation(report.run.arena, own, chosen) if chosen else None
    return Beside(own, others, chosen, found)


def _who_voted(arena: Arena, besides: Epoch) -> list[Epoch]:
    kinds = [Rater.Kind.JUDGE, Rater.Kind.JURY]
    votes = Vote.objects.live().filter(arena=arena, rater__kind__in=kinds)
    raters = set(votes.values_list("rater", flat=True).distinct())
    found = Epoch.objects.filter(rater__in=raters).exclude(pk=besides.pk)
    return list(found.select_related("judge").order_by("judge__name", "number"))


def _correlation(arena: Arena, own: Epoch, other: Epoch) -> RankCorrelation | None:
    try:
        first, second = (
            scores_of_raters(arena=arena, rater_ids=[epoch.rater_id]) for epoch in (own, other)
        )
    except NotConverged:
        return None
    return rank_correlation(first, second)
