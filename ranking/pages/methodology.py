"""How a board's numbers are made: every topic of its methodology page, by the settings in force."""

from math import tanh
from typing import Any

from ranking.models import Counted
from ranking.pages import combined_words, words
from ranking.pages.board import BOTH_BAD_SENTENCES, category_links, page_links, raters_links
from ranking.pages.findings import Findings
from ranking.pages.reading import BoardView
from ranking.pages.style_words import traits
from ranking.pages.words import CLUSTER_SENTENCES

# Each has a template of its own name in templates/ranking/methodology/, and an anchor.
TOPICS = {
    "score": "Score",
    "interval": "Interval of the score",
    "combined": "People and judges together",
    "clusters": "Which votes depend on one another",
    "rank": "Rank and its range",
    "number-one": "Clear number one",
    "neighbours": "Separated, or about so many more votes",
    "fragility": "How few votes would change number one",
    "style": "Score at equal style",
    "elo": "Elo",
    "win-rate": "Win rate",
    "both-bad": "Both bad",
    "cost": "What answers cost, and how long they take",
    "agreement": "Agreement",
    "transitivity": "Transitivity",
    "ties": "Ties",
    "not-comparable": "Not comparable yet",
    "votes": "Which votes count",
    "second-opinion": "Second opinion",
    "settings": "Settings in force",
}
CLUSTERS = {
    "prompt": "the prompt",
    "prompt_pair": "the prompt and the two candidates",
    "rater": "the rater",
    "vote": "each vote by itself",
}
NOT_COMBINED = {"fragility", "style", "elo", "agreement", "transitivity", "ties"}
PAGE = "methodology"


def methodology_context(view: BoardView) -> dict[str, Any]:
    """Everything that `ranking/methodology.html` prints."""
    return {
        "view": view,
        "arena": view.arena,
        "snapshot": view.snapshot,
        "topics": _topics(view),
        "board_url": view.asked.address(view.arena.slug),
        "raters_links": raters_links(view, PAGE),
        "category_links": category_links(view, PAGE),
        "pages": page_links(view, PAGE),
        **_in_force(view),
    }


def _topics(view: BoardView) -> list[tuple[str, str, str]]:
    """Anchor, title and template of what the board shows."""
    left_out = NOT_COMBINED if view.asked.raters == Counted.COMBINED else {"combined"}
    if not (view.has_prices or view.has_times):
        left_out = left_out | {"cost"}
    return [
        (anchor, title, f"ranking/methodology/{anchor}.html")
        for anchor, title in TOPICS.items()
        if anchor not in left_out
    ]


def _in_force(view: BoardView) -> dict[str, Any]:
    """What the chosen board says under each topic."""
    if view.snapshot is None:
        return {}
    settings, findings = view.snapshot.settings, Findings.of(view.snapshot)
    names = {row.standing.candidate_id: row.name for row in view.rows}
    return {
        "s": settings,
        "times_in_100": f"{100 * settings['confidence']:g}",
        "confidence": f"{100 * settings['confidence']:g}\N{NO-BREAK SPACE}%",
        "doubt": f"{100 * (1 - settings['confidence']):g}\N{NO-BREAK SPACE}%",
        "clusters": CLUSTERS[settings["clusters"]],
        "cluster_sentence": CLUSTER_SENTENCES[settings["clusters"]],
        "both_bad_sentence": BOTH_BAD_SENTENCES[settings["both_bad"]],
        "lead": words.lead(view.ranked, findings.leader),
        "fragility": words.fragility(findings, names),
        "agreement": words.agreement(findings, view.asked.raters),
        "transitivity": words.transitivity(findings),
        "combined": combined_words.combined(findings),
        "traits": traits(findings),
        "style_votes": findings.style.get("n_votes"),
        "n_separated": sum(two.separated for two in findings.neighbours.values()),
        "n_neighbours": len(findings.neighbours),
        "ties": findings.ties,
        "equals_tie": _equals_tie(findings),
        "freshness": words.freshness(view.snapshot),
        "n_priced": sum(bool(row.value.n_priced) for row in view.rows),
        "n_timed": sum(bool(row.value.n_timed) for row in view.rows),
    }


def _equals_tie(findings: Findings) -> float | None:
    """Share of ties between equals in Rao and Kupper's model: (e^2h - 1) / (1 + e^h)^2."""
    eta = findings.ties.get("eta")
    return None if eta is None else tanh(eta / 2)
