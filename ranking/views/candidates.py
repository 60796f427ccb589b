"""A candidate's page: its standings, its configuration, and the votes behind its score."""

from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from arena.models import Candidate
from arena.permissions import can_read_texts, visible_arenas
from arena.services.candidates import votes_so_far
from ranking import candidate_votes, wording
from ranking.board_data import LARGEST_ID, BoardQuery, choice_links, choose_snapshot
from ranking.candidate_votes import VoteFilters
from ranking.costs import read_costs
from ranking.entries import disclosure_rule
from ranking.http_cache import send_template
from ranking.models import Raters, Standing
from ranking.reasons import count_reasons
from ranking.views.history import candidate_chart


@require_safe
def candidate(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    if pk > LARGEST_ID:
        raise Http404("There is no such candidate.")
    actor = actor_of(request)
    arenas = visible_arenas(actor).filter(slug=slug)
    revealed = Candidate.objects.revealed().select_related("arena", "team")
    revealed = revealed.annotate(so_far=votes_so_far())
    candidate = get_object_or_404(revealed, arena__in=arenas, pk=pk)
    arena = candidate.arena
    for_its_team = candidate.disclosed_at is None and can_read_texts(actor, candidate)
    context = {
        "arena": arena,
        "candidate": candidate,
        # In pairs: a template would take a parameter named "items" for the method.
        "parameters": list(candidate.parameters.items()),
        "for_its_team": for_its_team,
        "disclosure": disclosure_rule(candidate),
        "costs": read_costs(arena, "").get(candidate.pk),
        "reasons": [
            reason
            for reason in count_reasons(arena)
            if reason.candidate == candidate.pk and (reason.stands_out or not reason.category)
        ],
        **_standings_context(candidate),
        **_votes_context(candidate, request.GET),
    }
    private = arena.is_private or for_its_team
    return send_template(request, "ranking/candidate.html", context, private=private)


def _standings_context(candidate: Candidate) -> dict[str, Any]:
    current = Standing.objects.filter(candidate=candidate, snapshot__is_current=True)
    standings = list(
        current.select_related("candidate", "snapshot__board", "elo_interval").order_by(
            "-snapshot__board__raters", "snapshot__board__category"
        )
    )
    # The chart shows the first board with a score, human votes before others.
    charted = next((standing for standing in standings if standing.score is not None), None)
    history_url = ""
    if charted:
        board = charted.snapshot.board
        query = BoardQuery(board.raters, board.category)
        history_url = query.address(candidate.arena.slug, "history", candidate=str(candidate.pk))
    # The sentence is about the leaderboard that opens first, as the picture is.
    first = choose_snapshot([standing.snapshot for standing in standings], BoardQuery())
    described = next((standing for standing in standings if standing.snapshot == first), None)
    says = wording.describe_standing(described)
    kinds = (
        ("All prompts", [s for s in standings if not s.snapshot.board.category]),
        ("By category", [s for s in standings if s.snapshot.board.category]),
    )
    return {
        "description": f"{candidate} in {candidate.arena.name}: {says}.",
        "standings": [(title, rows) for title, rows in kinds if rows],
        "described": described,
        "charted": charted,
        "chart": candidate_chart(charted) if charted else None,
        "history_url": history_url,
    }


def _votes_context(candidate: Candidate, parameters: QueryDict) -> dict[str, Any]:
    voters = candidate_votes.list_voters(candidate)
    filters = VoteFilters.of(parameters, voters)
    page = candidate_votes.list_votes(candidate, filters, parameters.get("page", "1"))
    raters = filters.raters

    def address(**parameters: Any) -> str:
        query = urlencode({name: value for name, value in parameters.items() if value})
        return f"{reverse('candidate', args=[candidate.arena.slug, candidate.pk])}?{query}"

    def votes_url(**parameters: Any) -> str:
        return f"{address(**parameters)}#comparisons"

    def page_url(number: int, **changes: str) -> str:
        return votes_url(**asdict(filters) | changes, page=number)

    return {
        "record": [
            (row, votes_url(raters=raters, opponent=row.opponent.pk))
            for row in candidate_votes.count_record(candidate, raters)
        ],
        "categories": [
            (
                row,
                votes_url(raters=raters, category=row.category, result="won"),
                votes_url(raters=raters, category=row.category, result="lost"),
            )
            for row in candidate_votes.count_categories(candidate, raters)
            if row.category
        ],
        "filters": filters,
        "raters_links": choice_links(
            [(kind, str(Raters(kind).label)) for kind in voters],
            raters,
            lambda kind: address(raters=kind),
        ),
        "results": candidate_votes.RESULTS.items(),
        "page": page,
        "any_category_url": page_url(1, category=""),
        "newer_url": page_url(page.number - 1) if page.has_previous() else "",
        "older_url": page_url(page.number + 1) if page.has_next() else "",
    }
