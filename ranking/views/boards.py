"""The index of arenas, and a board as a page, as CSV and as JSON."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.access import actor_of
from ranking.pages import arenas, results
from ranking.pages.board import board_context
from ranking.pages.reading import BoardView, Question, read_board
from ranking.views.serving import CSV, HTML, JSON, allow_plotly, send_stored, send_template


@require_safe
def index(request: HttpRequest) -> HttpResponseBase:
    """The arenas that are listed for whoever reads, each with what it asks and who leads."""
    actor = actor_of(request)
    context = {"cards": arenas.cards(actor), "may_sign_up": settings.SIGN_UP == "open"}
    return send_template(request, "ranking/index.html", context, private=bool(actor.key))


@require_safe
@allow_plotly
def board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """A board: a table and a chart of its current snapshot."""
    return _stored(request, slug, "html", HTML, _board_html)


@require_safe
def board_json(request: HttpRequest, slug: str) -> HttpResponseBase:
    return _stored(request, slug, "json", JSON, results.as_json)


@require_safe
def board_csv(request: HttpRequest, slug: str) -> HttpResponseBase:
    response = _stored(request, slug, "csv", CSV, results.as_csv)
    response.headers["Content-Disposition"] = f'attachment; filename="{slug}-results.csv"'
    return response


def _board_html(view: BoardView) -> str:
    return render_to_string("ranking/board.html", board_context(view))


def _stored(
    request: HttpRequest,
    slug: str,
    form: str,
    content_type: str,
    make: Callable[[BoardView], str],
) -> HttpResponseBase:
    """The page of the board that is asked for, in one of its forms."""
    asked = Question.of(request.GET)
    return send_stored(
        request, slug, asked.key(form), content_type, lambda arena: make(read_board(arena, asked))
    )
