"""A board as a file: JSON and CSV with what its page shows, and a copy of it as one HTML file.

The copy opens without a network and checks its own scores: it has the votes, by pseudonym and
without texts, the scores as published, the head of the signed log, and a script that fits the
Bradley-Terry scores again. It loads nothing else, and its policy allows no other script.

An arena's prompts are written as the test sets of other tools, while they are read: promptfoo's
tests as JSON Lines (promptfoo.dev/docs/configuration/test-cases), and the items of a dataset of
Langfuse (langfuse.com/docs, "Datasets"). Both files come back as the same prompts. They have
references and rubrics, so they are for the arena's own team.
"""

import base64
import csv
import hashlib
import io
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.conf import settings
from django.db.models import Count
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import mark_safe

from arena.formats.promptfoo import read_check
from arena.formats.records import filled, written
from arena.models import Arena, Outcome, Prompt
from arena.validation import escape_cells
from ranking import wording
from ranking.board_data import (
    BoardQuery,
    BoardStanding,
    BoardView,
    Findings,
    StyleScore,
    demo_notice,
)
from ranking.comparison import read_published
from ranking.exports import Export, Row, one_by_one, rater_name
from ranking.log import links
from ranking.models import Counted, Snapshot
from ranking.services.votes import cast_by

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
        "settings": snapshot.settings if snapshot else {},
        **{name: getattr(snapshot, name, None) for name in (*counts, "choix_difference")},
        "intervals_from_votes": snapshot.measured_votes if snapshot else None,
        "elo_intervals_from_votes": elo_votes,
        "findings": _findings(board, findings),
        "standings": [
            _candidate(board, row) | _about(row) | _values(row, findings) for row in board.rows
        ],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _candidate(board: BoardView, row: BoardStanding) -> dict[str, str]:
    page = reverse("candidate", args=[board.arena.slug, row.standing.candidate_id])
    return {"candidate": row.name, "url": page}


def _about(row: BoardStanding) -> dict[str, str | None]:
    """What is public about the candidate in addition to its name; null while it is undisclosed."""
    candidate = row.standing.candidate
    return {name: getattr(candidate, name) if candidate.disclosed_at else None for name in ABOUT}


def _findings(board: BoardView, findings: Findings) -> dict[str, Any]:
    """The findings, with candidates by name and page instead of by id."""
    named = {row.standing.candidate_id: _candidate(board, row) for row in board.rows}
    combined = dict(findings.combined)
    if combined.get("moved_most"):
        combined["moved_most"] = named.get(combined["moved_most"])
    if "left_out" in combined:
        combined["left_out"] = [named[pk] for pk in combined["left_out"] if pk in named]
    return {
        "leader": named.get(findings.leader) if findings.leader else None,
        "tiers": [[named[pk] for pk in tier if pk in named] for tier in findings.tiers],
        "neighbours": [
            vars(pair) | {"upper": named.get(pair.upper), "lower": named.get(pair.lower)}
            for pair in findings.neighbours.values()
        ],
        "fragility": {
            name: named.get(value) if name in ("top", "rival") else value
            for name, value in findings.robustness.items()
        },
        "agreement": findings.agreement or None,
        "transitivity": findings.transitivity or None,
        "ties": findings.ties or None,
        "combined": combined or None,
        "groups": [
            [dict(row) | {"candidate": named.get(row["candidate"])} for row in group]
            for group in findings.groups
        ],
        # Style scores are in the standings, as `style_score`.
        "style": {k: v for k, v in findings.style.items() if k != "scores"} or None,
    }


def _values(row: BoardStanding, findings: Findings) -> dict[str, Any]:
    style = findings.style_scores.get(row.standing.candidate_id, StyleScore())
    values = {name: getattr(row.standing, name) for name in FIELDS}
    values |= {"elo_low": row.elo_low, "elo_high": row.elo_high}
    values |= {f"style_{name}": value for name, value in vars(style).items()}
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
        values = [*_values(row, findings).values(), *_about(row).values()]
        writer.writerow(escape_cells([row.name, *values]))
    return out.getvalue()


# -- A copy that computes its scores again ---------------------------------------------------------

MOST_VOTES = 100_000  # more are counted per pair: 10 MB are enough for a file
SHARES = {Outcome.LEFT: 1.0, Outcome.RIGHT: 0.0, Outcome.TIE: 0.5}


def write_copy(arena: Arena) -> str:
    """The leaderboard of all human votes as an HTML file."""
    board = read_published(arena, BoardQuery(Counted.PEOPLE.value, ""))
    snapshot = board.snapshot
    collecting = wording.collecting(snapshot, {})
    rows = [row for row in board.standings if row.rank is not None and not collecting]
    votes = read_votes(arena, snapshot) if snapshot else []
    data = {
        "center": 1000,
        "scale": 400,
        "candidates": [[row.candidate_id, row.score] for row in rows],
        "votes": votes,
    }
    head = links.head(arena.pk)
    script = render_to_string("ranking/copy.js").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    context = {
        "arena": arena,
        "snapshot": snapshot,
        "rows": rows,
        "collecting": collecting,
        "demo": demo_notice(arena, snapshot),
        "is_counted": snapshot is not None and snapshot.n_votes > MOST_VOTES,
        "data": data,
        "head": json.dumps(head, indent=2) if head else "",
        # With its tag: white space that a formatter puts around it would change the digest.
        "script": mark_safe(f"<script>{script}</script>"),  # noqa: S308
        "digest": digest,
        "address": f"{settings.SITE_URL}{board.address()}",
    }
    return render_to_string("ranking/copy.html", context)


