"""A candidate's page: what is found about it, its results, its configuration, its votes."""

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from arena.actors import ANONYMOUS, Actor, actor_of
from arena.language import translated
from arena.models import Candidate
from arena.permissions import can_read_texts
from arena.services.candidates import votes_so_far
from ranking import candidate_votes, candidate_words, http_cache, wording
from ranking.anchor import move
from ranking.board_data import (
    LARGEST_ID,
    BoardQuery,
    Findings,
    choice_links,
    find_arena,
    is_own,
)
from ranking.candidate_votes import Against, VoteFilters
from ranking.comparison import PublishedBoard, read_published
from ranking.costs import CostAndSpeed, PricedScore, read_costs
from ranking.entries import disclosure_rule
from ranking.http_cache import HTML, allow_plotly, send
from ranking.models import Raters, Snapshot, Standing
from ranking.reasons import NamedReason, count_reasons
from ranking.scripted_raters import demo_notice
from ranking.specimens import SpecimenQuery, specimens_context
from ranking.views.charts import ScoreScale
from ranking.views.history import score_history
from ranking.views.share import share_candidate

MOST_REASONS = 4  # of each kind
MOST_CATEGORIES = 12
FILTERS = {"result", "opponent", "category", "page"}


@dataclass(frozen=True)
class CategoryInterval:
    """A category's score and its interval on the scale of the card, in percent from the left."""

    name: str
    standing: Standing
    ranks: str
    tier: int | None
    x: str
    low: str
    high: str


@dataclass(frozen=True)
class ReasonBar:
    """How often a reason was named, and about the others; widths on one scale."""

    reason: NamedReason
    width: str
    others: str


@require_safe
@translated
@allow_plotly
def candidate(request: HttpRequest, slug: str, pk: int) -> HttpResponseBase:
    """The page without parameters is stored, unless some readers see more than others."""
    if pk > LARGEST_ID:
        raise Http404("There is no such candidate.")
    key = http_cache.in_language(f"candidate|{pk}", HTML)
    page = None if request.GET else http_cache.find(slug=slug, key=key)
    if page is not None:
        return send(request, page, HTML)
    actor = actor_of(request)
    arena = find_arena(slug, actor)
    revealed = Candidate.objects.revealed().select_related("team", "merged_into")
    revealed = revealed.annotate(so_far=votes_so_far())
    candidate = get_object_or_404(revealed, arena=arena, pk=pk)
    candidate.arena = arena
    for_its_team = candidate.disclosed_at is None and can_read_texts(actor, candidate)
    private = arena.is_private or for_its_team
    context = candidate_context(candidate, request.GET, actor if private else ANONYMOUS)
    context["for_its_team"] = for_its_team
    page = http_cache.pack(render_to_string("ranking/candidate.html", context))
    if not request.GET and candidate.disclosed_at and not arena.is_private:
        http_cache.store(arena=arena, epoch=arena.page_epoch, key=key, page=page)
    return send(request, page, HTML, private=private)


def candidate_context(candidate: Candidate, parameters: QueryDict, reader: Actor) -> dict[str, Any]:
    """The context of `ranking/candidate.html`, with the votes that `reader` can open."""
    arena = candidate.arena
    address = reverse("candidate", args=[arena.slug, candidate.pk])
    board, pair = read_published(arena, BoardQuery()), SpecimenQuery.of(parameters)
    current = Standing.objects.filter(candidate=candidate, snapshot__is_current=True)
    standings = list(
        current.select_related("candidate", "snapshot__board", "elo_interval").order_by(
            "-snapshot__board__raters", "snapshot__board__category"
        )
    )
    standings = [row for row in standings if is_own(row.snapshot)]
    described = next((row for row in board.standings if row.candidate_id == candidate.pk), None)
    if described and board.snapshot:
        described.snapshot = board.snapshot
    says = wording.describe_standing(described)
    kinds = (
        (gettext("All prompts"), [s for s in standings if not s.snapshot.board.category]),
        (gettext("By category"), [s for s in standings if s.snapshot.board.category]),
    )
    charted = _charted(standings, BoardQuery.unsorted(parameters))
    return {
        "arena": arena,
        "candidate": candidate,
        # In pairs: a template would take a parameter named "items" for the method.
        "parameters": list(candidate.parameters.items()),
        "disclosure": disclosure_rule(candidate),
        "aliases": list(candidate.aliases.order_by("pk")),
        "share": share_candidate(candidate),
        "demo": demo_notice(arena, board.snapshot),
        "description": f"{candidate} in {arena.name}: {says}.",
        "standings": [(title, rows) for title, rows in kinds if rows],
        "kinds": sorted({s.snapshot.board.get_raters_display() for s in standings}, reverse=True),
        "n_categories": len({s.snapshot.board.category for s in standings} - {""}),
        "described": described,
        "charted": charted,
        "history": score_history(charted) if charted else None,
        **specimens_context(
            arena,
            [row for row in board.standings if row.rank is not None],
            candidate.pk,
            pair.b,
            pair.number,
            lambda a, b, specimen: f"{address}?b={b}&specimen={specimen}",
            tiers=Findings.of(board.snapshot).tiers,
            chosen="b",
        ),
        **_findings_context(candidate, board, described, standings),
        **_votes_context(candidate, parameters, reader),
    }


