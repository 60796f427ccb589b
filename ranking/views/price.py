"""Scores against price or speed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.templatetags.arena_tags import dollars, seconds
from ranking import wording
from ranking.board_data import (
    CONTROLLED,
    BoardQuery,
    BoardStanding,
    BoardView,
    choice_links,
    read_board,
)
from ranking.costs import CostAndSpeed
from ranking.http_cache import HTML, send_stored
from ranking.templatetags.ranking_tags import elo, figures, interval
from ranking.views.scatter_chart import ScatterPoint, frontier, scatter_chart
from ranking.views.standings import control_style

BY = {"price": "Price", "seconds": "Speed"}
AXES = {"price": "$ per 1,000 answers", "seconds": "Seconds per answer"}


@dataclass(frozen=True)
class PricedRow:
    """A line of the table below the chart: a candidate, and whether it is on the frontier."""

    row: BoardStanding
    url: str
    is_best: bool
    amount: str
    answers: int
    wins: str


def clean_by(by: str) -> str:
    return by if by in BY else "price"


def price_context(view: BoardView, by: str) -> dict[str, Any]:
    """The context of `ranking/price.html`; `by` is one of BY, and falls back to what is known."""
    view = control_style(view)
    known = [name for name in BY if any(_amount(row.value, name) is not None for row in view.rows)]
    by = by if by in known or not known else known[0]
    points = {
        row.standing.candidate_id: _scatter_point(view, row, by)
        for row in view.ranked
        if row.standing.score is not None and _amount(row.value, by) is not None
    }
    best = frontier(list(points.values()))
    without = [row.name for row in view.rows if row.standing.candidate_id not in points]
    kept = {"by": "" if by == "price" else by}
    return {
        "arena": view.arena,
        "view": view,
        "snapshot": view.snapshot,
        "collecting": wording.collecting(view.snapshot),
        "by": by,
        "axis": AXES[by],
        "chart": scatter_chart(list(points.values())),
        "lines": _priced_rows(view, points, best, by),
        "without": without,
        "page_links": view.page_links("price"),
        "raters_links": view.raters_links("price", **kept, sort="rank"),
        "category_links": view.category_links("price", **kept, sort="rank"),
        "by_links": choice_links(
            [(name, BY[name]) for name in known],
            by,
            lambda name: view.address("price", by="" if name == "price" else name),
        ),
        "style_links": choice_links(
            [("", "As voted"), (CONTROLLED, "Controlled for style")] if view.has_style else [],
            CONTROLLED if view.query.style else "",
            lambda control: view.address("price", **kept, control=control),
        ),
    }


def _amount(value: CostAndSpeed, by: str) -> float | None:
    return value.dollars if by == "price" else value.seconds


def _amount_in_words(value: CostAndSpeed, by: str) -> str:
    if by == "price":
        return dollars(value.price)
    return f"{seconds(value.seconds)}"


def _scatter_point(view: BoardView, row: BoardStanding, by: str) -> ScatterPoint:
    standing, amount = row.standing, _amount(row.value, by)
    assert standing.score is not None
    assert amount is not None
    ends = "" if standing.low is None else f", 95 % interval {interval(standing)}"
    return ScatterPoint(
        name=row.name,
        url=reverse("candidate", args=[view.arena.slug, standing.candidate_id]),
        value=amount,
        score=standing.score,
        low=standing.low,
        high=standing.high,
        says=f"{row.name}: {elo(standing.score)}{ends}; {_amount_in_words(row.value, by)}",
    )


def _priced_rows(
    view: BoardView, points: Mapping[int, ScatterPoint], best: set[str], by: str
) -> list[PricedRow]:
    """The candidates of the chart, the cheapest or fastest first."""
    rows = [row for row in view.ranked if row.standing.candidate_id in points]
    lines = [
        PricedRow(
            row,
            points[row.standing.candidate_id].url,
            points[row.standing.candidate_id].url in best,
            _amount_in_words(row.value, by),
            row.value.n_priced if by == "price" else row.value.n_timed,
            figures(row.value.wins_per_dollar if by == "price" else row.value.wins_per_second),
        )
        for row in rows
    ]
    return sorted(lines, key=lambda line: points[line.row.standing.candidate_id].value)


@require_safe
def price(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Scores against price or speed."""
    query, by = (
        replace(BoardQuery.of(request.GET), sort="rank"),
        clean_by(request.GET.get("by", "")),
    )

    def make(arena: Any) -> str:
        return render_to_string("ranking/price.html", price_context(read_board(arena, query), by))

    return send_stored(request, slug, query.key(f"price-{by}"), HTML, make)
