"""The ranks of each candidate in the categories of prompts."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.models import Candidate
from ranking.board_data import BoardQuery, choice_links, page_links, read_snapshots
from ranking.comparison import standings_with_candidates
from ranking.http_cache import HTML, send_stored
from ranking.models import Counted, Snapshot, Standing

SHADES = 5  # from the first rank to the last


@dataclass(frozen=True)
class CategoryColumn:
    """The leaderboard of a category ("" for all prompts), with its standings by candidate."""

    label: str
    url: str
    snapshot: Snapshot
    standings: dict[int, Standing]

    @property
    def n_ranked(self) -> int:
        return sum(standing.rank is not None for standing in self.standings.values())


@dataclass(frozen=True)
class CategoryCell:
    """A candidate's place in a category; without one, `says` why. `shade`: from 1, the top."""

    standing: Standing | None
    shade: int = 0
    says: str = ""


@dataclass(frozen=True)
class CategoryRow:
    candidate: Candidate
    cells: list[CategoryCell]


def categories_context(arena: Any, query: BoardQuery) -> dict[str, Any]:
    """The context of `ranking/categories.html`."""
    query = BoardQuery(query.raters)
    snapshots, chosen = read_snapshots(arena, query)
    raters = chosen.board.raters if chosen else ""
    columns = _read_category_columns(arena, raters, snapshots)
    voted = {s.board.raters for s in snapshots if s.board.category and s.n_votes}
    candidates: dict[int, Candidate] = {}
    for column in columns:
        candidates |= {pk: row.candidate for pk, row in column.standings.items()}

    def place(pk: int) -> tuple[float, str]:
        standing = columns[0].standings.get(pk)
        rank = standing.rank if standing else None
        return rank or float("inf"), str(candidates[pk]).casefold()

    return {
        "arena": arena,
        "columns": columns,
        "rows": [
            CategoryRow(candidates[pk], [_category_cell(column, pk) for column in columns])
            for pk in sorted(candidates, key=place)
        ],
        "page_links": page_links(arena.slug, BoardQuery(raters), snapshots, "categories"),
        "raters_links": choice_links(
            [(value, label) for value, label in Counted.choices if value in voted],
            raters,
            lambda value: BoardQuery(value).address(arena.slug, "categories"),
        ),
    }


def _read_category_columns(
    arena: Any, raters: str, snapshots: list[Snapshot]
) -> list[CategoryColumn]:
    """One query: the leaderboards of these raters, that of all prompts first."""
    of_raters = [s for s in snapshots if s.board.raters == raters and s.n_votes]
    standings: dict[int, dict[int, Standing]] = {s.pk: {} for s in of_raters}
    for standing in standings_with_candidates(of_raters):
        standings[standing.snapshot_id][standing.candidate_id] = standing
    return [
        CategoryColumn(
            snapshot.board.category or "All prompts",
            BoardQuery(raters, snapshot.board.category).address(arena.slug),
            snapshot,
            standings[snapshot.pk],
        )
        for snapshot in sorted(of_raters, key=lambda s: s.board.category.casefold())
    ]


def _category_cell(column: CategoryColumn, pk: int) -> CategoryCell:
    standing = column.standings.get(pk)
    if standing is None or not standing.votes:
        return CategoryCell(None, says="no votes")
    if column.snapshot.lacks_votes:
        few_prompts = column.snapshot.settings["evidence"]["few_prompts"]
        return CategoryCell(None, says="few prompts" if few_prompts else "few votes")
    if standing.rank is None:
        return CategoryCell(None, says="not comparable")
    share = (standing.rank - 1) / max(column.n_ranked - 1, 1)
    return CategoryCell(standing, 1 + min(int(share * SHADES), SHADES - 1))


@require_safe
def categories(request: HttpRequest, slug: str) -> HttpResponseBase:
    query = BoardQuery(BoardQuery.unsorted(request.GET).raters)

    def make(arena: Any) -> str:
        context = categories_context(arena, query)
        return render_to_string("ranking/categories.html", context)

    return send_stored(request, slug, query.key("categories"), HTML, make)
