"""A compact leaderboard for frames on other sites, and what badges and pictures there share."""

import re
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from ranking import wording
from ranking.board_data import BoardQuery, BoardStanding, Findings
from ranking.comparison import PublishedBoard, read_published
from ranking.http_cache import HTML, policy, send_to_anybody
from ranking.scripted_raters import demo_notice

NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
FIVE_MINUTES = "public, max-age=300"
MOST_STANDINGS = 10
FRAME_POLICY = {
    "default-src": ["'none'"],
    "style-src": ["'self'"],
    "img-src": ["'self'"],  # its icon, if it is opened on its own
    "base-uri": ["'none'"],
    "form-action": ["'none'"],
    "frame-ancestors": ["*"],
}
ALONE = {"default-src": ["'none'"], "frame-ancestors": ["'none'"], "sandbox": True}


def send_picture(
    request: HttpRequest,
    slug: str,
    key: str,
    content_type: str,
    make: Callable[[Any], str | bytes],
) -> HttpResponseBase:
    response = send_to_anybody(request, slug, key, content_type, make)
    response.headers["Cache-Control"] = FIVE_MINUTES
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


@require_safe
@xframe_options_exempt
@policy(FRAME_POLICY)
def embed_board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The top of a board. It has no scripts and no forms, so any site may frame it."""
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        context = embed_context(read_published(arena, query))
        return render_to_string("ranking/embed.html", context)

    return send_to_anybody(request, slug, query.key("embed"), HTML, make)


def embed_context(board: PublishedBoard) -> dict[str, Any]:
    """The context of `ranking/embed.html`."""
    collecting = wording.collecting(board.snapshot)
    # Without enough votes nobody has a rank yet.
    placed = [] if collecting else board.standings
    ranked = [standing for standing in placed if standing.rank is not None]
    rows = [BoardStanding(standing, str(standing.candidate)) for standing in ranked]
    standings = ranked[:MOST_STANDINGS]
    settings = board.snapshot.settings if board.snapshot else {}
    return {
        "arena": board.arena,
        "snapshot": board.snapshot,
        "raters": board.query.raters,
        "category": board.query.category,
        "demo": demo_notice(board.arena, board.snapshot),
        "lead": wording.lead(rows, Findings.of(board.snapshot), board.query.raters, settings),
        "collecting": collecting,
        "standings": standings,
        "more": len(board.standings) - len(standings),
        "board_url": board.address(),
    }
