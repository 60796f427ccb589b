"""A file of votes, ranked without a database: the leaderboard as JSON, and as a table."""

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

from arena.validation import join_names, numbered, quoted
from ranking.anchor import scale_sentence
from ranking.claim_words import claim_sentence
from ranking.leaderboard import CrossCheckError, Leaderboard, RankedCandidate, leaderboard
from ranking.question import Evidence, Question
from ranking.stats.bradley_terry import NotConvergedError
from ranking.stats.claim import Claim, claim
from ranking.stats.intervals import MIN_CLUSTERS, capped_note
from ranking.stats.robustness import Stability
from ranking.votes import PEOPLE, RATERS, BadFileError, VoteTable

MOST_CANDIDATES = 5_000  # minutes, and over 2 GB; the time grows with the cube
MOST_NAMED = 10
DIGITS = 6
NONE = "-"
SETTINGS = (
    "method",
    "scale",
    "center",
    "both_bad",
    "clusters",
    "clusters_note",
    "n_clusters",
    "effective",
    "interval",
    "confidence",
    "n_resamples",
    "seed",
)
RULES = {
    "prompt_rater": "Votes on {same} or by the same rater are treated as dependent",
    "prompt": "Votes on {same} are treated as dependent",
    "prompt_pair": "Votes on the same prompt and the same two candidates are treated as dependent",
    "rater": "Votes by the same rater are treated as dependent",
    "vote": "All votes are treated as independent",
}
HEAD = ("rank", "candidate", "score", "interval", "ranks", "votes")
LEFT_ALIGNED = "candidate"


@dataclass(frozen=True, eq=False)
class RankedFile:
    """The leaderboard of a file's votes; `n_left_out`: votes by other kinds of raters."""

    made: Leaderboard
    question: Question
    names: dict[int, str]
    n_left_out: int

    @cached_property
    def rows(self) -> list[RankedCandidate]:
        """The placed candidates from the top, then the others by name."""
        return sorted(
            self.made.rows, key=lambda row: (row.rank is None, row.rank or 0, row.candidate_id)
        )

    def name(self, candidate: int | None) -> str | None:
        return None if candidate is None else self.names[candidate]


def rank_votes(path: Path, votes: VoteTable, question: Question) -> RankedFile:
    """Rank the file's votes by the raters of the question; "auto" is people, or judges or juries
    if no person has voted.

    Raises BadFileError if a column for the clusters is missing, for too many candidates, if none of
    them has voted, or if the fit does not converge.
    """
    if len(votes.names) > MOST_CANDIDATES:
        raise BadFileError(
            f"{len(votes.names):,} candidates are too many: intervals and ranks can be computed "
            f"for at most {MOST_CANDIDATES:,}."
        )
    question, n_left_out = chosen_question(path, votes, question)
    try:
        made = leaderboard(votes, question)
    except (NotConvergedError, CrossCheckError) as problem:
        raise BadFileError(str(problem)) from None
    return RankedFile(made, question, dict(votes.names), n_left_out)


def chosen_question(path: Path, votes: VoteTable, question: Question) -> tuple[Question, int]:
    """The question with raters in place of "auto", and how many votes of others are left out.

    Raises BadFileError if none of them has voted.
    """
    cast = {raters: int(votes.counted.asked(raters, "").sum()) for raters in RATERS}
    raters = question.raters
    if raters == "auto":
        raters = next((raters for raters, n in cast.items() if n), PEOPLE)
    if not cast[raters]:
        raise BadFileError(f"{path} has no votes by {raters}.")
    return replace(question, raters=raters), sum(cast.values()) - cast[raters]


@dataclass(frozen=True)
class ComparedTwo:
    """What the votes of a file say of B, compared with A."""

    claim: Claim
    b: str
    a: str
    raters: str

    @property
    def sentence(self) -> str:
        return claim_sentence(self.claim, self.b, self.a, raters=self.raters)

    @property
    def json(self) -> str:
        found = {
            "candidate": self.b,
            "baseline": self.a,
            "raters": self.raters,
            "sentence": self.sentence,
            "claim": self.claim.json,
        }
        return json.dumps(found, ensure_ascii=False, allow_nan=False, indent=1)


