"""A candidate's page: its standings, its configuration, and the votes behind its score."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.actors import ANONYMOUS, actor_of, can_read_authors, can_read_texts
from arena.models import Arena, Candidate, Comparison, Reason, Vote
from arena.services.candidates import votes_so_far
from arena.services.comparisons import prompt_html, response_html
from arena.views import raters
from ranking import record
from ranking.board_data import LARGEST_ID, BoardQuery, choice_links
from ranking.costs import read_costs
from ranking.entries import disclosure_rule
from ranking.http_cache import send_template
from ranking.models import Raters, Standing
from ranking.reasons import count_reasons
from ranking.record import VoteFilters
from ranking.views.embeds import describe_standing
from ranking.views.history import candidate_chart


@require_safe
def candidate(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    if pk > LARGEST_ID:
        raise Http404("There is no such candidate.")
    actor = actor_of(request)
    arenas = Arena.objects.visible_to(actor).filter(slug=slug)
    revealed = Candidate.objects.revealed().select_related("arena", "team")
    revealed = revealed.annotate(so_far=votes_so_far())
    shown = get_object_or_404(revealed, arena__in=arenas, pk=pk)
    arena = shown.arena
    voters = record.list_voters(shown)
    filters = VoteFilters.of(request.GET, voters)
    page = record.list_votes(shown, filters, request.GET.get("page", "1"))
    standings = _standings(shown)
    # The chart shows the first board with a score, human votes before others.
    charted = next((standing for standing in standings if standing.score is not None), None)
    for_its_team = shown.disclosed_at is None and can_read_texts(actor, shown)
    context = {
        "arena": arena,
        "candidate": shown,
        "description": f"{shown} in {arena.name}: {describe_standing(charted)}.",
        # In pairs: a template would take a parameter named "items" for the method.
        "parameters": list(shown.parameters.items()),
        "for_its_team": for_its_team,
        "disclosure": disclosure_rule(shown),
        "standings": standings,
        "charted": charted,
        "chart": candidate_chart(charted) if charted else None,
        "history_url": _history_url(shown, charted) if charted else "",
        "record": [
            (row, _votes_url(shown, raters=filters.raters, opponent=row.opponent.pk))
            for row in record.count_record(shown, filters.raters)
        ],
        "categories": [
            (
                row,
                _votes_url(shown, raters=filters.raters, category=row.category, result="won"),
                _votes_url(shown, raters=filters.raters, category=row.category, result="lost"),
            )
            for row in record.count_categories(shown, filters.raters)
            if row.category
        ],
        "costs": read_costs(arena, "").get(shown.pk),
        "filters": filters,
        "raters_links": choice_links(
            [(raters, str(Raters(raters).label)) for raters in voters],
            filters.raters,
            lambda raters: _url(shown, raters=raters),
        ),
        "results": record.RESULTS.items(),
        "reasons": [
            reason
            for reason in count_reasons(arena)
            if reason.candidate == shown.pk and (reason.stands_out or not reason.category)
        ],
        "page": page,
        "any_category_url": _page_url(shown, replace(filters, category=""), 1),
        "newer_url": _page_url(shown, filters, page.number - 1) if page.has_previous() else "",
        "older_url": _page_url(shown, filters, page.number + 1) if page.has_next() else "",
    }
    private = arena.is_private or for_its_team
    return send_template(request, "ranking/candidate.html", context, private=private)


def _standings(candidate: Candidate) -> list[Standing]:
    current = Standing.objects.filter(candidate=candidate, snapshot__is_current=True)
    standings = current.select_related("candidate", "snapshot__board", "elo_interval")
    return list(standings.order_by("-snapshot__board__raters", "snapshot__board__category"))


def _history_url(candidate: Candidate, standing: Standing) -> str:
    board = standing.snapshot.board
    query = BoardQuery(board.raters, board.category)
    return query.address(candidate.arena.slug, "history", candidate=str(candidate.pk))


def _page_url(candidate: Candidate, filters: VoteFilters, number: int) -> str:
    names = ("raters", "result", "opponent", "category")
    parameters = {name: getattr(filters, name) for name in names}
    return _votes_url(candidate, **parameters, page=number)


def _votes_url(candidate: Candidate, **parameters: Any) -> str:
    return f"{_url(candidate, **parameters)}#comparisons"


def _url(candidate: Candidate, **parameters: Any) -> str:
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{reverse('candidate', args=[candidate.arena.slug, candidate.pk])}?{query}"


@require_safe
def comparison(request: HttpRequest, slug: str, key: UUID) -> HttpResponseBase:
    """The prompt, both answers and the votes; 404 until there is a vote that is not voided."""
    actor = actor_of(request)
    arena = get_object_or_404(Arena.objects.visible_to(actor), slug=slug)
    voted = Exists(Vote.objects.revealed().filter(comparison=OuterRef("pk")))
    shown = get_object_or_404(Comparison.objects.with_texts().filter(voted, arena=arena), key=key)
    sides = (
        ("Left", shown.left, shown.left_response),
        ("Right", shown.right, shown.right_response),
    )
    to_all = can_read_authors(ANONYMOUS, arena, shown.prompt)
    voted_here = shown.rater_id is not None and shown.rater_id == _reader_id(request)
    if voted_here and shown.hides_names:
        raise Http404("The names are hidden until everyone has voted.")
    named = to_all or can_read_authors(actor, arena, shown.prompt, voted=voted_here)
    context = {
        "arena": arena,
        "comparison": shown,
        "title": f"{shown.left} vs. {shown.right}",
        "prompt": prompt_html(shown.prompt) if shown.prompt and shown.prompt.text else "",
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
        "comments": Reason.objects.filter(vote__in=shown.votes.revealed(), side=Reason.BOTH)
        if named
        else [],
        "votes": shown.votes.revealed().select_related("rater").order_by("pk"),
    }
    private = arena.is_private or not to_all
    return send_template(request, "ranking/comparison.html", context, private=private)


def _reader_id(request: HttpRequest) -> int | None:
    """The rater that the reader votes as, if they have voted before."""
    rater = raters.find_rater(request)
    return rater.pk if rater else None
