"""The score history of a leaderboard: a line per candidate, and the same numbers as a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from ranking import http_cache, wording
from ranking.board_data import BoardQuery, find_arena, parse_id
from ranking.comparison import PublishedBoard, read_published
from ranking.http_cache import HTML, send, send_stored
from ranking.models import Snapshot, Standing
from ranking.views.charts import LineChart, ScoreAt, Series, bump_chart, line_chart

MOST_LINES = 10  # more can't be told apart
MOST_NAMED = 5  # in the chart of ranks, unless readers choose
MOST_RANKED = 50  # lines of the chart of ranks
MOST_SNAPSHOTS = 100  # if there are more, this many at even intervals are shown
PAST = ("pk", "published_at", "n_votes", "digest")


@dataclass(frozen=True)
class PastSnapshot:
    pk: int
    published_at: datetime
    n_votes: int
    digest: str  # empty if it was computed afterwards, from the dates of the votes


@dataclass(frozen=True)
class HistoryRow:
    """A line of the table: a snapshot, and the score of each candidate shown."""

    past: PastSnapshot
    cells: list[ScoreAt]


def parse_candidates(texts: Iterable[str]) -> list[int]:
    """Parse the ids in a URL, without duplicates; invalid ones are ignored."""
    return list(dict.fromkeys(pk for text in texts if (pk := parse_id(text)) is not None))


def history_context(board: PublishedBoard, candidates: Sequence[int]) -> dict[str, Any]:
    """The context of `ranking/history.html`, by default for the first candidates by rank."""
    by_id = {standing.candidate_id: standing for standing in board.standings}
    named = [pk for pk in candidates if pk in by_id]
    if named:
        standings = [row for row in board.standings if row.candidate_id in named[:MOST_LINES]]
    else:
        standings = [row for row in board.standings if row.score is not None][:MOST_LINES]
    snapshots, n_snapshots = _read_past_snapshots(board)
    series = _read_series(snapshots, standings)
    rows = [
        HistoryRow(past, [line.moments[i] for line in series]) for i, past in enumerate(snapshots)
    ]
    return {
        "arena": board.arena,
        "board": board,
        "snapshot": board.snapshot,
        "collecting": wording.collecting(board.snapshot),
        "shown": standings,
        "chosen": {standing.candidate_id for standing in standings},
        "too_many": len(set(named)) > MOST_LINES,
        "lines": MOST_LINES,
        "n_there": n_snapshots,
        "kept": snapshots,
        "computed_until": max((p.published_at for p in snapshots if not p.digest), default=None),
        "chart": _score_chart(series),
        "ranks": _rank_chart(board, snapshots, standings if named else standings[:MOST_NAMED]),
        "rows": rows[::-1],  # the newest first
        "alone": len(standings) == 1,
        "page_links": board.page_links("history"),
        "raters_links": board.raters_links("history"),
        "category_links": board.category_links("history"),
    }


def _read_past_snapshots(board: PublishedBoard) -> tuple[list[PastSnapshot], int]:
    """The snapshots to show, the oldest first, and how many there are."""
    if board.snapshot is None:
        return [], 0
    snapshots = Snapshot.objects.filter(board=board.snapshot.board_id).filter(
        Q(is_history=True) | Q(pk=board.snapshot.pk)
    )
    rows = snapshots.order_by("published_at", "pk").values_list(*PAST)
    past = [PastSnapshot(*row) for row in rows]
    return thinned(past), len(past)


def thinned(past: Sequence[PastSnapshot]) -> list[PastSnapshot]:
    """At most MOST_SNAPSHOTS of them at about even intervals, with the first and the last."""
    if len(past) <= MOST_SNAPSHOTS:
        return list(past)
    first, last = past[0].published_at, past[-1].published_at
    span = (last - first) or (last.resolution * len(past))
    by_slot = {int((MOST_SNAPSHOTS - 2) * ((p.published_at - first) / span)): p for p in past[1:]}
    return [past[0], *by_slot.values()]


def _read_series(
    snapshots: Sequence[PastSnapshot],
    standings: Sequence[Standing],
    columns: Sequence[str] = ("score", "low", "high"),
) -> list[Series]:
    """One query: these columns of the candidates' standings, in each snapshot."""
    if not snapshots or not standings:
        return []
    rows = Standing.objects.filter(
        snapshot__in=[past.pk for past in snapshots],
        candidate__in=[standing.candidate_id for standing in standings],
    ).values_list("candidate", "snapshot", *columns)
    values = {(candidate, snapshot): numbers for candidate, snapshot, *numbers in rows}
    none = [None] * len(columns)
    return [
        Series(
            str(standing.candidate),
            [
                ScoreAt(past.published_at, *values.get((standing.candidate_id, past.pk), none))
                for past in snapshots
            ],
        )
        for standing in standings
    ]


def _rank_chart(
    board: PublishedBoard, snapshots: Sequence[PastSnapshot], named: Sequence[Standing]
) -> LineChart | None:
    """One query: the ranks of the first candidates over time, with some of them named."""
    ranked = [row for row in board.standings if row.rank is not None][:MOST_RANKED]
    if len(ranked) < 2 or len(snapshots) < 2:
        return None
    chosen = {standing.candidate_id for standing in named}
    rest = [row for row in ranked if row.candidate_id not in chosen]
    lines = [*(row for row in named if row.rank is not None), *rest]
    series = _read_series(snapshots, lines, ["rank"])
    n_named = len(lines) - len(rest)
    return bump_chart(series[:n_named], series[n_named:])


def candidate_chart(standing: Standing) -> LineChart | None:
    """One query: how a candidate's score changed on one board; None without a history."""
    standings = Standing.objects.filter(
        Q(snapshot__is_history=True) | Q(snapshot__is_current=True),
        candidate=standing.candidate_id,
        snapshot__board=standing.snapshot.board_id,
    ).order_by("snapshot__published_at", "snapshot")
    past = (f"snapshot__{name}" for name in PAST)
    rows = standings.values_list(*past, "score", "low", "high")
    scores = {PastSnapshot(*row[: len(PAST)]): row[len(PAST) :] for row in rows}
    moments = [ScoreAt(past.published_at, *scores[past]) for past in thinned(list(scores))]
    return _score_chart([Series(str(standing.candidate), moments)])


def _score_chart(series: Sequence[Series]) -> LineChart | None:
    return line_chart(series, band=len(series) == 1)


@require_safe
def history(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The score history; only the page without a choice of candidates is stored."""
    query = BoardQuery.unsorted(request.GET)
    candidates = parse_candidates(request.GET.getlist("candidate"))

    def make(arena: Any) -> str:
        context = history_context(read_published(arena, query), candidates)
        return render_to_string("ranking/history.html", context)

    if candidates:
        arena = find_arena(slug, actor_of(request))
        return send(request, http_cache.pack(make(arena)), HTML, private=arena.is_private)
    return send_stored(request, slug, query.key("history"), HTML, make)
