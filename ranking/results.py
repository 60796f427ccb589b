"""A leaderboard as a file: JSON and CSV with what its page shows."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.urls import reverse

from arena.validation import escape_cells
from ranking.board_data import BoardStanding, BoardView, Findings, StyleScore

FIELDS = (
    "rank",
    "rank_low",
    "rank_high",
    "sure_rank_low",
    "sure_rank_high",
    "score",
    "low",
    "high",
    "standard_error",
    "shrunk",
    "shrunk_low",
    "shrunk_high",
    "elo",
    "votes",
    "wins",
    "losses",
    "ties",
    "win_rate",
    "both_bad_rate",
    "status",
    "reason",
)
ABOUT = ("model", "organisation", "licence", "link")
INTERVALS_AND_STYLE = ("elo_low", "elo_high", "style_score", "style_low", "style_high")
VALUES = {
    "dollars_per_1000_answers": "dollars",
    "answers_with_cost": "n_priced",
    "seconds_per_answer": "seconds",
    "answers_with_seconds": "n_timed",
    "tokens_in_per_answer": "tokens_in",
    "tokens_out_per_answer": "tokens_out",
    "answers_with_tokens": "n_counted",
    "wins_per_dollar": "wins_per_dollar",
    "wins_per_second": "wins_per_second",
    "unbeaten_for_its_price": "unbeaten",
}
DIGITS = 6


def as_json(board: BoardView) -> str:
    """The board as one JSON object; null is unknown."""
    snapshot = board.snapshot
    findings = Findings.of(snapshot)
    counts = ("n_votes", "n_both_bad", "n_raters", "n_prompts", "interval_reason")
    elo_votes = board.elo_votes
    if snapshot is not None and elo_votes is None:
        elo_votes = snapshot.elo_interval_votes
    content = {
        "arena": {
            "slug": board.arena.slug,
            "name": board.arena.name,
            "question": board.arena.question,
            "is_sample": board.arena.is_sample,
        },
        "raters": board.query.raters,
        "category": board.query.category,
        "computed_at": snapshot.published_at.isoformat() if snapshot else None,
        "settings": _settings_with_names(board),
        **{name: getattr(snapshot, name, None) for name in (*counts, "choix_difference")},
        "intervals_from_votes": snapshot.measured_votes if snapshot else None,
        "elo_intervals_from_votes": elo_votes,
        "findings": _findings_with_names(board, findings),
        "standings": [
            _named_page(board, row) | _public_facts(row) | _standing_values(row, findings)
            for row in board.rows
        ],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _settings_with_names(board: BoardView) -> dict[str, Any]:
    settings: dict[str, Any] = dict(board.snapshot.settings) if board.snapshot else {}
    if anchor := settings.get("anchor"):
        named = {row.standing.candidate_id: _named_page(board, row) for row in board.rows}
        settings["anchor"] = anchor | {"candidate": named.get(anchor["candidate"])}
    return settings


def _named_page(board: BoardView, row: BoardStanding) -> dict[str, str]:
    page = reverse("candidate", args=[board.arena.slug, row.standing.candidate_id])
    return {"candidate": row.name, "url": page}


def _public_facts(row: BoardStanding) -> dict[str, str | None]:
    """What is public about the candidate in addition to its name; null while it is undisclosed."""
    candidate = row.standing.candidate
    return {name: getattr(candidate, name) if candidate.disclosed_at else None for name in ABOUT}


def _findings_with_names(board: BoardView, findings: Findings) -> dict[str, Any]:
    """The findings, with candidates by name and page instead of by id."""
    named = {row.standing.candidate_id: _named_page(board, row) for row in board.rows}

    def named_of(ids: Iterable[int]) -> list[dict[str, str]]:
        return [named[pk] for pk in ids if pk in named]

    style = dict(findings.style)
    style.pop("scores", None)
    if "tiers" in style:
        style["tiers"] = [named_of(tier) for tier in style["tiers"]]
    combined = dict(findings.combined)
    if combined.get("moved_most"):
        combined["moved_most"] = named.get(combined["moved_most"])
    if "left_out" in combined:
        combined["left_out"] = named_of(combined["left_out"])
    return {
        "leader": named.get(findings.leader) if findings.leader else None,
        "provisional": named.get(findings.provisional) if findings.provisional else None,
        "is_under_review": findings.is_under_review,
        "tiers": [named_of(tier) for tier in findings.tiers],
        "neighbours": [
            asdict(pair) | {"upper": named.get(pair.upper), "lower": named.get(pair.lower)}
            for pair in findings.neighbours.values()
        ],
        "fragility": {
            name: named.get(value) if name in ("top", "rival") else value
            for name, value in findings.robustness.items()
        },
        "agreement": findings.agreement or None,
        "transitivity": findings.transitivity or None,
        "ties": None,  # no longer measured
        "combined": combined or None,
        "groups": [
            [dict(row) | {"candidate": named.get(row["candidate"])} for row in group]
            for group in findings.groups
        ],
        # Style scores are in the standings, as `style_score`.
        "style": style or None,
    }


def _standing_values(row: BoardStanding, findings: Findings) -> dict[str, Any]:
    style = findings.style_scores.get(row.standing.candidate_id, StyleScore())
    values = {name: getattr(row.standing, name) for name in FIELDS}
    values |= {"elo_low": row.elo_low, "elo_high": row.elo_high}
    values |= {f"style_{name}": getattr(style, name) for name in ("score", "low", "high")}
    values |= {name: getattr(row.value, source) for name, source in VALUES.items()}
    return {
        name: round(value, DIGITS) if isinstance(value, float) else value
        for name, value in values.items()
    }


def as_csv(board: BoardView) -> str:
    out, findings = io.StringIO(), Findings.of(board.snapshot)
    writer = csv.writer(out)
    writer.writerow(["candidate", *FIELDS, *INTERVALS_AND_STYLE, *VALUES, *ABOUT])
    for row in board.rows:
        values = [*_standing_values(row, findings).values(), *_public_facts(row).values()]
        writer.writerow(escape_cells([row.name, *values]))
    return out.getvalue()
