"""A rater's round of ten votes: what it moved, and where to go on."""

from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from arena.language import translated
from arena.models import Arena, Rater
from arena.permissions import listed_arenas, visible_arenas
from arena.services.candidates import with_ballots
from arena.views.raters import can_go_on, find_rater
from arena.views.voting import HtmxRequest
from ranking.board_data import parse_id
from ranking.rounds import find_round, read_choices, read_marks, read_moves

MOST_TRIES = 10  # two seconds apart, for a leaderboard that counts the round
MOST_ARENAS = 5  # that are tried for a pair


@translated
@never_cache
@require_safe
def round_card(request: HtmxRequest, slug: str, number: int) -> HttpResponse:
    """A round of the reader's votes; htmx gets only what the round moved.

    A round that is not complete has a page only once no pair is left: it ends the arena.
    """
    arena = get_object_or_404(visible_arenas(actor_of(request)), slug=slug)
    rater = find_rater(request)
    played = find_round(arena, rater, number) if rater else None
    if rater is None or played is None:
        raise Http404("You have not voted in this round.")
    is_over = played.is_last and not can_go_on(request, arena, rater)
    if not played.is_complete and not is_over:
        raise Http404("This round is not complete.")
    tries = parse_id(request.GET.get("tries", "")) or 0
    context: dict[str, Any] = {
        "arena": arena,
        "round": played,
        "moves": read_moves(played),
        "is_over": is_over,
        "next_try": tries + 1 if tries < MOST_TRIES else None,
    }
    if request.htmx:
        return render(request, "ranking/_round_moves.html", context)
    marks = read_marks(played)
    context |= {
        "marks": marks,
        "agreed": sum(mark.state == "agree" for mark in marks),
        "compared": sum(mark.state in ("agree", "differ") for mark in marks),
        "few": sum(mark.state == "few" for mark in marks),
        "choices": read_choices(arena, rater),
        "next_arena": _find_next_arena(request, arena, rater) if is_over else None,
    }
    return render(request, "ranking/round.html", context)


def _find_next_arena(request: HtmxRequest, arena: Arena, rater: Rater) -> Arena | None:
    """A listed arena with a pair for this rater; real ones and new ones first."""
    others = with_ballots(listed_arenas(actor_of(request)).exclude(pk=arena.pk))
    others = others.filter(has_texts=True).order_by("is_sample", "-pk")[:MOST_ARENAS]
    return next((other for other in others if can_go_on(request, other, rater)), None)
