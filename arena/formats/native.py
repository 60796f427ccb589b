"""Ringside's own format: JSON Lines of prompts, candidates, responses and votes.

A folder holds `prompts.jsonl`, `candidates.jsonl`, `responses.jsonl` and any number of
`*votes*.jsonl`; each file can also be named by itself. In a vote `a` is left and `b` is right.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from arena.conversations import answer_fields, prompt_fields, template_fields
from arena.files.reader import Row, Source, json_lines
from arena.files.rows import (
    CandidateRow,
    ImportRow,
    PromptRow,
    Provenance,
    ResponseRow,
    Schema,
    Values,
    VoteRow,
    texts_of,
)
from arena.formats.base import KINDS, check_size, parsed
from arena.outcomes import LEFT, RIGHT, outcome_of_lead
from arena.validation import InputError, clean_outcome, clean_preference, json_type, quoted

NAME = "native"
TITLE = "Ringside"
SUFFIXES = (".jsonl", ".ndjson")
repeats = False
FILES = "prompts.jsonl, candidates.jsonl, responses.jsonl and *votes*.jsonl"
RATERS = ("person", "judge", "jury")
PROMPT_COLUMNS = (
    *("text", "messages", "category", "document", "reference", "rubric", "variables"),
    *("retired", "showcased", "checks"),
)
PROMPT: Schema[PromptRow] = Schema(
    PromptRow, {"external_id": "id"} | {name: name for name in PROMPT_COLUMNS}
)
CANDIDATE: Schema[CandidateRow] = Schema(CandidateRow)
COSTS = ("tokens_in", "tokens_out", "seconds", "cost")
RESPONSE: Schema[ResponseRow] = Schema(
    ResponseRow,
    {"candidate": "candidate", "prompt_id": "prompt", "text": "text", "messages": "messages"}
    | {name: name for name in COSTS},
)
VOTE_COLUMNS = {"left": "a", "right": "b"} | {
    name: name for name in ("prompt", "document", "cast_at")
}
VOTE: Schema[VoteRow] = Schema(VoteRow, VOTE_COLUMNS | {"rater": "rater"})
JUDGE_VOTE: Schema[VoteRow] = Schema(VoteRow, VOTE_COLUMNS | {"rater": "judge"})
PROVENANCE: Schema[Provenance] = Schema(Provenance)


def sniff(path: Path) -> list[tuple[Path, str]]:
    """Return the JSON Lines files of a folder, or the one file, each with the kind of its rows."""
    paths = [path]
    if path.is_dir():
        paths = sorted(file for file in path.iterdir() if ".rejects." not in file.name)
    kinds = [(file, _kind(file)) for file in paths if file.suffix.lower() in SUFFIXES]
    return [(file, kind) for file, kind in kinds if kind]


def _kind(path: Path) -> str:
    stem = path.name.lower().split(".")[0]
    if stem in KINDS:
        return stem
    return "votes" if "votes" in path.name.lower() else ""


def preamble(path: Path) -> int:
    """JSON Lines have no header."""
    return 0


def rows(path: Path, kind: str) -> Iterator[Row]:
    """Yield one row for each line that is not blank, numbered by line."""
    return parsed(json_lines(Source.at(path)), PARSERS[kind], _KNOWN.get(kind))


def blocks(path: Path, kind: str) -> Iterator[list[Row]]:
    """Yield each row by itself."""
    return ([row] for row in rows(path, kind))


def _prompt(fields: Values, row: Row) -> PromptRow:
    prompt = PROMPT.take(fields | texts_of(fields, prompt_fields), row=row.number)
    if not prompt.external_id:
        raise InputError("is missing", "id")
    return prompt


def _candidate(fields: Values, row: Row) -> CandidateRow:
    candidate = CANDIDATE.take(fields)
    if candidate.messages is None:
        return candidate
    if candidate.system_prompt.strip() or candidate.user_template.strip():
        raise InputError("cannot be used with system_prompt or user_template", "messages")
    return replace(candidate, **template_fields(candidate.messages))


def _response(fields: Values, row: Row) -> ResponseRow:
    response = RESPONSE.take(fields | texts_of(fields, answer_fields), row=row.number)
    for name, column in ((response.candidate, "candidate"), (response.prompt_id, "prompt")):
        if not name:
            raise InputError("is missing", column)
    return response


def _vote(fields: Values, row: Row) -> VoteRow:
    """Return a vote; its further fields become its details."""
    check_size(row)
    preference = _preference(fields)
    outcome = _outcome(fields, preference)
    is_judge, kind = _rater_kind(fields)
    provenance = _provenance(fields)
    return (JUDGE_VOTE if is_judge else VOTE).take(
        fields,
        preference=preference,
        outcome=outcome,
        rater_kind=kind,
        details=fields,
        provenance=provenance,
    )


def _provenance(fields: Values) -> Provenance | None:
    """Pop what an export says about the vote's origin and state."""
    given = fields.pop("provenance", None)
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InputError(f"is {json_type(given)}, not an object", "provenance")
    try:
        provenance = PROVENANCE.parse(given)
    except InputError as error:
        raise InputError(error.reason, f"provenance.{error.column}") from None
    if provenance.rushed and provenance.uncounted is None:
        raise InputError("is missing for a rushed vote", "provenance.uncounted")
    return provenance


def _preference(fields: Values) -> float | None:
    """Pop the soft verdict; return it as the preference for the left answer."""
    a, b = fields.pop("preference_a", None), fields.pop("preference_b", None)
    if a is not None and b is not None:
        raise InputError("cannot be used with preference_a; give one or the other", "preference_b")
    if a is None and b is None:
        return None
    try:
        return clean_preference(a) if b is None else 1.0 - clean_preference(b)
    except InputError as error:
        raise InputError(error.reason, "preference_a" if b is None else "preference_b") from None


def _outcome(fields: Values, preference: float | None) -> Any:
    """Pop the outcome; if there is none, return the side that the preference leans to."""
    given = fields.pop("outcome", None)
    if preference is None:
        if given is None:
            raise InputError("is missing, and so is preference_b", "outcome")
        return given
    leans = outcome_of_lead(preference - 0.5)
    if given is None:
        return leans
    try:
        outcome = clean_outcome(given)
    except InputError as error:
        raise InputError(error.reason, "outcome") from None
    if {outcome, leans} == {LEFT, RIGHT}:
        raise InputError(f"is {outcome}, but the preference leans towards {leans}", "outcome")
    return outcome


def _rater_kind(fields: Values) -> tuple[bool, str]:
    """Pop the rater's kind; return whether `judge` (not `rater`) holds the name, and the kind."""
    is_judge = fields.get("judge") not in (None, "")
    if is_judge and fields.get("rater") not in (None, ""):
        raise InputError("cannot be used with judge; a vote has one rater", "rater")
    fields.pop("rater" if is_judge else "judge", None)
    kind = fields.pop("kind", None) or ("judge" if is_judge else "person")
    if kind not in RATERS:
        raise InputError(f"is {quoted(kind)}, which is not one of {', '.join(RATERS)}", "kind")
    return is_judge, kind


# Fields of rows; further ones of a vote are its details.
_KNOWN = {
    kind: frozenset(schema.columns.values())
    for kind, schema in (("prompts", PROMPT), ("candidates", CANDIDATE), ("responses", RESPONSE))
}
PARSERS: dict[str, Callable[[Values, Row], ImportRow]] = {
    "prompts": _prompt,
    "candidates": _candidate,
    "responses": _response,
    "votes": _vote,
}
