"""A candidate: where it stands, what it is, and every vote beneath its score."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.access import actor_of, may_read_texts
from arena.models import Arena, Candidate
from arena.services.disclosure import votes_so_far
from ranking.models import Raters, Standing
from ranking.pages import record
from ranking.pages.board import Link
from ranking.pages.history import chart_of
from ranking.pages.record import Filters
from ranking.pages.tried import disclosure_rule
from ranking.views.serving import send_template

LARGEST_ID = 2**63 - 1


@require_safe
def candidate(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """The candidate's standings, prompts, record against each opponent, and comparisons."""
    if pk > LARGEST_ID:
        raise Http404("There is no such candidate.")
    actor = actor_of(request)
    arenas = Arena.objects.visible_to(actor).filter(slug=slug)
    revealed = Candidate.objects.revealed().select_related("arena", "team")
    revealed = revealed.annotate(so_far=votes_so_far())
    shown = get_object_or_404(revealed, arena__in=arenas, pk=pk)
    arena = shown.arena
    kinds = record.kinds_that_voted(shown)
    filters = Filters.of(request.GET, kinds)
    page = record.listed(shown, filters, request.GET.get("page", "1"))
    standings = _standings(shown)
    for_its_team = shown.disclosed_at is None and may_read_texts(actor, shown)
    context = {
        "arena": arena,
        "candidate": shown,
        # In pairs: a template would take a parameter named "items" for the method.
        "parameters": list(shown.parameters.items()),
        "for_its_team": for_its_team,
        "disclosure": disclosure_rule(shown),
        "standings": standings,
        **_history(standings),
        "record": _with_links(shown, record.record(shown, filters.raters), filters),
        "filters": filters,
        "raters_links": _raters_links(shown, kinds, filters),
        "results": record.RESULTS.items(),
        "page": page,
        "any_category_url": _page_url(shown, replace(filters, category=""), 1),
        "newer_url": _page_url(shown, filters, page.number - 1) if page.has_previous() else "",
        "older_url": _page_url(shown, filters, page.number + 1) if page.has_next() else "",
    }
    private = arena.is_private or for_its_team
    return send_template(request, "ranking/candidate.html", context, private=private)


def _standings(candidate: Candidate) -> list[Standing]:
    current = Standing.objects.filter(candidate=candidate, snapshot__is_current=True)
    found = current.select_related("candidate", "snapshot__board", "elo_interval")
    return list(found.order_by("-snapshot__board__raters", "snapshot__board__category"))


def _history(standings: list[Standing]) -> dict[str, Any]:
    """How the score moved on the first board that has one, people's before others."""
    charted = next((standing for standing in standings if standing.score is not None), None)
    return {"charted": charted, "chart": chart_of(charted) if charted else None}


def _raters_links(candidate: Candidate, kinds: list[str], filters: Filters) -> list[Link]:
    if len(kinds) < 2:
        return []
    return [
        Link(Raters(kind).label, _url(candidate, raters=kind), kind == filters.raters)
        for kind in kinds
    ]


def _with_links(
    candidate: Candidate, against: list[record.Against], filters: Filters
) -> list[tuple[record.Against, str]]:
    """Each line of the record, and where its comparisons are listed."""
    return [
        (row, _url(candidate, raters=filters.raters, opponent=row.opponent.pk) + "#comparisons")
        for row in against
    ]


def _page_url(candidate: Candidate, filters: Filters, number: int) -> str:
    names = ("raters", "result", "opponent", "category")
    asked = {name: getattr(filters, name) for name in names}
    return _url(candidate, **asked, page=number) + "#comparisons"


def _url(candidate: Candidate, **asked: Any) -> str:
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{reverse('candidate', args=[candidate.arena.slug, candidate.pk])}?{query}"
