"""How an arena's numbers are made, with the current settings; who entered what; and all files."""

from typing import Any

from django.conf import settings as django_settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from ranking import wording
from ranking.anchor import scale_sentence
from ranking.board_data import BoardQuery, BoardView, Findings, read_board
from ranking.entries import CANDIDATE_COLUMNS, SNAPSHOT_COLUMNS, list_entrants
from ranking.http_cache import HTML, send_stored
from ranking.models import Counted
from ranking.preferences import DECIDED_BY

CLUSTERS = {
    "prompt_rater": "{unit}, and by the rater",
    "prompt": "{unit}",
    "prompt_pair": "the prompt and the two candidates",
    "rater": "the rater",
    "vote": "each vote on its own",
}
OTHERS = {
    "prompt_rater": "other raters and other prompts",
    "prompt": "other prompts",
    "prompt_pair": "other prompts",
    "rater": "other raters",
    "vote": "other votes",
}
PAGE = "about"


def about_context(view: BoardView) -> dict[str, Any]:
    """The context of `ranking/about.html`."""
    judges = {
        name
        for snapshot in view.snapshots
        for name in (snapshot.settings.get("judges", []) if snapshot.n_votes else [])
    }
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": view.snapshot,
        "is_combined": view.query.raters == Counted.COMBINED,
        "has_costs": view.has_prices or view.has_times,
        "judges": sorted(judges, key=str.casefold),
        "entrants": list_entrants(view.candidates, view.snapshots),
        "deciders": list(DECIDED_BY),
        "names_per_hour": django_settings.NAMES_PER_HOUR,
        "raters_links": view.raters_links(PAGE),
        "category_links": view.category_links(PAGE),
        "page_links": view.page_links(PAGE),
        **_snapshot_values(view),
    }


def _snapshot_values(view: BoardView) -> dict[str, Any]:
    """The values that the topics print from the leaderboard's snapshot."""
    if view.snapshot is None:
        return {}
    settings, findings = view.snapshot.settings, Findings.of(view.snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    collecting = wording.collecting(view.snapshot)
    return {
        "s": settings,
        "others": OTHERS[settings["clusters"]],
        "times_in_100": f"{100 * settings['confidence']:g}",
        "confidence": f"{100 * settings['confidence']:g}%",
        "doubt": f"{100 * (1 - settings['confidence']):g}%",
        "clusters": CLUSTERS[settings["clusters"]].format(
            unit="the prompt’s document" if settings.get("documents") else "the prompt"
        ),
        "scale": scale_sentence(settings, view.names_of_candidates),
        "both_bad_sentence": wording.BOTH_BAD_SENTENCES[settings["both_bad"]],
        "capped": wording.capped(settings),
        "left_out": wording.uncounted_votes(settings),
        "robustness": "" if collecting else wording.robustness(findings, names),
        "agreement": wording.agreement(findings, view.query.raters),
        "transitivity": wording.transitivity(findings),
        "combined": wording.combined(findings),
        "traits": wording.traits(findings),
        "freshness": wording.freshness(view.snapshot),
        "n_priced": sum(bool(row.value.n_priced) for row in view.rows),
        "n_timed": sum(bool(row.value.n_timed) for row in view.rows),
    }


@require_safe
def about(request: HttpRequest, slug: str) -> HttpResponseBase:
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        view = read_board(
            arena, query, columns=SNAPSHOT_COLUMNS, candidate_columns=CANDIDATE_COLUMNS
        )
        return render_to_string("ranking/about.html", about_context(view))

    return send_stored(request, slug, query.key(PAGE), HTML, make)
