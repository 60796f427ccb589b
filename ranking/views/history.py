"""How a candidate's score changed, and the address of the former page about all candidates."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from ranking.board_data import BoardQuery, find_arena, parse_id
from ranking.models import Snapshot, Standing
from ranking.views.charts import LineChart, ScoreAt, line_chart

MOST_LINES = 10  # of the interactive figure: more can't be told apart
MOST_SNAPSHOTS = 100  # if there are more, this many at even intervals are shown


@dataclass(frozen=True)
class PastSnapshot:
    pk: int
    published_at: datetime


@dataclass(frozen=True)
class ScoreHistory:
    """A candidate's scores on one leaderboard. `figure`: the same of the best others, too."""

    chart: LineChart
    first: ScoreAt
    last: ScoreAt
    figure: list[dict[str, Any]]


def score_history(own: Standing) -> ScoreHistory | None:
    """At most five queries; None before the second snapshot."""
    kept = Snapshot.objects.kept().filter(board=own.snapshot.board_id)
    rows = kept.order_by("published_at", "pk").values_list("pk", "published_at")
    past = thinned([PastSnapshot(*row) for row in rows])
    ranked = Standing.objects.filter(snapshot=own.snapshot_id, score__isnull=False)
    others = ranked.exclude(candidate=own.candidate_id).select_related("candidate")
    shown = [own, *others.order_by("rank", "pk")[: MOST_LINES - 1]]
    standings = Standing.objects.filter(
        snapshot__in=[snapshot.pk for snapshot in past],
        candidate__in=[standing.candidate_id for standing in shown],
    )
    values = {
        (candidate, snapshot): ends
        for candidate, snapshot, *ends in standings.values_list(
            "candidate", "snapshot", "score", "low", "high"
        )
    }
    none = [None] * 3
    moves = own.snapshot.moves([one.pk for one in past])
    lines = [
        [
            ScoreAt(one.published_at, *values.get((row.candidate_id, one.pk), none)).moved(
                moves[one.pk]
            )
            for one in past
        ]
        for row in shown
    ]
    chart = line_chart(lines[0])
    if chart is None:
        return None
    scored = [moment for moment in lines[0] if moment.score is not None]
    figure = [
        {
            "name": str(row.candidate),
            "at": [moment.at.isoformat() for moment in line],
            "score": _rounded([moment.score for moment in line]),
            "low": _rounded([moment.low for moment in line]),
            "high": _rounded([moment.high for moment in line]),
        }
        for row, line in zip(shown, lines, strict=True)
    ]
    return ScoreHistory(chart, scored[0], scored[-1], figure)


def _rounded(values: Sequence[float | None]) -> list[int | None]:
    return [None if value is None else round(value) for value in values]


def thinned(past: Sequence[PastSnapshot]) -> list[PastSnapshot]:
    """At most MOST_SNAPSHOTS of them at about even intervals, with the first and the last."""
    if len(past) <= MOST_SNAPSHOTS:
        return list(past)
    first, last = past[0].published_at, past[-1].published_at
    span = (last - first) or (last.resolution * len(past))
    by_slot = {int((MOST_SNAPSHOTS - 2) * ((p.published_at - first) / span)): p for p in past[1:]}
    return [past[0], *by_slot.values()]


@require_safe
def history(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Redirect to the first candidate that the address names, or else to the leaderboard with a
    line for each."""
    arena = find_arena(slug, actor_of(request))
    query = BoardQuery.unsorted(request.GET)
    named = map(parse_id, request.GET.getlist("candidate"))
    candidate = next((pk for pk in named if pk is not None), None)
    if candidate is None:
        address = query.address(arena.slug, columns="details")
        return redirect(f"{address}#standings", permanent=True)
    page, board = (
        reverse("candidate", args=[arena.slug, candidate]),
        reverse("board", args=[arena.slug]),
    )
    address = query.address(arena.slug).replace(board, page, 1)
    return redirect(f"{address}#history", permanent=True)
