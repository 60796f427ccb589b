"""A comparison: the prompt, both answers, and what was voted."""

from uuid import UUID

from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from arena.access import actor_of
from arena.models import Arena, Comparison, Vote
from arena.services.rendering import prompt_html, response_html
from ranking.views.serving import send_template


@require_safe
def comparison(request: HttpRequest, slug: str, key: UUID) -> HttpResponseBase:
    """Show a comparison with its names; until it has a vote that counts, it is not there."""
    arena = get_object_or_404(Arena.objects.visible_to(actor_of(request)), slug=slug)
    voted = Exists(Vote.objects.live().filter(comparison=OuterRef("pk")))
    shown = get_object_or_404(Comparison.objects.with_texts().filter(voted, arena=arena), key=key)
    context = {
        "arena": arena,
        "comparison": shown,
        "prompt": prompt_html(shown.prompt) if shown.prompt and shown.prompt.text else "",
        "sides": _sides(shown),
        "votes": shown.votes.live().select_related("rater").order_by("pk"),
    }
    return send_template(request, "ranking/comparison.html", context, private=arena.is_private)


def _sides(shown: Comparison) -> list[dict[str, object]]:
    """Left and right: the candidate, and its answer where there is a text."""
    return [
        {
            "side": side,
            "candidate": candidate,
            "html": response_html(response) if response else None,
        }
        for side, candidate, response in (
            ("Left", shown.left, shown.left_response),
            ("Right", shown.right, shown.right_response),
        )
    ]
