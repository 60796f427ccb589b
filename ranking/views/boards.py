"""The home page, and boards as pages and files: links, columns, rows and sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.actors import ANONYMOUS, Actor, actor_of
from arena.models import Arena
from arena.services.candidates import with_ballots
from ranking import http_cache, results, wording
from ranking.board_data import (
    SCRIPTED_NOTICE,
    BoardQuery,
    BoardView,
    Findings,
    arenas_with_scripts,
    counts_scripts,
    find_arena,
    read_board,
    sort_rows,
)
from ranking.comparison import ChosenPair, read_published
from ranking.entries import CANDIDATE_COLUMNS, SNAPSHOT_COLUMNS, list_entrants
from ranking.http_cache import CSV, HTML, JSON, allow_plotly, send, send_stored, send_template
from ranking.models import Raters, Snapshot, Standing
from ranking.views.compare import clean_order, compare_context, side_by_side_context
from ranking.views.history import history_context, parse_candidates
from ranking.views.matrix import clean_show, matrix_context
from ranking.views.standings import TableQuery, table_context


def board_context(view: BoardView, table: TableQuery) -> dict[str, Any]:
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
        "raters_links": view.raters_links(**table.parameters(q="", rows="")),
        "category_links": view.category_links(**table.parameters(q="", rows="")),
        "page_links": view.page_links("board"),
        "csv_url": view.address("board_csv"),
        "json_url": view.address("board_json"),
        "methodology_url": view.address("methodology", sort="rank"),
        "cluster_sentence": wording.cluster_sentence(settings, query.raters),
        "both_bad_sentence": wording.BOTH_BAD_SENTENCES.get(settings.get("both_bad", ""), ""),
        "left_out": wording.left_out(settings),
        "these_raters": settings.get("these_raters"),
        "capped": wording.capped(settings),
        "scripted": SCRIPTED_NOTICE if counts_scripts(snapshot) else "",
        "freshness": wording.freshness(snapshot),
        "groups": wording.groups(view.unranked),
        "lead": lead,
        "collecting": collecting,
        "waiting": sort_rows(view.ranked, "name") if collecting else [],
        **table_context(view, table, lead.candidate if lead and lead.clear else None),
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


@dataclass(frozen=True)
class Card:
    """An arena with the snapshots of its boards, and the leader of the first board with votes;
    `scripted` is a notice if those votes come from scripts."""

    arena: Any
    people: Snapshot | None
    judges: Snapshot | None
    juries: Snapshot | None
    leader: Standing | None = None
    scripted: str = ""

    @property
    def shown(self) -> Snapshot | None:
        """The leader's snapshot: the first one with enough votes, or else with any."""
        voted = [s for s in (self.people, self.judges, self.juries) if s and s.n_votes]
        return min(voted, key=lambda snapshot: snapshot.lacks_votes, default=None)

    @property
    def collecting(self) -> wording.Collecting | None:
        return wording.collecting(self.shown, {})

    @property
    def shared_lead(self) -> bool:
        """Whether the leader is not the clear number one."""
        if self.leader is None or self.shown is None:
            return False
        return Findings.of(self.shown).leader != self.leader.candidate_id


def list_cards(actor: Actor = ANONYMOUS) -> list[Card]:
    """One card per arena that is listed for `actor`, newest first; five queries at most."""
    arenas = list(with_ballots(Arena.objects.listed_for(actor)).order_by("-pk"))
    ids = [arena.pk for arena in arenas]
    current = Snapshot.objects.current().filter(board__category="", board__arena__in=ids)
    snapshots = {
        (snapshot.board.arena_id, snapshot.board.raters): snapshot
        for snapshot in current.select_related("board")
    }
    leaders = _find_leaders(ids)
    cards = []
    for arena in arenas:
        people, judges, juries = (snapshots.get((arena.pk, raters)) for raters in Raters.values)
        card = Card(arena, people, judges, juries)
        has_ranking = card.shown and not card.shown.lacks_votes
        leader = leaders.get(card.shown.pk) if card.shown and has_ranking else None
        cards.append(replace(card, leader=leader))
    scripted = arenas_with_scripts(card.shown for card in cards if card.shown)
    return [
        replace(card, scripted=SCRIPTED_NOTICE) if card.arena.pk in scripted else card
        for card in cards
    ]


def _find_leaders(arenas: Sequence[int]) -> dict[int, Standing]:
    """The first-ranked standing by snapshot; of several, the first by displayed name."""
    current = Q(snapshot__is_current=True, snapshot__board__category="")
    first = Standing.objects.filter(current, rank=1, snapshot__board__arena__in=arenas)
    by_name = sorted(first.select_related("candidate"), key=lambda row: str(row.candidate))
    return {standing.snapshot_id: standing for standing in reversed(by_name)}


# -- The home page, and a board as a page, as CSV and as JSON --------------------------------------


@require_safe
def index(request: HttpRequest) -> HttpResponseBase:
    """The home page: the arenas listed for the reader, with their questions and leaders."""
    actor = actor_of(request)
    context = {"cards": list_cards(actor), "can_sign_up": settings.SIGN_UP == "open"}
    return send_template(request, "ranking/index.html", context, private=bool(actor.key))


@require_safe
@allow_plotly
def board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The leaderboard; with a search or chosen columns it is made anew each time."""
    query, table = BoardQuery.of(request.GET), TableQuery.of(request.GET)

    def make(arena: Any) -> str:
        return render_to_string(
            "ranking/board.html", board_context(read_board(arena, query), table)
        )

    if table.is_stored:
        return send_stored(request, slug, query.key(table.form), HTML, make)
    arena = find_arena(slug, actor_of(request))
    return send(request, http_cache.pack(make(arena)), HTML, private=arena.is_private)


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
    query = BoardQuery.of(request.GET)
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
def win_matrix(request: HttpRequest, slug: str) -> HttpResponseBase:
    query, show = BoardQuery.unsorted(request.GET), clean_show(request.GET.get("show", ""))

    def make(arena: Any) -> str:
        context = matrix_context(read_published(arena, query), show)
        return render_to_string("ranking/matrix.html", context)

    return send_stored(request, slug, query.key(f"matrix-{show}"), HTML, make)


@require_safe
def compare(request: HttpRequest, slug: str) -> HttpResponseBase:
    arena = find_arena(slug, actor_of(request))
    board = read_published(arena, BoardQuery.unsorted(request.GET))
    context = compare_context(board, ChosenPair.of(request.GET), request.GET.get("page", "1"))
    return send_template(request, "ranking/compare.html", context, private=arena.is_private)


@require_safe
def side_by_side(request: HttpRequest, slug: str) -> HttpResponseBase:
    query, order = BoardQuery.unsorted(request.GET), clean_order(request.GET.get("order", ""))

    def make(arena: Any) -> str:
        context = side_by_side_context(arena, query, order)
        return render_to_string("ranking/side_by_side.html", context)

    return send_stored(request, slug, query.key(f"side-by-side-{order}"), HTML, make)


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
