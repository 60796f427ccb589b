"""One comparison with its votes."""

from uuid import UUID

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from arena.actors import ANONYMOUS, actor_of
from arena.models import Comparison, Reason, Vote
from arena.permissions import can_read_authors, can_read_texts, visible_arenas
from arena.services.ballots import prompt_html, response_html
from arena.views import voting
from ranking.http_cache import send_template


@require_safe
def comparison(request: HttpRequest, slug: str, key: UUID) -> HttpResponseBase:
    """The prompt, both answers and the votes; 404 until there is a vote that may be listed."""
    actor = actor_of(request)
    arena = get_object_or_404(visible_arenas(actor), slug=slug)
    voted = Exists(Vote.objects.revealed().listed().filter(comparison=OuterRef("pk")))
    comparison = get_object_or_404(
        Comparison.objects.with_texts().filter(voted, arena=arena), key=key
    )
    sides = (
        ("Left", comparison.left, comparison.left_response),
        ("Right", comparison.right, comparison.right_response),
    )
    to_all = can_read_authors(ANONYMOUS, arena, comparison.prompt)
    is_own = comparison.rater_id is not None and comparison.rater_id == _reader_id(request)
    withheld = comparison.votes.revealed().filter(names_withheld=True).exists()
    voted_here = is_own and not withheld
    named = to_all or can_read_authors(actor, arena, comparison.prompt, voted=voted_here)
    if withheld and not named:  # its rater knows the address, and could come without the cookie
        raise Http404("The names of this comparison are withheld from its rater.")
    context = {
        "arena": arena,
        "comparison": comparison,
        "title": f"{comparison.left} vs. {comparison.right}",
        "prompt": prompt_html(comparison.prompt)
        if comparison.prompt and comparison.prompt.text
        else "",
        "sides": [
            {
                "side": side,
                "candidate": candidate,
                "html": response_html(response)
                if response and (named or can_read_texts(actor, candidate))
                else None,
                "withheld": response is not None,
            }
            for side, candidate, response in sides
        ],
        # A comment may quote an answer, so it is shown to those who may read the answers.
        "comments": Reason.objects.filter(vote__in=comparison.votes.revealed(), side=Reason.BOTH)
        if named and arena.live_of_id is None  # a live question is its rater's
        else [],
        "votes": comparison.votes.revealed().select_related("rater").order_by("pk"),
    }
    private = arena.is_private or not to_all
    return send_template(request, "ranking/comparison.html", context, private=private)


def _reader_id(request: HttpRequest) -> int | None:
    """The rater that the reader votes as, if they have voted before."""
    rater = voting.find_rater(request)
    return rater.pk if rater else None
