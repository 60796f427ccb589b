"""Scores against price or speed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.templatetags.arena_tags import dollars, seconds
from ranking import wording
from ranking.board_data import (
    CONTROLLED,
    BoardQuery,
    BoardStanding,
    BoardView,
    Findings,
    choice_links,
    read_board,
)
from ranking.candidate_words import best_value
from ranking.costs import CostAndSpeed, PricedScore, best_for_their_price
from ranking.http_cache import HTML, allow_plotly, send_stored
from ranking.scripted_raters import demo_notice
from ranking.views.scatter_chart import scatter_chart
from ranking.views.standings import control_style

BY = {"price": "Price", "seconds": "Speed"}
AXES = {"price": "$ per 1,000 answers", "seconds": "Seconds per answer"}


@dataclass(frozen=True)
class PricedRow:
    """A line of the table below the chart: a candidate, and whether it is best for its price."""

    row: BoardStanding
    is_best: bool
    amount: str
    answers: int


def clean_by(by: str) -> str:
    return by if by in BY else "price"


def price_context(view: BoardView, by: str) -> dict[str, Any]:
    """The context of `ranking/price.html`; `by` is one of BY, and falls back to what is known."""
    view = control_style(view)
    known = [name for name in BY if any(_amount(row.value, name) is not None for row in view.rows)]
    by = by if by in known or not known else known[0]
    points = {
        standing.candidate_id: PricedScore(
            standing.candidate_id, row.name, amount, standing.score, standing.low, standing.high
        )
        for row in view.ranked
        for standing, amount in ((row.standing, _amount(row.value, by)),)
        if standing.score is not None and amount is not None
    }
    best = best_for_their_price(list(points.values()))
    tiers = () if view.query.style else Findings.of(view.snapshot).tiers
    without = [row.name for row in view.rows if row.standing.candidate_id not in points]
    kept = {"by": "" if by == "price" else by}
    return {
        "arena": view.arena,
        "view": view,
        "snapshot": view.snapshot,
        "collecting": wording.collecting(view.snapshot),
        "demo": demo_notice(view.arena, view.snapshot),
        "by": by,
        "axis": AXES[by],
        "finding": best_value(list(points.values()), by),
        "n_best": len(best),
        "chart": scatter_chart(list(points.values()), tiers),
        "json_url": view.address("board_json", control=""),
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


def _priced_rows(
    view: BoardView, points: Mapping[int, PricedScore], best: set[int], by: str
) -> list[PricedRow]:
    """The candidates of the chart, the cheapest or fastest first."""
    lines = [
        PricedRow(
            row,
            row.standing.candidate_id in best,
            _amount_in_words(row.value, by),
            row.value.n_priced if by == "price" else row.value.n_timed,
        )
        for row in view.ranked
        if row.standing.candidate_id in points
    ]
    return sorted(lines, key=lambda line: points[line.row.standing.candidate_id].value)


@require_safe
@allow_plotly
def price(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Scores against price or speed."""
    query, by = (
        replace(BoardQuery.of(request.GET), sort="rank"),
        clean_by(request.GET.get("by", "")),
    )

    def make(arena: Any) -> str:
        return render_to_string("ranking/price.html", price_context(read_board(arena, query), by))

    return send_stored(request, slug, query.key(f"price-{by}"), HTML, make)
