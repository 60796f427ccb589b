"""How the scores of a board moved: a line per candidate, and the same numbers as a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from ranking.models import Snapshot, Standing
from ranking.pages.line_chart import LineChart, Moment, Series, line_chart
from ranking.pages.published import Published, category_links, page_links, raters_links

LINES = 10  # as many as can be told apart
MOMENTS = 100  # snapshots that are shown; of more, as many at even times
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Past:
    """A snapshot's number, when it was published, and its votes."""

    pk: int
    published_at: datetime
    n_votes: int


@dataclass(frozen=True)
class Row:
    """A line of the table: a snapshot, and what each candidate shown had in it."""

    past: Past
    cells: list[Moment]


def asked_candidates(named: Iterable[str]) -> list[int]:
    """The ids that an address names, each once; what is no id is ignored."""
    ids = [int(text) for text in named if text.isascii() and text.isdigit() and len(text) < 20]
    return list(dict.fromkeys(pk for pk in ids if pk <= LARGEST_ID))


def history_context(board: Published, asked: Sequence[int]) -> dict[str, Any]:
    """Everything that `ranking/history.html` prints; the first by score where none is asked for."""
    shown = _shown(board, asked)
    kept, n_there = _kept(board)
    series = _series(kept, shown)
    return {
        "arena": board.arena,
        "board": board,
        "snapshot": board.snapshot,
        "shown": shown,
        "chosen": {standing.candidate_id for standing in shown},
        "too_many": len(set(asked) & _ids(board.standings)) > LINES,
        "lines": LINES,
        "n_there": n_there,
        "kept": kept,
        "chart": _chart(series),
        "rows": _rows(kept, series),
        "alone": len(shown) == 1,
        "page_links": page_links(board, "history"),
        "raters_links": raters_links(board, "history"),
        "category_links": category_links(board, "history"),
    }


def _ids(standings: Iterable[Standing]) -> set[int]:
    return {standing.candidate_id for standing in standings}


def _shown(board: Published, asked: Sequence[int]) -> list[Standing]:
    """Those asked for, and without them the first, in rank order; at most LINES."""
    there = _ids(board.standings)
    wanted = [pk for pk in asked if pk in there][:LINES]
    if wanted:
        return [standing for standing in board.standings if standing.candidate_id in wanted]
    return [standing for standing in board.standings if standing.score is not None][:LINES]


def _kept(board: Published) -> tuple[list[Past], int]:
    """The snapshots to show, the oldest first, and how many there are."""
    if board.snapshot is None:
        return [], 0
    there = Snapshot.objects.filter(board=board.snapshot.board_id).filter(
        Q(is_history=True) | Q(pk=board.snapshot.pk)
    )
    rows = there.order_by("published_at", "pk").values_list("pk", "published_at", "n_votes")
    past = [Past(*row) for row in rows]
    return thinned(past), len(past)


def thinned(past: Sequence[Past]) -> list[Past]:
    """At most MOMENTS of them at about even times, with the first and the last."""
    if len(past) <= MOMENTS:
        return list(past)
    first, last = past[0].published_at, past[-1].published_at
    span = (last - first) or (last.resolution * len(past))
    by_slot = {int((MOMENTS - 2) * ((p.published_at - first) / span)): p for p in past[1:]}
    return [past[0], *by_slot.values()]


def _series(kept: Sequence[Past], shown: Sequence[Standing]) -> list[Series]:
    """One query: the scores of the candidates shown, in each snapshot."""
    if not kept or not shown:
        return []
    found = Standing.objects.filter(
        snapshot__in=[past.pk for past in kept], candidate__in=[s.candidate_id for s in shown]
    ).values_list("candidate", "snapshot", "score", "low", "high")
    known = {(candidate, snapshot): rest for candidate, snapshot, *rest in found}
    none = [None, None, None]
    return [
        Series(
            str(standing.candidate),
            [
                Moment(past.published_at, *known.get((standing.candidate_id, past.pk), none))
                for past in kept
            ],
        )
        for standing in shown
    ]


def chart_of(standing: Standing) -> LineChart | None:
    """One query: how a candidate's score moved on one board; None without a history."""
    there = Standing.objects.filter(
        Q(snapshot__is_history=True) | Q(snapshot__is_current=True),
        candidate=standing.candidate_id,
        snapshot__board=standing.snapshot.board_id,
    ).order_by("snapshot__published_at", "snapshot")
    rows = there.values_list(
        "snapshot", "snapshot__published_at", "snapshot__n_votes", "score", "low", "high"
    )
    past = {Past(*row[:3]): row[3:] for row in rows}
    moments = [Moment(at.published_at, *past[at]) for at in thinned(list(past))]
    return _chart([Series(str(standing.candidate), moments)])


def _chart(series: Sequence[Series]) -> LineChart | None:
    return line_chart(series, band=len(series) == 1)


def _rows(kept: Sequence[Past], series: Sequence[Series]) -> list[Row]:
    """The newest first."""
    rows = [Row(past, [line.moments[i] for line in series]) for i, past in enumerate(kept)]
    return rows[::-1]