def read_votes(arena: Arena, snapshot: Snapshot) -> list[list[Any]]:
    """Rows of left id, right id, share of the left answer, weight, and rater; None for many."""
    shares: dict[Any, float] = dict(SHARES)
    if snapshot.settings.get("both_bad") == "tie":
        shares[Outcome.BOTH_BAD] = 0.5
    weights = {int(rater): weight for rater, weight in snapshot.findings.get("capped", [])}
    votes = arena.votes.live().filter(cast_by(Counted.PEOPLE.value), outcome__in=shares)
    if snapshot.n_votes <= MOST_VOTES:
        return list(_single(votes, shares, weights))
    names = ("comparison__left", "comparison__right", "outcome", "preference")
    counted = votes.exclude(rater__in=weights).order_by().values_list(*names)
    rows = [
        [left, right, _share(shares, *verdict), n, None]
        for left, right, *verdict, n in counted.annotate(n=Count("pk"))
    ]
    capped = votes.filter(rater__in=weights).order_by().values_list(*names, "rater")
    return rows + [
        [left, right, _share(shares, *verdict), n * weights[rater], None]
        for left, right, *verdict, rater, n in capped.annotate(n=Count("pk"))
    ]


def _single(votes: Any, shares: dict[Any, float], weights: dict[int, float]) -> Iterator[list[Any]]:
    names: dict[int, str] = {}
    fields = ("arena", "outcome", "preference", "rater__kind")
    sides = ("comparison__left", "comparison__right")
    for vote in one_by_one(votes.select_related("comparison", "rater").only(*fields, *sides)):
        rater, pair = vote.rater_id, vote.comparison
        if rater not in names:
            names[rater] = rater_name(vote)
        share = _share(shares, vote.outcome, vote.preference)
        yield [pair.left_id, pair.right_id, share, weights.get(rater, 1), names[rater]]


def _share(shares: dict[Any, float], outcome: str, preference: float | None) -> float:
    """The left answer's share of a vote, which may be soft."""
    return shares[outcome] if preference is None or outcome == Outcome.BOTH_BAD else preference


# -- Prompts as test sets --------------------------------------------------------------------------

PROMPTFOO = dict.fromkeys(("description", "vars", "assert", "metadata"), "object")
LANGFUSE = dict.fromkeys(("id", "input", "expectedOutput", "metadata", "status"), "object")


def promptfoo_tests(arena: Arena, actor: object) -> Iterator[Row]:
    """Yield a test for each prompt that is not archived; `actor` may read them all."""
    for prompt in _prompts(arena):
        if prompt.retired_at is None:
            metadata = {"category": prompt.category} if prompt.category else {}
            yield {
                "description": prompt.external_id,
                "vars": _variables(prompt),
                "assert": _assertions(prompt),
                "metadata": metadata,
            }


def langfuse_items(arena: Arena, actor: object) -> Iterator[Row]:
    """Yield an item of a dataset for each prompt; `actor` may read them all."""
    for prompt in _prompts(arena):
        yield {
            "id": prompt.external_id,
            "input": {"messages": prompt.messages} if prompt.messages else prompt.text,
            "expectedOutput": prompt.reference or None,
            "metadata": filled({"category": prompt.category, "rubric": prompt.rubric}) or None,
            "status": "ACTIVE" if prompt.retired_at is None else "ARCHIVED",
        }


def _prompts(arena: Arena) -> Iterator[Prompt]:
    return one_by_one(arena.prompts.revealed().defer("html"))


def _variables(prompt: Prompt) -> dict[str, str]:
    """The prompt's variables, and `prompt`, its text, unless the variables contain all of it."""
    variables: dict[str, str] = dict(prompt.variables)
    made = "\n".join(f"{name}: {value}" for name, value in variables.items())
    if prompt.messages:
        return variables | {"prompt": json.dumps(prompt.messages, ensure_ascii=False)}
    is_known = prompt.text in (*variables.values(), made)
    return variables if is_known else variables | {"prompt": prompt.text}


def _assertions(prompt: Prompt) -> list[dict[str, Any]]:
    """The rubric, with its lines that were assertions as such again, and what is left of the
    reference."""
    checks: list[dict[str, Any]] = []
    lines = [(read_check(line), line) for line in prompt.rubric.split("\n")]
    for is_check, group in groupby(lines, lambda pair: pair[0] is not None):
        pairs = list(group)
        if is_check:
            checks += [check for check, _ in pairs if check]
        elif any(line.strip() for _, line in pairs):
            checks.append({"type": "llm-rubric", "value": "\n".join(line for _, line in pairs)})
    # What must be equal or similar is part of the reference.
    rest, place = prompt.reference, 0
    for number, check in enumerate(checks, start=1):
        value = written(check.get("value", ""))
        if check["type"] not in ("equals", "similar") or not value:
            continue
        if rest == value or rest.startswith(f"{value}\n\n"):
            rest, place = rest[len(value) + 2 :], number
        else:
            rest = rest.removesuffix(f"\n\n{value}")
    if rest.strip():
        checks.insert(place, {"type": "factuality", "value": rest})
    return checks


EXPORTS = {
    "promptfoo-tests": Export(PROMPTFOO, promptfoo_tests, ("jsonl",)),
    "langfuse-items": Export(LANGFUSE, langfuse_items, ("jsonl", "csv")),
}
