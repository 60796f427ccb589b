"""A board as JSON and as CSV: what its page shows, with more digits."""

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from django.urls import reverse

from ranking.models import Snapshot
from ranking.reading import BoardView, Row

FIELDS = (
    "rank",
    "rank_low",
    "rank_high",
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
DIGITS = 6
STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_json(board: BoardView) -> str:
    """The board as one JSON object; NULL is what is not known."""
    snapshot = board.snapshot
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
        "elo_intervals_from_votes": _seen_by_elo_intervals(board),
        "standings": [_json_row(board, row) for row in board.rows],
    }
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


def _counts(snapshot: Snapshot | None) -> dict[str, Any]:
    names = ("n_votes", "n_both_bad", "n_raters", "n_prompts", "interval_reason")
    return {name: getattr(snapshot, name, None) for name in (*names, "choix_difference")}


def _seen_by_elo_intervals(board: BoardView) -> int | None:
    if board.snapshot is None or board.elo_votes is not None:
        return board.elo_votes
    return board.snapshot.elo_interval_votes


def _json_row(board: BoardView, row: Row) -> dict[str, Any]:
    page = reverse("candidate", args=[board.arena.slug, row.standing.candidate_id])
    return {"candidate": row.name, **_values(row), "url": page}


def _values(row: Row) -> dict[str, Any]:
    values = {name: _rounded(getattr(row.standing, name)) for name in FIELDS}
    return values | {"elo_low": _rounded(row.elo_low), "elo_high": _rounded(row.elo_high)}


def _rounded(value: Any) -> Any:
    return round(value, DIGITS) if isinstance(value, float) else value


def as_csv(board: BoardView) -> str:
    """The board as CSV with a line of names first."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["candidate", *FIELDS, "elo_low", "elo_high"])
    for row in board.rows:
        writer.writerow(_cells([row.name, *_values(row).values()]))
    return out.getvalue()


def _cells(values: Iterable[Any]) -> list[Any]:
    """A spreadsheet runs a text that looks like a formula; an apostrophe keeps it a text."""
    return [
        f"'{value}" if isinstance(value, str) and value.startswith(STARTS_A_FORMULA) else value
        for value in values
    ]
