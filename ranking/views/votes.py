"""What raters see after their votes: the facts of one, and the list of all."""

from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from arena.language import translated
from arena.models import Arena, Candidate, Reason, Vote
from arena.models.arenas import FAULTS, STRENGTHS
from arena.outcomes import LEFT, RIGHT
from arena.permissions import visible_arenas
from arena.views.raters import can_go_on, find_anonymous, find_rater
from arena.views.voting import HtmxRequest
from ranking.candidate_votes import PER_PAGE
from ranking.claim_words import MOST_WORTHWHILE, rounded_up
from ranking.comparison import load_difference_boards
from ranking.models import Raters, Snapshot
from ranking.raters import count_agreement, summarise
from ranking.stats.claim import Scope, Verdict

LAST = 10


@translated
@never_cache
@require_safe
def vote_facts(request: HttpRequest, slug: str, key: UUID) -> HttpResponse:
    """Show a rater who agreed with their vote, and its effect on these two candidates.

    It is a separate request, so that the vote itself is fast.
    """
    arena = get_object_or_404(visible_arenas(actor_of(request)), slug=slug)
    rater = find_rater(request)
    votes = Vote.objects.filter(arena=arena, rater=rater, voided_at=None, comparison__key=key)
    votes = votes.select_related("comparison__left", "comparison__right", "comparison__run")
    vote = votes.first() if rater else None
    if vote is None:
        raise Http404("You have not voted on this pair.")
    comparison = vote.comparison
    given = {(reason.side, reason.tag): reason.comment for reason in vote.reasons.all()}
    names: tuple[Any, Any] = (gettext("Answer A"), gettext("Answer B"))
    facts: dict[str, Any] = {}
    if not comparison.hides_names:
        names = (comparison.left, comparison.right)
        facts = _direct_result(arena, *names) | {"agreement": count_agreement(vote)}
    context = {
        "arena": arena,
        "comparison": comparison,
        "sides": [
            (side, candidate, [(tag, _translate_tag(tag), (side, tag) in given) for tag in tags])
            for side, candidate in zip((LEFT, RIGHT), names, strict=True)
            if (tags := arena.reasons_for(side, vote.outcome))
        ],
        "comment": given.get((Reason.BOTH, ""), ""),
        **facts,
    }
    return render(request, "ranking/_vote_facts.html", context)


def _translate_tag(tag: str) -> str:
    """A reason in the rater's language, if it is one of those that every new arena offers."""
    return gettext(tag) if tag in (*STRENGTHS, *FAULTS) else tag


def _direct_result(arena: Arena, left: Candidate, right: Candidate) -> dict[str, Any]:
    """The result of human votes on two candidates: the better one if that is settled, or how many
    more votes it takes."""
    snapshot = (
        Snapshot.objects.current()
        .of_arena(arena)
        .filter(board__raters=Raters.PEOPLE, board__category="")
    )
    for board in load_difference_boards(arena, snapshot, (left.pk, right.pk)).values():
        found = board.difference(left.pk, right.pk)
        if found.is_decided:
            better = left if found.claim.verdict is Verdict.BETTER else right
            return {"better": better, "for_all": found.claim.scope is Scope.RATERS}
        if found.votes_to_go and found.votes_to_go <= MOST_WORTHWHILE:
            return {"votes_to_go": rounded_up(found.votes_to_go)}
    return {}


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
