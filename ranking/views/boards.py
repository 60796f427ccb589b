"""Boards as pages and files, and the pages beside them."""

from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.actors import TeamPermission, actor_of
from ranking import http_cache, results, wording
from ranking.board_data import (
    SCRIPTED_NOTICE,
    BoardQuery,
    BoardView,
    Findings,
    counts_scripts,
    find_arena,
    read_board,
    sort_rows,
)
from ranking.comparison import ChosenPair, read_published
from ranking.entries import CANDIDATE_COLUMNS, SNAPSHOT_COLUMNS, list_entrants
from ranking.exports import DECIDED_BY
from ranking.http_cache import CSV, HTML, JSON, allow_plotly, send, send_stored, send_template
from ranking.models import Counted
from ranking.views.compare import (
    clean_order,
    clean_show,
    compare_context,
    matrix_context,
    side_by_side_context,
)
from ranking.views.history import history_context, parse_candidates
from ranking.views.price import clean_by, price_context
from ranking.views.standings import TableQuery, table_context


def board_context(
    view: BoardView, table: TableQuery, own_teams: Set[int] = frozenset()
) -> dict[str, Any]:
    """The context of `ranking/board.html`."""
    query, snapshot = view.query, view.snapshot
    settings = snapshot.settings if snapshot else {}
    findings = Findings.of(snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    collecting = wording.collecting(snapshot, names)
    lead = wording.lead(view.ranked, findings.leader, settings.get("these_raters", 0))
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
        "methodology_url": view.address("methodology", sort="rank"),
        "cluster_sentence": wording.cluster_sentence(settings, query.raters),
        "both_bad_sentence": wording.BOTH_BAD_SENTENCES.get(settings.get("both_bad", ""), ""),
        "left_out": wording.left_out(settings),
        "named": wording.named(settings, names),
        "these_raters": settings.get("these_raters"),
        "capped": wording.capped(settings),
        "scripted": SCRIPTED_NOTICE if counts_scripts(snapshot) else "",
        "freshness": wording.freshness(snapshot),
        "groups": wording.groups(view.unranked),
        "rankings": wording.rankings(findings, view.unranked),
        "lead": lead,
        "collecting": collecting,
        "description": wording.description(view.arena.question, snapshot, collecting or lead),
        "waiting": sort_rows(view.ranked, "name") if collecting else [],
        **table_context(view, table, lead.candidate if lead and lead.clear else None, own_teams),
        **_findings_context(view, findings, names),
    }


def _findings_context(view: BoardView, findings: Findings, names: dict[int, str]) -> dict[str, Any]:
    return {
        "has_open": any(row.standing.score is None for row in view.ranked),
        "has_elo": view.has_elo,
        "has_neighbours": bool(findings.neighbours),
        "fragility": wording.fragility(findings, names),
        "combined": wording.combined(findings),
        "combined_changed": wording.changed(findings, names),
        "combined_counted": wording.counted(findings),
        "agreement": wording.agreement(findings, view.query.raters),
        "transitivity": wording.transitivity(findings),
        "traits": wording.traits(findings),
        "style_votes": findings.style.get("n_votes"),
    }


# -- A board as a page, as CSV and as JSON --------------------------------------------------------


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


# -- The pages beside a board ----------------------------------------------------------------------


@require_safe
def entries(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Who entered which candidates, and how often each is shown."""
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        view = read_board(
            arena, query, columns=SNAPSHOT_COLUMNS, candidate_columns=CANDIDATE_COLUMNS
        )
        context = {
            "arena": arena,
            "page_links": view.page_links("entries"),
            "entrants": list_entrants(view.candidates, view.snapshots),
        }
        return render_to_string("ranking/entries.html", context)

    return send_stored(request, slug, query.key("entries"), HTML, make)


@require_safe
def exports(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The files that can be downloaded; those with judges' replies are the team's."""
    actor = actor_of(request)
    arena = find_arena(slug, actor)
    of_team = actor.may(TeamPermission.READ, arena.team_id)
    context = {"arena": arena, "of_team": of_team, "deciders": list(DECIDED_BY)}
    private = arena.is_private or of_team
    return send_template(request, "ranking/exports.html", context, private=private)


@require_safe
def win_matrix(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The matrix is part of the page "Head to head" now."""
    arena = find_arena(slug, actor_of(request))
    response = redirect("compare", slug=arena.slug, permanent=True)
    response["Location"] += f"?{request.GET.urlencode()}" if request.GET else ""
    return response


@require_safe
def compare(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Two candidates, or the matrix of all until two are chosen; only the latter is stored."""
    query, pair = BoardQuery.unsorted(request.GET), ChosenPair.of(request.GET)
    show, show_all = clean_show(request.GET.get("show", "")), request.GET.get("rows") == "all"

    def make(arena: Any) -> str:
        board = read_published(arena, query)
        context = compare_context(board, pair, request.GET.get("page", "1"))
        if pair.a is None or pair.b is None:
            context |= matrix_context(board, show, show_all)
        return render_to_string("ranking/compare.html", context)

    if pair.a is None and pair.b is None:
        key = f"compare-{show}{'-all' if show_all else ''}"
        return send_stored(request, slug, query.key(key), HTML, make)
    arena = find_arena(slug, actor_of(request))
    return send(request, http_cache.pack(make(arena)), HTML, private=arena.is_private)


@require_safe
def side_by_side(request: HttpRequest, slug: str) -> HttpResponseBase:
    query, order = BoardQuery.unsorted(request.GET), clean_order(request.GET.get("order", ""))

    def make(arena: Any) -> str:
        context = side_by_side_context(arena, query, order)
        return render_to_string("ranking/side_by_side.html", context)

    return send_stored(request, slug, query.key(f"side-by-side-{order}"), HTML, make)


@require_safe
def price(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Scores against price or speed."""
    query, by = (
        replace(BoardQuery.of(request.GET), sort="rank"),
        clean_by(request.GET.get("by", "")),
    )

    def make(arena: Any) -> str:
        return render_to_string("ranking/price.html", price_context(read_board(arena, query), by))

    return send_stored(request, slug, query.key(f"price-{by}"), HTML, make)


@require_safe
def history(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The score history; only the page without a choice of candidates is stored."""
    query = BoardQuery.unsorted(request.GET)
    candidates = parse_candidates(request.GET.getlist("candidate"))

    def make(arena: Any) -> str:
        context = history_context(read_published(arena, query), candidates)
        return render_to_string("ranking/history.html", context)

    if candidates:
        arena = find_arena(slug, actor_of(request))
        return send(request, http_cache.pack(make(arena)), HTML, private=arena.is_private)
    return send_stored(request, slug, query.key("history"), HTML, make)
