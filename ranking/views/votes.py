"""What raters see after their votes: the facts of one, and the list of all."""

from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from arena.language import translated
from arena.models import Vote
from arena.outcomes import LEFT, RIGHT
from arena.permissions import visible_arenas
from arena.views.raters import can_go_on, find_anonymous, find_rater
from arena.views.voting import HtmxRequest
from ranking.candidate_votes import PER_PAGE
from ranking.costs import read_costs
from ranking.models import Raters, Snapshot, Standing
from ranking.raters import summarise

LAST = 10


@translated
@never_cache
@require_safe
def vote_facts(request: HttpRequest, slug: str, key: UUID) -> HttpResponse:
    """Show a rater what is known of the two candidates that they voted on.

    It is a separate request, so that the vote itself is fast. Nothing here says how others voted,
    which would steer the next vote.
    """
    arena = get_object_or_404(visible_arenas(actor_of(request)), slug=slug)
    rater = find_rater(request)
    sides_and_run = (f"comparison__{name}" for name in ("left", "right", "run"))
    votes = Vote.objects.filter(arena=arena, comparison__key=key, rater=rater, voided_at=None)
    vote = votes.select_related(*sides_and_run).first() if rater else None
    if vote is None:
        raise Http404("You have not voted on this pair.")
    facts, comparison = [], vote.comparison
    if not vote.hides_names:
        sides = {LEFT: comparison.left, RIGHT: comparison.right}
        costs = read_costs(arena, "", sides.values())
        ranked = Standing.objects.filter(
            snapshot__in=Snapshot.objects.current().of_arena(arena),
            snapshot__board__raters=Raters.PEOPLE,
            snapshot__board__category="",
            candidate__in=sides.values(),
        ).exclude(sure_rank_low=None)
        standings = {row.candidate_id: row for row in ranked}
        facts = [
            (side, candidate, costs.get(candidate.pk), standings.get(candidate.pk))
            for side, candidate in sides.items()
        ]
    return render(request, "ranking/_vote_facts.html", {"comparison": comparison, "facts": facts})


@translated
@never_cache
@require_safe
def my_votes(request: HtmxRequest, slug: str) -> HttpResponse:
    """The reader's own votes in an arena, newest first; htmx gets only the last ten."""
    arena = get_object_or_404(visible_arenas(actor_of(request)), slug=slug)
    rater = find_rater(request)
    votes = (
        Vote.objects.revealed().filter(arena=arena, rater=rater) if rater else Vote.objects.none()
    )
    votes = votes.order_by("-pk").select_related(
        "comparison__prompt", "comparison__left", "comparison__right", "comparison__run"
    )
    if request.htmx:
        part = {"arena": arena, "votes": votes[:LAST]}
        return render(request, "ranking/_my_votes.html", part)
    page = Paginator(votes, PER_PAGE).get_page(request.GET.get("page", "1"))
    context: dict[str, Any] = {"arena": arena, "page": page, "votes": page.object_list}
    if rater is not None and page.paginator.count:
        context["summary"] = summarise(arena, rater)
    unsigned = Vote.objects.revealed().filter(rater__in=find_anonymous(request, rater))
    context["unsigned"] = unsigned.filter(arena=arena).count()
    context["can_vote"] = can_go_on(request, arena, rater)
    return render(request, "ranking/my_votes.html", context)