def find_candidate(votes: VoteTable, name: str) -> int:
    """The candidate's id. Raises BadFileError for an unknown name."""
    ids = {known: pk for pk, known in votes.names.items()}
    if name not in ids:
        names = join_names([quoted(known) for known in sorted(ids)], MOST_NAMED)
        raise BadFileError(f"There is no candidate {quoted(name)}. Choose from: {names}.")
    return ids[name]


def compare_two(
    path: Path,
    votes: VoteTable,
    question: Question,
    b: str,
    a: str,
    margin: float | None = None,
) -> ComparedTwo:
    """Say whether candidate `b` is better than `a`. Raises BadFileError for unknown names, and if
    none of the raters has voted."""
    ids = [find_candidate(votes, name) for name in (b, a)]
    if a == b:
        raise BadFileError("Compare two different candidates.")
    question, _ = chosen_question(path, votes, question)
    found = claim(Evidence.of(votes, question).between(*ids), margin=margin)
    return ComparedTwo(found, b, a, question.raters)


def rounded(value: float | None) -> float | None:
    """A number for output."""
    return None if value is None or isnan(value) else round(float(value), DIGITS)


def as_json(ranked: RankedFile) -> str:
    """One JSON object; null is unknown, with a reason next to it."""
    made, found, settings = ranked.made, ranked.made.findings, ranked.made.settings
    agreement = found["agreement"]
    fragility = found["fragility"] or {"of": 0, "words": Stability.NO_SCORE.reason}
    result = {
        "standings": [_standing(ranked, row) | {"elo": rounded(row.elo)} for row in ranked.rows],
        "n_votes": made.fields["n_votes"],
        "n_both_bad": made.fields["n_both_bad"],
        "n_left_out": ranked.n_left_out,
        "interval_reason": made.fields["interval_reason"],
        "clear_leader": ranked.name(found["leader"]),
        "ahead": ranked.name(found["ahead"]),
        "possible_leaders": [ranked.name(pk) for pk in found["possible"]],
        "neighbours": [
            pair | {"upper": ranked.name(pair["upper"]), "lower": ranked.name(pair["lower"])}
            for pair in found["neighbours"]
        ],
        "fragility": {name: fragility.get(name) for name in ("votes", "of", "words")}
        | {"rival": ranked.name(fragility.get("rival"))},
        "agreement": agreement and _rounded(agreement),
        "transitivity": _rounded(found["transitivity"]),
        "groups": [
            [_rounded(place | {"candidate": ranked.name(place["candidate"])}) for place in group]
            for group in found["groups"]
        ],
        "choix_difference": made.fields["choix_difference"],
        "log_likelihood": rounded(made.model.log_likelihood_),
        "settings": {name: settings[name] for name in SETTINGS}
        | {
            "anchor": settings["anchor"]
            and settings["anchor"] | {"candidate": ranked.name(settings["anchor"]["candidate"])},
            "raters": ranked.question.raters,
            "capped_note": capped_note(settings["capped_raters"], settings["capped_at"]),
            "standard_error": "of the interval"
            if ranked.question.cluster == "auto"
            else "cluster-robust sandwich",
        },
    }
    return json.dumps(result, ensure_ascii=False, allow_nan=False, indent=1)


def _rounded(found: dict[str, Any]) -> dict[str, Any]:
    return {k: rounded(v) if isinstance(v, float) else v for k, v in found.items()}


