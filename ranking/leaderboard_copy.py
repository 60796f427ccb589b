"""A leaderboard as one HTML file that computes its scores again.

It opens without a network and checks its own scores: it has the votes, by pseudonym and without
texts, the scores as published, the head of the signed log, and a script that fits the
Bradley-Terry scores again. It loads nothing else, and its policy allows no other script.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from django.db.models import Count
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from arena.models import Arena, Outcome
from arena.site import absolute_url
from ranking import wording
from ranking.anchor import MEAN
from ranking.board_data import BoardQuery
from ranking.comparison import read_published
from ranking.exported_votes import one_by_one, rater_name
from ranking.log import links
from ranking.models import Counted, Snapshot
from ranking.scripted_raters import demo_notice
from ranking.services.votes import cast_by

MOST_VOTES = 100_000  # more are counted per pair: 10 MB are enough for a file
SHARES = {Outcome.LEFT: 1.0, Outcome.RIGHT: 0.0, Outcome.TIE: 0.5}


def write_copy(arena: Arena) -> str:
    """The leaderboard of all human votes as an HTML file."""
    board = read_published(arena, BoardQuery(Counted.PEOPLE.value, ""))
    snapshot = board.snapshot
    collecting = wording.collecting(snapshot)
    rows = [row for row in board.standings if row.rank is not None and not collecting]
    votes = read_votes(arena, snapshot) if snapshot else []
    data = {
        "center": snapshot.center if snapshot else MEAN,
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
        "address": absolute_url(board.address()),
    }
    return render_to_string("ranking/copy.html", context)


def read_votes(arena: Arena, snapshot: Snapshot) -> list[list[Any]]:
    """Rows of left id, right id, share of the left answer, weight, and rater; None for many."""
    aliases = dict(snapshot.settings.get("merged", ()))
    named = [
        [aliases.get(left, left), aliases.get(right, right), *rest]
        for left, right, *rest in _votes_as_cast(arena, snapshot)
    ]
    return [row for row in named if row[0] != row[1]]


def _votes_as_cast(arena: Arena, snapshot: Snapshot) -> list[list[Any]]:
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
