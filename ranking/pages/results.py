"""A board as JSON and as CSV: what its page shows, with more digits."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.urls import reverse

from ranking.models import Snapshot
from ranking.pages.findings import Findings, StyleScore
from ranking.pages.reading import BoardView, Row

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
BESIDE = ("elo_low", "elo_high", "style_score", "style_low", "style_high")
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
STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_json(board: BoardView) -> str:
    """The board as one JSON object; NULL is what is not known."""
    snapshot = board.snapshot
    findings = Findings.of(snapshot)
    found = {
        "arena": {
            "slug": board.arena.slug,
            "name": board.arena.name,
            "question": board.arena.question,
            "is_sample": board.arena.is_sample,
        },
        "raters": board.asked.raters,
        "category": board.asked.category,
        "computed_at": snapshot.published_at.isoformat() if snapshot else None,
        "settings": snapshot.settings if snapshot else {},
        **_counts(snapshot),
        "intervals_from_votes": snapshot.measured_votes if snapshot else None,
        "elo_intervals_from_votes": _seen_by_elo_intervals(board),
        "findings": _named(board, findings),
        "standings": [_json_row(board, row, findings) for row in board.rows],
    }
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


def _counts(snapshot: Snapshot | None) -> dict[str, Any]:
    names = ("n_votes", "n_both_bad", "n_raters", "n_prompts", "interval_reason")
    return {name: getattr(snapshot, name, None) for name in (*names, "choix_difference")}


def _seen_by_elo_intervals(board: BoardView) -> int | None:
    if board.snapshot is None or board.elo_votes is not None:
        return board.elo_votes
    return board.snapshot.elo_interval_votes


def _json_row(board: BoardView, row: Row, findings: Findings) -> dict[str, Any]:
    return _who(board, row) | _values(row, findings)


def _who(board: BoardView, row: Row) -> dict[str, str]:
    page = reverse("candidate", args=[board.arena.slug, row.standing.candidate_id])
    return {"candidate": row.name, "url": page}


def _named(board: BoardView, findings: Findings) -> dict[str, Any]:
    """The findings, with candidates by name and page instead of by id."""
    who = {row.standing.candidate_id: _who(board, row) for row in board.rows}
    return {
        "leader": who.get(findings.leader) if findings.leader else None,
        "neighbours": [
            vars(two) | {"upper": who.get(two.upper), "lower": who.get(two.lower)}
            for two in findings.neighbours.values()
        ],
        "fragility": {
            name: who.get(value) if name in ("top", "rival") else value
            for name, value in findings.fragility.items()
        },
        "agreement": findings.agreement or None,
        "transitivity": findings.transitivity or None,
        "ties": findings.ties or None,
        "combined": _combined(findings, who),
        # Its scores stand in the standings, as `style_score`.
        "style": {k: v for k, v in findings.style.items() if k != "scores"} or None,
    }


def _combined(findings: Findings, who: Mapping[int, Any]) -> dict[str, Any] | None:
    found = dict(findings.combined)
    if found.get("moved_most"):
        found["moved_most"] = who.get(found["moved_most"])
    return found or None


def _values(row: Row, findings: Findings) -> dict[str, Any]:
    style = findings.style_scores.get(row.standing.candidate_id, StyleScore())
    values = {name: getattr(row.standing, name) for name in FIELDS}
    values |= {"elo_low": row.elo_low, "elo_high": row.elo_high}
    values |= {f"style_{name}": value for name, value in vars(style).items()}
    values |= {name: getattr(row.value, source) for name, source in VALUES.items()}
    return {name: _rounded(value) for name, value in values.items()}


def _rounded(value: Any) -> Any:
    return round(value, DIGITS) if isinstance(value, float) else value


def as_csv(board: BoardView) -> str:
    """The board as CSV with a line of names first."""
    out, findings = io.StringIO(), Findings.of(board.snapshot)
    writer = csv.writer(out)
    writer.writerow(["candidate", *FIELDS, *BESIDE, *VALUES])
    for row in board.rows:
        writer.writerow(cells([row.name, *_values(row, findings).values()]))
    return out.getvalue()


def cells(values: Iterable[Any]) -> list[Any]:
    """A spreadsheet runs a text that looks like a formula; an apostrophe keeps it a text."""
    return [
        f"'{value}" if isinstance(value, str) and value.startswith(STARTS_A_FORMULA) else value
        for value in values
    ]