def _charted(standings: Sequence[Standing], query: BoardQuery) -> Standing | None:
    """Its standing on the leaderboard that the address names, or else the first with a score;
    human votes come before others."""
    scored = [row for row in standings if row.score is not None]
    named = (query.raters, query.category)
    boards = [(row.snapshot.board.raters, row.snapshot.board.category) for row in scored]
    return scored[boards.index(named)] if named in boards else next(iter(scored), None)


def _findings_context(
    candidate: Candidate,
    board: PublishedBoard,
    described: Standing | None,
    standings: Sequence[Standing],
) -> dict[str, Any]:
    """The paragraph, the facts and the two cards, as of the leaderboard that opens first."""
    costs, found = read_costs(candidate.arena, ""), Findings.of(board.snapshot)
    collecting = wording.collecting(board.snapshot)
    ranked = [row for row in board.standings if row.rank is not None]
    is_ranked = described is not None and described.rank is not None and not collecting
    reasons = [row for row in count_reasons(candidate.arena) if row.candidate == candidate.pk]
    by_category = {
        row.snapshot.board.category: _on_scale_of(board.snapshot, row)
        for row in standings
        if row.snapshot.board.category and row.snapshot.board.raters == board.query.raters
    }
    lead, sentences = "", []
    if described and is_ranked:
        lead = candidate_words.place(described, ranked, found)
        sentences = [
            candidate_words.votes_won(described),
            *candidate_words.named_for(reasons),
            candidate_words.price(candidate.pk, _priced(ranked, costs)),
            candidate_words.categories(described, by_category),
        ]
    return {
        "is_ranked": is_ranked,
        "collecting": collecting,
        "ranks": wording.possible_ranks(described, "–") if described and is_ranked else "",
        "tier": _tier(found, candidate.pk) if is_ranked else None,
        "lead": lead,
        "sentences": [sentence for sentence in sentences if sentence],
        "costs": costs.get(candidate.pk),
        "dearest": _place_of(candidate.pk, {pk: of.dollars for pk, of in costs.items()}),
        "slowest": _place_of(candidate.pk, {pk: of.seconds for pk, of in costs.items()}),
        "n_priced": sum(of.price is not None for of in costs.values()),
        "n_timed": sum(of.seconds is not None for of in costs.values()),
        **_category_card(described if is_ranked else None, by_category),
        **_reasons_card(reasons),
    }


def _on_scale_of(snapshot: Snapshot | None, row: Standing) -> Standing:
    """The row as if its scores had the mean of `snapshot`'s: an anchor stands elsewhere in each
    category, and would make all others look better or worse there."""
    moved = copy(row)
    if snapshot is not None:
        move(moved, snapshot.center - row.snapshot.center)
    return moved


def _tier(found: Findings, pk: int) -> int | None:
    """The number of its tier, for its colour; None if there is only one."""
    if len(found.tiers) < 2:
        return None
    number = next((i for i, tier in enumerate(found.tiers, 1) if pk in tier), None)
    return number and min(number, 4)


def _priced(ranked: Sequence[Standing], costs: dict[int, CostAndSpeed]) -> list[PricedScore]:
    return [
        PricedScore(row.candidate_id, str(row.candidate), dollars, row.score, row.low, row.high)
        for row in ranked
        if row.score is not None
        and row.candidate_id in costs
        and (dollars := costs[row.candidate_id].dollars) is not None
    ]


