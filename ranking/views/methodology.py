"""How the numbers of a board are made."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from ranking.pages.methodology import PAGE, methodology_context
from ranking.pages.reading import Question, read_board
from ranking.views.serving import HTML, send_stored


@require_safe
def methodology(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Each number of a board in plain words, its formula, and the settings in force."""
    asked = Question.unsorted(request.GET)

    def make(arena: Any) -> str:
        context = methodology_context(read_board(arena, asked))
        return render_to_string("ranking/methodology.html", context)

    return send_stored(request, slug, asked.key(PAGE), HTML, make)
