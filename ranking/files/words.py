"""A file's board in writing: JSON for programs, a plain-text table for people."""

import json
import math
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from ranking.files.board import FileBoard
from ranking.files.findings import elo, find, known
from ranking.stats import BradleyTerry, NoInterval
from ranking.stats.intervals import MIN_CLUSTERS

NONE = "-"
RULES = {
    "prompt": "Votes on the same prompt are taken as dependent",
    "prompt_pair": "Votes on the same prompt and the same two candidates are taken as dependent",
    "rater": "Votes of the same rater are taken as dependent",
    "vote": "Every vote is taken as independent of the others",
}
HEAD = ("rank", "candidate", "score", "interval", "ranks", "votes")
LEFT_ALIGNED = "candidate"


def as_json(board: FileBoard) -> str:
    """One JSON object; null is what is not known, and a reason stands beside it."""
    ratings = elo(board.votes)
    found = {
        "standings": [_standing(board, i) | {"elo": ratings[i]} for i in _order(board)],
        "n_votes": len(board.votes.score),
        "n_both_bad": board.votes.n_both_bad,
        "n_left_out": board.votes.n_left_out,
        "interval_reason": _no_interval(board),
        **find(board),
        "choix_difference": board.choix_difference,
        "log_likelihood": known(board.bootstrap.model_.log_likelihood_),
        "settings": _settings(board),
    }
    return json.dumps(found, ensure_ascii=False, allow_nan=False, indent=1)


def _order(board: FileBoard) -> list[int]:
    """Places of the candidates: the ranked from the top, then the others by name."""
    scores = board.bootstrap.ratings_
    return sorted(range(len(scores)), key=lambda i: (math.isnan(scores[i]), -scores[i], i))


def _rank(board: FileBoard, i: int) -> int | None:
    """1 and the number of those above; equal scores share a rank."""
    scores = board.bootstrap.ratings_
    return None if math.isnan(scores[i]) else 1 + int((scores > scores[i]).sum())


def _standing(board: FileBoard, i: int) -> dict[str, Any]:
    status = board.bootstrap.model_.status_[i]
    has_interval = bool(board.measured[i])
    return {
        "rank": _rank(board, i),
        "candidate": board.votes.names[i],
        "score": known(board.bootstrap.ratings_[i]),
        "low": known(board.bootstrap.low_[i]) if has_interval else None,
        "high": known(board.bootstrap.high_[i]) if has_interval else None,
        "se": known(board.sandwich.standard_errors_[i]) if has_interval else None,
        "rank_low": _whole(board.low[i]),
        "rank_high": _whole(board.high[i]),
        "sure_rank_low": _whole(board.sure_low[i]),
        "sure_rank_high": _whole(board.sure_high[i]),
        "votes": int(board.counts[i]),
        "status": status.value,
        "reason": status.reason,
    }


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _no_interval(board: FileBoard) -> str:
    reason = board.bootstrap.reason_
    if reason is None and not (board.measured & board.bootstrap.model_.ranked_).any():
        reason = NoInterval.FEW_CLUSTERS
    return reason.reason if reason else ""


def _settings(board: FileBoard) -> dict[str, Any]:
    asked = board.settings
    return {
        "method": "Bradley-Terry, a tie as half a win for each side",
        "scale": BradleyTerry.scale,
        "center": BradleyTerry.center,
        "raters": board.votes.raters,
        "both_bad": "separate",
        "clusters": board.clusters.rule,
        "clusters_note": _note(board),
        "n_clusters": board.bootstrap.n_clusters_,
        "interval": "cluster bootstrap with exponential weights",
        "standard_error": "cluster-robust sandwich",
        "confidence": asked.confidence,
        "n_resamples": asked.n_resamples,
        "seed": asked.seed,
    }


def _note(board: FileBoard) -> str:
    """Why the boards' rule chose these clusters; nothing where the user has chosen."""
    return board.clusters.note if board.settings.cluster == "auto" else ""


# -- For people ----------------------------------------------------------------------------------


def as_table(board: FileBoard) -> str:
    """Aligned columns of the ranked, and a line for whatever else a reader must know."""
    ranked = [i for i in _order(board) if board.bootstrap.model_.ranked_[i]]
    rows = [HEAD, *(_cells(board, i) for i in ranked)] if ranked else []
    return "\n".join([*_aligned(rows), *([""] if rows else []), *_sentences(board)])


def _cells(board: FileBoard, i: int) -> tuple[str, ...]:
    row = _standing(board, i)
    return (
        str(row["rank"]),
        row["candidate"],
        f"{row['score']:.1f}",
        _span(row["low"], row["high"], ".1f"),
        _span(row["rank_low"], row["rank_high"], "d"),
        f"{row['votes']:,}",
    )


def _span(low: float | None, high: float | None, style: str) -> str:
    if low is None or high is None:
        return NONE
    return f"{low:{style}} to {high:{style}}" if low != high else f"{low:{style}}"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(HEAD, row, widths, strict=True)
        lines.append("  ".join(_padded(*cell) for cell in cells).rstrip())
    return lines


def _padded(column: str, text: str, width: int) -> str:
    blank = " " * (width - _width(text))
    return text + blank if column == LEFT_ALIGNED else blank + text


def _width(text: str) -> int:
    """Columns on a terminal: accents take none, East Asian characters two."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _sentences(board: FileBoard) -> Iterator[str]:
    yield _counted(board)
    groups = board.bootstrap.n_clusters_
    rule = f"{RULES[board.clusters.rule]} ({groups:,} group{'' if groups == 1 else 's'})."
    yield " ".join(filter(None, [rule, _note(board)]))
    if reason := _no_interval(board):
        yield f"No intervals: {reason}"
    elif (board.bootstrap.model_.ranked_ & ~board.measured).any():
        yield f"{NONE}: fewer than {MIN_CLUSTERS} groups of votes of its own."
    name = None if board.leader is None else board.votes.names[board.leader]
    yield f"Clear number one: {name or 'nobody'}."
    words = board.fragility.words
    yield words if words.endswith(".") else f"{words}."
    yield from _unranked(board)


def _counted(board: FileBoard) -> str:
    votes = board.votes
    n = len(votes.score)
    parts = [f"{n:,} vote{'' if n == 1 else 's'} of {votes.raters}"]
    if votes.n_both_bad:
        parts.append(f'{votes.n_both_bad:,} more say "both bad" and enter no score')
    if votes.n_left_out:
        parts.append(f"{votes.n_left_out:,} votes of other raters are left out")
    return "; ".join(parts) + "."


def _unranked(board: FileBoard) -> Iterable[str]:
    for i in _order(board):
        if reason := board.bootstrap.model_.status_[i].reason:
            yield f"Not ranked: {board.votes.names[i]}. {reason}"
