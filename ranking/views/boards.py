"""A leaderboard as a page, as CSV and as JSON."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from arena.language import translated
from arena.validation import numbered
from ranking import http_cache, results, wording
from ranking.anchor import scale_sentence
from ranking.board_data import (
    BoardQuery,
    BoardView,
    Findings,
    find_arena,
    read_board,
    sort_rows,
)
from ranking.http_cache import CSV, HTML, JSON, allow_plotly, send, send_stored
from ranking.models import Counted, Raters, Snapshot
from ranking.reasons import NamedReason, count_reasons
from ranking.scripted_raters import demo_notice
from ranking.specimens import SpecimenQuery, specimens_context
from ranking.views.share import share_board
from ranking.views.standings import TableQuery, control_style, table_context, tiers_of


def board_context(view: BoardView, table: TableQuery, pair: SpecimenQuery) -> dict[str, Any]:
    """The context of `ranking/board.html`."""
    query, snapshot = view.query, view.snapshot
    made = snapshot.settings if snapshot else {}
    findings = Findings.of(snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    collecting = wording.collecting(snapshot)
    is_unvoted = snapshot is not None and not snapshot.n_votes + snapshot.n_both_bad
    unvoted = view.rows if is_unvoted and len(view.rows) > 1 else []
    rankings = [] if unvoted else wording.rankings(findings, view.unranked)
    shown = control_style(view)
    reasons = [] if collecting else _reasons(view)
    story_context = _story_context(view, shown, reasons, collecting)
    story = story_context["story"]
    says = story.headline if story else collecting.headline if collecting else ""
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": snapshot,
        "all_people_url": view.address(raters=Counted.PEOPLE.value),
        "all_prompts_url": view.address(category=""),
        "page_links": view.page_links("board"),
        "csv_url": view.address("board_csv", control=""),
        "json_url": view.address("board_json", control=""),
        "methodology_url": view.address("about", sort="rank"),
        "demo": demo_notice(view.arena, snapshot),
        "groups": [] if unvoted else wording.groups(view.unranked),
        "rankings": rankings,
        "no_ranking": ""
        if collecting and len(view.rows) > 1
        else wording.no_ranking(view, rankings),
        "can_vote": view.arena.has_texts and query.raters not in (Raters.JUDGES, Raters.JURIES),
        "collecting": collecting,
        "waiting": sort_rows(unvoted or view.ranked, "name") if collecting else [],
        "is_styled": shown.query.style,
        "is_under_review": any(Findings.of(each).is_under_review for each in view.snapshots),
        "share": share_board(view, says=says),
        "stays_at": view.address("board", **table.parameters(q="")),
        "notes": [] if shown.query.style else _notes(view, findings, names),
        "firmness": "" if collecting or shown.query.style else wording.robustness(findings, names),
        "judges": made.get("judges", []),
        **story_context,
        **table_context(shown, table, reasons),
        **specimens_context(
            view.arena,
            [row.standing for row in sort_rows(shown.ranked, "rank")],
            *pair,
            lambda **chosen: view.address("board", **table.parameters(q="", rows="") | chosen),
            tiers=tiers_of(shown),
            category=query.category,
        ),
    }


def _story_context(
    view: BoardView,
    shown: BoardView,
    reasons: Sequence[NamedReason],
    collecting: wording.Collecting | None,
) -> dict[str, Any]:
    """The headline and the sentences above the table, with links between the two views of style."""
    snapshot = view.snapshot
    made = snapshot.settings if snapshot else {}
    lead = wording.lead(view.ranked, Findings.of(snapshot), view.query.raters, made)
    story = None
    other = replace(view.query, style=not shown.query.style)
    if shown.query.style and not collecting:
        matters = wording.style_matters(Findings.of(snapshot))
        story = wording.style_story(view.ranked, shown.ranked, matters)
    elif lead and not collecting:
        styled = control_style(replace(view, query=other))
        matters = (
            not lead.is_under_review
            and styled.query.style
            and wording.style_matters(Findings.of(snapshot))
        )
        story = wording.story(lead, view.ranked, reasons, styled.ranked if matters else [])
    return {
        "lead": lead,
        "story": story,
        "style_url": other.address(view.arena.slug),
        "description": wording.description(view.arena.question, snapshot, collecting or lead),
    }


def _reasons(view: BoardView) -> list[NamedReason]:
    """What people named about the candidates; nothing beside the votes of judges, or of a
    category."""
    is_human = view.query.raters in (Counted.PEOPLE, Counted.VERIFIED)
    if view.snapshot is None or not is_human or view.query.category:
        return []
    return [reason for reason in count_reasons(view.arena) if not reason.category]


def _notes(view: BoardView, findings: Findings, names: dict[int, str]) -> list[str]:
    """What a careful reader should know about the votes and the intervals."""
    made = view.snapshot.settings if view.snapshot else {}
    notes = [
        *wording.interval_notes(view),
        *([] if findings.robustness.get("votes") == 0 else wording.without_one(findings, names)),
        wording.agreement(findings, view.query.raters),
        wording.transitivity(findings),
        _both_bad(view.snapshot),
        wording.uncounted_votes(made),
        wording.self_identified(made, names),
        wording.capped(made),
        scale_sentence(made, view.names_of_candidates),
        wording.combined(findings),
        wording.rank_changes(findings, names),
        wording.trusted_raters(findings),
        wording.elo_note(view.elo_votes),
    ]
    if freshness := wording.freshness(view.snapshot):
        notes.append(
            f"Intervals include {freshness.seen:,} of {freshness.of:,} votes; the next update is"
            f" due at {freshness.again_at:%H:%M:%S} UTC. Scores include every vote."
        )
    return [note for note in notes if note]


def _both_bad(snapshot: Snapshot | None) -> str:
    if snapshot is None or not snapshot.n_both_bad:
        return ""
    says = wording.BOTH_BAD_SENTENCES.get(snapshot.settings.get("both_bad", ""), "")
    return f"{numbered(snapshot.n_both_bad, 'vote')} rated both answers bad. {says}".strip()


@translated
@require_safe
@allow_plotly
def board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The leaderboard; with a search or chosen specimens it is rendered each time.

    An experiment has none: its address leads to the experiment, a page of the judges app. Only
    slugs like those that experiments get cost a query to know.
    """
    if slug.startswith("x-") and find_arena(slug, actor_of(request)).origin_id is not None:
        return redirect("experiment", slug)
    query, table = BoardQuery.of(request.GET), TableQuery.of(request.GET)
    pair = SpecimenQuery.of(request.GET)

    def make(arena: Any) -> str:
        context = board_context(read_board(arena, query), table, pair)
        return render_to_string("ranking/board.html", context)

    if table.is_stored and pair == SpecimenQuery():
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
    query = replace(BoardQuery.of(request.GET), style=False)
    return send_stored(
        request, slug, query.key(form), content_type, lambda arena: make(read_board(arena, query))
    )