def _standing(ranked: RankedFile, row: RankedCandidate) -> dict[str, Any]:
    return {
        "rank": _whole(row.rank),
        "candidate": ranked.names[row.candidate_id],
        "score": rounded(row.score),
        "low": rounded(row.low),
        "high": rounded(row.high),
        "se": rounded(row.standard_error),
        "rank_low": _whole(row.rank_low),
        "rank_high": _whole(row.rank_high),
        "sure_rank_low": _whole(row.sure_rank_low),
        "sure_rank_high": _whole(row.sure_rank_high),
        "votes": row.votes,
        "status": row.status,
        "reason": row.reason,
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def as_table(ranked: RankedFile) -> str:
    """A table of the placed candidates, and a line for each further finding."""
    placed = [row for row in ranked.rows if row.rank is not None]
    rows = [HEAD, *(_table_row(ranked, row) for row in placed)] if placed else []
    return "\n".join([*_align_columns(rows), *([""] if rows else []), *_finding_sentences(ranked)])


def _table_row(ranked: RankedFile, row: RankedCandidate) -> tuple[str, ...]:
    return (
        str(_whole(row.rank)),
        ranked.names[row.candidate_id],
        NONE if row.score is None else f"{row.score:.1f}",
        _span(row.low, row.high, ".1f"),
        _span(_whole(row.rank_low), _whole(row.rank_high), "d"),
        f"{row.votes:,}",
    )


def _span(low: float | None, high: float | None, style: str) -> str:
    if low is None or high is None:
        return NONE if low is high else f"< {high:{style}}" if low is None else f"> {low:{style}}"
    return f"{low:{style}} to {high:{style}}" if low != high else f"{low:{style}}"


def _align_columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(_shown_width, column)) for column in zip(*rows, strict=True)]
    lines = [map(_pad, HEAD, row, widths) for row in rows]
    return ["  ".join(line).rstrip() for line in lines]


def _pad(column: str, text: str, width: int) -> str:
    blank = " " * (width - _shown_width(text))
    return text + blank if column == LEFT_ALIGNED else blank + text


def _shown_width(text: str) -> int:
    """The width in terminal columns: accents take none, East Asian characters two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _finding_sentences(ranked: RankedFile) -> Iterator[str]:
    made, found, settings = ranked.made, ranked.made.findings, ranked.made.settings
    yield _vote_counts(ranked)
    n_groups = settings["n_clusters"]
    same = "prompts of the same document" if settings["documents"] else "the same prompt"
    rule = RULES[settings["clusters"]].format(same=same)
    rule += f" ({n_groups:,} group{'' if n_groups == 1 else 's'})."
    note = capped_note(settings["capped_raters"], settings["capped_at"])
    yield " ".join(filter(None, [rule, settings["clusters_note"], note]))
    if scale := scale_sentence(settings, ranked.names):
        yield scale
    scored = [row for row in ranked.rows if row.score is not None]
    if reason := made.fields["interval_reason"]:
        yield f"No intervals: {reason}"
    elif any(row.low is None for row in scored):
        yield f"{NONE}: no interval, because it has fewer than {MIN_CLUSTERS} groups of votes."
    yield f"Clear leader, at every look: {ranked.name(found['leader']) or 'none'}."
    if found["ahead"] and not found["leader"]:
        yield f"Ahead for now, at this count: {ranked.name(found['ahead'])}."
    if found["fragility"] and scored:
        words = found["fragility"]["words"]
        yield words if words.endswith(".") else f"{words}."
    for row in ranked.rows:
        if row.reason:
            apart = row.rank is None
            name = ranked.names[row.candidate_id]
            yield f"{'Not ranked' if apart else 'No score'}: {name}. {row.reason}"
    for group in found["groups"]:
        scores = ", ".join(f"{ranked.name(one['candidate'])} {one['score']:.1f}" for one in group)
        yield f"A group with scores of its own, which cannot be compared with others: {scores}."


def _vote_counts(ranked: RankedFile) -> str:
    n, n_both_bad = ranked.made.fields["n_votes"], ranked.made.fields["n_both_bad"]
    parts = [f"{n:,} vote{'' if n == 1 else 's'} by {ranked.question.raters}"]
    if n_both_bad:
        parts.append(f'{n_both_bad:,} more "both bad", which do not affect the scores')
    if ranked.n_left_out:
        parts.append(f"{numbered(ranked.n_left_out, 'vote')} by other raters left out")
    return "; ".join(parts) + "."
