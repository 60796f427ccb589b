"""A leaderboard as a page, as CSV and as JSON."""

from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from ranking import http_cache, results, wording
from ranking.board_data import BoardQuery, BoardView, Findings, find_arena, read_board, sort_rows
from ranking.http_cache import CSV, HTML, JSON, allow_plotly, send, send_stored
from ranking.models import Counted, Raters
from ranking.scripted_raters import demo_notice
from ranking.views.standings import TableQuery, table_context


def board_context(
    view: BoardView, table: TableQuery, own_teams: Set[int] = frozenset()
) -> dict[str, Any]:
    """The context of `ranking/board.html`."""
    query, snapshot = view.query, view.snapshot
    settings = snapshot.settings if snapshot else {}
    findings = Findings.of(snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    collecting = wording.collecting(snapshot)
    is_unvoted = snapshot is not None and not snapshot.n_votes + snapshot.n_both_bad
    unvoted = view.rows if is_unvoted and len(view.rows) > 1 else []
    rankings = [] if unvoted else wording.rankings(findings, view.unranked)
    lead = wording.lead(view.ranked, findings, view.query.raters, settings.get("these_raters", 0))
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": snapshot,
        "all_people_url": view.address(raters=Counted.PEOPLE.value),
        "raters_links": view.raters_links(**table.parameters(q="", rows="")),
        "category_links": view.category_links(**table.parameters(q="", rows="")),
        "page_links": view.page_links("board"),
        "csv_url": view.address("board_csv", control=""),
        "json_url": view.address("board_json", control=""),
        "compare_url": view.address("compare", control=""),
        "methodology_url": view.address("methodology", sort="rank"),
        "cluster_sentence": wording.cluster_sentence(settings, query.raters),
        "both_bad_sentence": wording.BOTH_BAD_SENTENCES.get(settings.get("both_bad", ""), ""),
        "left_out": wording.uncounted_votes(settings),
        "named": wording.self_identified(settings, names),
        "these_raters": settings.get("these_raters"),
        "capped": wording.capped(settings),
        "software": ", ".join(f"{name} {of}" for name, of in settings.get("versions", {}).items()),
        "demo": demo_notice(view.arena, snapshot),
        "freshness": wording.freshness(snapshot),
        "groups": [] if unvoted else wording.groups(view.unranked),
        "rankings": rankings,
        "no_ranking": ""
        if collecting and len(view.rows) > 1
        else wording.no_ranking(view, rankings),
        "can_vote": view.arena.has_texts and query.raters not in (Raters.JUDGES, Raters.JURIES),
        "lead": lead,
        "collecting": collecting,
        "description": wording.description(view.arena.question, snapshot, collecting or lead),
        "waiting": sort_rows(unvoted or view.ranked, "name") if collecting else [],
        **table_context(view, table, lead.clear_candidate if lead else None, own_teams),
        **_findings_context(view, findings, names),
    }


def _findings_context(view: BoardView, findings: Findings, names: dict[int, str]) -> dict[str, Any]:
    return {
        "elo_note": wording.elo_note(view.elo_votes),
        "interval_notes": wording.interval_notes(view),
        "has_open": any(row.standing.score is None for row in view.ranked),
        "has_elo": view.has_elo,
        "has_neighbours": bool(findings.neighbours),
        "robustness": wording.robustness(findings, names),
        "combined": wording.combined(findings),
        "combined_changed": wording.rank_changes(findings, names),
        "combined_counted": wording.trusted_raters(findings),
        "agreement": wording.agreement(findings, view.query.raters),
        "transitivity": wording.transitivity(findings),
        "traits": wording.traits(findings),
        "style_votes": findings.style.get("n_votes"),
    }


@require_safe
@allow_plotly
def board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The leaderboard; with a search, filters or chosen columns it is rendered each time."""
    query, table = BoardQuery.of(request.GET), TableQuery.of(request.GET)
    own_teams: Set[int] = frozenset()

    def make(arena: Any) -> str:
        context = board_context(read_board(arena, query), table, own_teams)
        return render_to_string("ranking/board.html", context)

    if table.is_stored:
        return send_stored(request, slug, query.key(table.form), HTML, make)
    actor = actor_of(request)
    arena = find_arena(slug, actor)
    if table.own:
        own_teams = frozenset(actor.teams_seen().values_list("pk", flat=True))
    private = arena.is_private or table.own
    return send(request, http_cache.pack(make(arena)), HTML, private=private)


@require_safe
def board_json(request: HttpRequest, slug: str) -> HttpResponseBase:
    return _send_board(request, slug, "json", JSON, results.as_json)


@require_safe
def board_csv(request: HttpRequest, slug: str) -> HttpResponseBase:
    response = _send_board(request, slug, "csv", CSV, results.as_csv)
    response.headers["Content-Disposition"] = f'attachment; filename="{slug}-results.csv"'
    return response


def _send_board(
    request: HttpRequest,
    slug: str,
    form: str,
    content_type: str,
    make: Callable[[BoardView], str],
) -> HttpResponseBase:
    """Send the requested board as a file."""
    query = replace(BoardQuery.of(request.GET), style=False)
    return send_stored(
        request, slug, query.key(form), content_type, lambda arena: make(read_board(arena, query))
    )
