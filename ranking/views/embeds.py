"""A compact board, for other sites to show in a frame."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from ranking.pages.embed import embed_context
from ranking.pages.published import read_published
from ranking.pages.reading import Question
from ranking.views.serving import HTML, policy, send_to_anybody

IN_ANY_FRAME = {
    "default-src": ["'none'"],
    "style-src": ["'self'"],
    "img-src": ["'self'"],  # its icon, where it is opened by itself
    "base-uri": ["'none'"],
    "form-action": ["'none'"],
    "frame-ancestors": ["*"],
}


@require_safe
@xframe_options_exempt
@policy(IN_ANY_FRAME)
def embed_board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The best of a board. Nothing on it runs or is filled in, so any site may frame it."""
    asked = Question.unsorted(request.GET)

    def make(arena: Any) -> str:
        context = embed_context(read_published(arena, asked))
        return render_to_string("ranking/embed.html", context)

    return send_to_anybody(request, slug, asked.key("embed"), HTML, make)
