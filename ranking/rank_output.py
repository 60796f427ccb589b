"""Output of a ranked file: JSON for programs, a plain-text table for people."""

import json
import math
import unicodedata
from collections.abc import Iterator
from typing import Any

from ranking.rank_file import FileBoard, FileVotes, elo, find, rounded
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.intervals import MIN_CLUSTERS, NoInterval

NONE = "-"
RULES = {
    "prompt": "Votes on the same prompt are treated as dependent",
    "prompt_pair": "Votes on the same prompt and the same two candidates are treated as dependent",
    "rater": "Votes by the same rater are treated as dependent",
    "vote": "All votes are treated as independent",
}
HEAD = ("rank", "candidate", "score", "interval", "ranks", "votes")
LEFT_ALIGNED = "candidate"


def as_json(board: FileBoard) -> str:
    """One JSON object; null is unknown, with a reason next to it."""
    ratings = elo(board.votes)
    result = {
        "standings": [_standing(board, i) | {"elo": ratings[i]} for i in _order(board)],
        "n_votes": len(board.votes.score),
        "n_both_bad": board.votes.n_both_bad,
        "n_left_out": board.votes.n_left_out,
        "interval_reason": _interval_reason(board),
        **find(board),
        "choix_difference": board.choix_difference,
        "log_likelihood": rounded(board.bootstrap.model_.log_likelihood_),
        "settings": _settings(board),
    }
    return json.dumps(result, ensure_ascii=False, allow_nan=False, indent=1)


def _order(board: FileBoard) -> list[int]:
    """The places of the candidates: the ranked from the top, then the others by name."""
    scores = board.bootstrap.ratings_
    return sorted(range(len(scores)), key=lambda i: (math.isnan(scores[i]), -scores[i], i))


def _rank(board: FileBoard, i: int) -> int | None:
    """1 + the number of higher scores; None for the unranked."""
    scores = board.bootstrap.ratings_
    return None if math.isnan(scores[i]) else 1 + int((scores > scores[i]).sum())


def _standing(board: FileBoard, i: int) -> dict[str, Any]:
    status = board.bootstrap.model_.status_[i]
    has_interval = bool(board.measured[i])
    return {
        "rank": _rank(board, i),
        "candidate": board.votes.names[i],
        "score": rounded(board.bootstrap.ratings_[i]),
        "low": rounded(board.bootstrap.low_[i]) if has_interval else None,
        "high": rounded(board.bootstrap.high_[i]) if has_interval else None,
        "se": rounded(board.sandwich.standard_errors_[i]) if has_interval else None,
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


def _interval_reason(board: FileBoard) -> str:
    reason = board.bootstrap.reason_
    if reason is None and not (board.measured & board.bootstrap.model_.ranked_).any():
        reason = NoInterval.FEW_CLUSTERS
    return reason.reason if reason else ""


def _settings(board: FileBoard) -> dict[str, Any]:
    settings = board.settings
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
        "confidence": settings.confidence,
        "n_resamples": settings.n_resamples,
        "seed": settings.seed,
    }


def _note(board: FileBoard) -> str:
    """Why the default rule chose these clusters; '' if the user has chosen."""
    return board.clusters.note if board.settings.cluster == "auto" else ""


def as_table(board: FileBoard) -> str:
    """Aligned columns of the ranked, and a line for whatever else a reader must know."""
    ranked = [i for i in _order(board) if board.bootstrap.model_.ranked_[i]]
    rows = [HEAD, *(_table_row(board, i) for i in ranked)] if ranked else []
    return "\n".join([*_align(rows), *([""] if rows else []), *_sentences(board)])


def _table_row(board: FileBoard, i: int) -> tuple[str, ...]:
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


def _align(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(HEAD, row, widths, strict=True)
        lines.append("  ".join(_pad(*cell) for cell in cells).rstrip())
    return lines


def _pad(column: str, text: str, width: int) -> str:
    blank = " " * (width - _width(text))
    return text + blank if column == LEFT_ALIGNED else blank + text


def _width(text: str) -> int:
    """Columns on a terminal: accents take none, East Asian characters two."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _sentences(board: FileBoard) -> Iterator[str]:
    yield _vote_counts(board.votes)
    n_groups = board.bootstrap.n_clusters_
    rule = f"{RULES[board.clusters.rule]} ({n_groups:,} group{'' if n_groups == 1 else 's'})."
    yield " ".join(filter(None, [rule, _note(board)]))
    if reason := _interval_reason(board):
        yield f"No intervals: {reason}"
    elif (board.bootstrap.model_.ranked_ & ~board.measured).any():
        yield f"{NONE}: no interval, fewer than {MIN_CLUSTERS} groups of its own votes."
    yield f"Clear number one: {board.name(board.leader) or 'none'}."
    words = board.fragility.words
    yield words if words.endswith(".") else f"{words}."
    for i in _order(board):
        if reason := board.bootstrap.model_.status_[i].reason:
            yield f"Not ranked: {board.votes.names[i]}. {reason}"


def _vote_counts(votes: FileVotes) -> str:
    n = len(votes.score)
    parts = [f"{n:,} vote{'' if n == 1 else 's'} by {votes.raters}"]
    if votes.n_both_bad:
        parts.append(f'{votes.n_both_bad:,} more "both bad", which do not affect the scores')
    if votes.n_left_out:
        parts.append(f"{votes.n_left_out:,} votes by other raters left out")
    return "; ".join(parts) + "."
