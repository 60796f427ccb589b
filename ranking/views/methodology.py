"""The methodology: how each number of a leaderboard is computed, with its current settings."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from ranking import wording
from ranking.board_data import BoardQuery, BoardView, Findings, read_board
from ranking.http_cache import HTML, send_stored
from ranking.models import Counted

# The headings of the templates by anchor, in page order.
TOPICS = {
    "score": "Score",
    "interval": "Score interval",
    "combined": "People and judges combined",
    "clusters": "Dependent votes",
    "rank": "Rank and its range",
    "number-one": "Clear leader",
    "claim": "Two candidates",
    "neighbours": "Lead over next",
    "fragility": "Robustness of number one",
    "style": "Style-controlled score",
    "elo": "Elo",
    "win-rate": "Win rate",
    "both-bad": "Both bad",
    "cost": "Cost and speed",
    "agreement": "Agreement",
    "transitivity": "Transitivity",
    "not-comparable": "Not comparable yet",
    "votes": "Which votes count",
    "suspicious": "Suspicious votes",
    "log": "Vote log",
    "second-opinion": "Cross-check",
    "settings": "Current settings",
}
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
NOT_COMBINED = {"fragility", "style", "elo", "agreement", "transitivity"}
PAGE = "methodology"


def methodology_context(view: BoardView) -> dict[str, Any]:
    """The context of `ranking/methodology.html`."""
    left_out = NOT_COMBINED if _is_combined(view) else {"combined"}
    if not _has_costs(view):
        left_out = left_out | {"cost"}
    if view.snapshot is None or not view.snapshot.settings.get("log"):
        left_out = left_out | {"log"}
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": view.snapshot,
        "topics": [(anchor, title) for anchor, title in TOPICS.items() if anchor not in left_out],
        "is_combined": _is_combined(view),
        "has_costs": _has_costs(view),
        "raters_links": view.raters_links(PAGE),
        "category_links": view.category_links(PAGE),
        "page_links": view.page_links(PAGE),
        **_snapshot_values(view),
    }


def _is_combined(view: BoardView) -> bool:
    return view.query.raters == Counted.COMBINED


def _has_costs(view: BoardView) -> bool:
    return view.has_prices or view.has_times


def _snapshot_values(view: BoardView) -> dict[str, Any]:
    """The values that the topics print from the board's snapshot."""
    if view.snapshot is None:
        return {}
    settings, findings = view.snapshot.settings, Findings.of(view.snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    collecting = wording.collecting(view.snapshot)
    return {
        "s": settings,
        "collecting": collecting,
        "others": OTHERS[settings["clusters"]],
        "times_in_100": f"{100 * settings['confidence']:g}",
        "confidence": f"{100 * settings['confidence']:g}\N{NO-BREAK SPACE}%",
        "doubt": f"{100 * (1 - settings['confidence']):g}\N{NO-BREAK SPACE}%",
        "clusters": CLUSTERS[settings["clusters"]].format(
            unit="the prompt’s document" if settings.get("documents") else "the prompt"
        ),
        "cluster_sentence": wording.cluster_sentence(settings, view.query.raters),
        "both_bad_sentence": wording.BOTH_BAD_SENTENCES[settings["both_bad"]],
        "capped": wording.capped(settings),
        "left_out": wording.uncounted_votes(settings),
        "lead": wording.lead(
            view.ranked, findings, view.query.raters, settings.get("these_raters", 0)
        ),
        "robustness": "" if collecting else wording.robustness(findings, names),
        "without_one": [] if collecting else wording.without_one(findings, names),
        "agreement": wording.agreement(findings, view.query.raters),
        "transitivity": wording.transitivity(findings),
        "combined": wording.combined(findings),
        "traits": wording.traits(findings),
        "style_votes": findings.style.get("n_votes"),
        "freshness": wording.freshness(view.snapshot),
        "n_priced": sum(bool(row.value.n_priced) for row in view.rows),
        "n_timed": sum(bool(row.value.n_timed) for row in view.rows),
    }


@require_safe
def methodology(request: HttpRequest, slug: str) -> HttpResponseBase:
    query = BoardQuery.unsorted(request.GET)

    def make(arena: Any) -> str:
        context = methodology_context(read_board(arena, query))
        return render_to_string("ranking/methodology.html", context)

    return send_stored(request, slug, query.key(PAGE), HTML, make)