def _place_of(pk: int, values: dict[int, float | None]) -> str:
    """Whether its value is the highest or the lowest of several: "most", "least" or ""."""
    known = [value for value in values.values() if value is not None]
    own = values.get(pk)
    if own is None or len(known) < 2 or min(known) == max(known):
        return ""
    return "most" if own == max(known) else "least" if own == min(known) else ""


def _category_card(described: Standing | None, by_category: dict[str, Standing]) -> dict[str, Any]:
    rows = {
        name: row
        for name, row in by_category.items()
        if row.score is not None and not row.snapshot.lacks_votes
    }
    if described is None or described.score is None or not rows:
        return {"categories": []}
    best = sorted(rows.items(), key=lambda item: (-(item[1].score or 0.0), item[0]))
    shown = best[:MOST_CATEGORIES]
    ends = [end for _, row in shown for end in (row.score, row.low, row.high)]
    scale = ScoreScale.covering([described.score, *ends])
    return {
        "categories": [
            CategoryInterval(
                name,
                row,
                wording.possible_ranks(row, "–"),
                _tier(Findings.of(row.snapshot), row.candidate_id),
                *("" if x is None else scale.percent(x) for x in (row.score, row.low, row.high)),
            )
            for name, row in shown
        ],
        "all_prompts": scale.percent(described.score),
        "more_categories": len(best) - len(shown),
    }


def _reasons_card(reasons: Sequence[NamedReason]) -> dict[str, Any]:
    """The reasons named most often for and against it, as bars on one scale."""
    on_all = sorted(
        (reason for reason in reasons if not reason.category),
        key=lambda reason: (-reason.percent, reason.tag),
    )
    praise = [reason for reason in on_all if reason.is_strength][:MOST_REASONS]
    faults = [reason for reason in on_all if not reason.is_strength][:MOST_REASONS]
    most = max((max(r.percent, r.percent_elsewhere or 0) for r in praise + faults), default=0) or 1

    def bar(reason: NamedReason) -> ReasonBar:
        others = reason.percent_elsewhere
        mark = "" if others is None else f"{98 * others / most:.1f}%"
        return ReasonBar(reason, f"{98 * reason.percent / most:.1f}%", mark)

    bars = ((gettext("Praise"), "good", praise), (gettext("Faults"), "bad", faults))
    return {
        "reasons": [
            (title, kind, [bar(reason) for reason in those]) for title, kind, those in bars if those
        ]
    }


def _votes_context(candidate: Candidate, parameters: QueryDict, reader: Actor) -> dict[str, Any]:
    voters = candidate_votes.list_voters(candidate)
    filters = VoteFilters.of(parameters, voters)
    arena, raters = candidate.arena, filters.raters
    page = candidate_votes.list_votes(candidate, filters, parameters.get("page", "1"), reader)

    def address(**parameters: Any) -> str:
        query = urlencode({name: value for name, value in parameters.items() if value})
        return f"{reverse('candidate', args=[arena.slug, candidate.pk])}?{query}"

    def page_url(number: int, **changes: str) -> str:
        return f"{address(**asdict(filters) | changes, page=number)}#comparisons"

    record = candidate_votes.count_record(candidate, raters)
    met = [row for row in record if row.win_rate is not None]
    best = max(met, key=lambda row: row.win_rate or 0.0, default=None)
    closest = min(met, key=_distance, default=None)
    return {
        "record": record,
        "best": best,
        "closest": closest if best and closest and _distance(closest) < _distance(best) else None,
        "filters": filters,
        "is_filtered": any(
            name in parameters for name in ("result", "opponent", "page", "category")
        ),
        "raters_links": choice_links(
            [(kind, str(Raters(kind).label)) for kind in voters],
            raters,
            lambda kind: f"{address(raters=kind)}#record",
        ),
        "results": candidate_votes.RESULTS.items(),
        "page": page,
        "any_category_url": page_url(1, category=""),
        "newer_url": page_url(page.number - 1) if page.has_previous() else "",
        "older_url": page_url(page.number + 1) if page.has_next() else "",
    }


def _distance(row: Against) -> float:
    return abs((row.win_rate or 0.0) - 0.5)
