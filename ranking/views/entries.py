"""Who entered which candidates."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from ranking.board_data import BoardQuery, read_board
from ranking.entries import CANDIDATE_COLUMNS, SNAPSHOT_COLUMNS, list_entrants
from ranking.http_cache import HTML, send_stored


@require_safe
def entries(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Who entered which candidates, and how often each is shown."""
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        view = read_board(
            arena, query, columns=SNAPSHOT_COLUMNS, candidate_columns=CANDIDATE_COLUMNS
        )
        context = {
            "arena": arena,
            "page_links": view.page_links("entries"),
            "entrants": list_entrants(view.candidates, view.snapshots),
        }
        return render_to_string("ranking/entries.html", context)

    return send_stored(request, slug, query.key("entries"), HTML, make)
