"""The pages beside a board: the win matrix, two candidates or all boards compared, the history."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.access import actor_of
from ranking.pages.compare import Pick, compare_context
from ranking.pages.history import asked_candidates, history_context
from ranking.pages.matrix import matrix_context, shown_of
from ranking.pages.published import read_published
from ranking.pages.reading import Question, find_arena
from ranking.pages.side_by_side import order_of, side_by_side_context
from ranking.services import pages
from ranking.views.serving import HTML, send, send_stored, send_template


@require_safe
def win_matrix(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Who scored how much against whom, as voted or as predicted."""
    asked, show = Question.unsorted(request.GET), shown_of(request.GET.get("show", ""))

    def make(arena: Any) -> str:
        context = matrix_context(read_published(arena, asked), show)
        return render_to_string("ranking/matrix.html", context)

    return send_stored(request, slug, asked.key(f"matrix-{show}"), HTML, make)


@require_safe
def compare(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Two candidates side by side, and the comparisons they share."""
    arena = find_arena(slug, actor_of(request))
    board = read_published(arena, Question.unsorted(request.GET))
    context = compare_context(board, Pick.of(request.GET), request.GET.get("page", "1"))
    return send_template(request, "ranking/compare.html", context, private=arena.is_private)


@require_safe
def side_by_side(request: HttpRequest, slug: str) -> HttpResponseBase:
    """People, judges, juries and combined: what each says of each candidate, and who disagrees."""
    asked, order = Question.unsorted(request.GET), order_of(request.GET.get("order", ""))

    def make(arena: Any) -> str:
        context = side_by_side_context(arena, asked, order)
        return render_to_string("ranking/side_by_side.html", context)

    return send_stored(request, slug, asked.key(f"side-by-side-{order}"), HTML, make)


@require_safe
def history(request: HttpRequest, slug: str) -> HttpResponseBase:
    """How scores moved from snapshot to snapshot. The page of the first candidates is stored."""
    asked = Question.unsorted(request.GET)
    candidates = asked_candidates(request.GET.getlist("candidate"))

    def make(arena: Any) -> str:
        context = history_context(read_published(arena, asked), candidates)
        return render_to_string("ranking/history.html", context)

    if candidates:
        arena = find_arena(slug, actor_of(request))
        return send(request, pages.pack(make(arena)), HTML, private=arena.is_private)
    return send_stored(request, slug, asked.key("history"), HTML, make)
