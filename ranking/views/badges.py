"""A candidate's badge, for other sites to show."""

from typing import Any

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from ranking.pages.badge import badge_of, find_candidate
from ranking.pages.published import read_published
from ranking.pages.reading import Question
from ranking.views.serving import policy, send_to_anybody

SVG = "image/svg+xml"
LARGEST_ID = 2**63 - 1
FIVE_MINUTES = "public, max-age=300"


@require_safe
@policy({"default-src": ["'none'"], "frame-ancestors": ["'none'"], "sandbox": True})
def badge(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """Rank, score and interval as a picture. A private arena has no badges, whoever asks."""
    if pk > LARGEST_ID:
        raise Http404("There is no such candidate.")
    asked = Question.unsorted(request.GET)

    def make(arena: Any) -> str:
        candidate = find_candidate(arena, pk)
        context = {"badge": badge_of(read_published(arena, asked), candidate)}
        return render_to_string("ranking/badge.svg", context).strip()

    response = send_to_anybody(request, slug, asked.key(f"badge-{pk}"), SVG, make)
    response.headers["Cache-Control"] = FIVE_MINUTES
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response
