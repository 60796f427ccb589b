"""Ringside's own format: JSON Lines of prompts, candidates, responses and votes.

A folder holds `prompts.jsonl`, `candidates.jsonl`, `responses.jsonl` and any number of
`*votes*.jsonl`; each file may also be named by itself. In a vote `a` is left and `b` is right.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from arena.importers.base import (
    DETAILS_LIMIT,
    KINDS,
    LINE_LIMIT,
    TEXT_LIMIT,
    BadRow,
    CandidateRecord,
    FileProblem,
    Lines,
    PromptRecord,
    Record,
    ResponseRecord,
    Row,
    SourceFile,
    VoteRecord,
    checked_details,
    checked_name,
    checked_outcome,
    checked_text,
    checked_time,
    checked_variables,
    kind_of,
    shown,
)
from arena.importers.formats import json_object

SUFFIXES = (".jsonl", ".ndjson")
Fields = dict[str, Any]


class NativeImporter:
    name = "native"

    def files(self, path: Path) -> list[SourceFile]:
        """Return the JSON Lines files of a folder, or the one file."""
        found = sorted(path.iterdir()) if path.is_dir() else [path]
        if path.is_dir():
            found = [file for file in found if ".rejects." not in file.name]
        kinds = [(file, _kind(file)) for file in found if file.suffix.lower() in SUFFIXES]
        return [SourceFile(file, kind, self) for file, kind in kinds if kind]

    def preamble(self, path: Path) -> int:
        return 0

    def rows(self, file: SourceFile) -> Iterator[Row]:
        """Yield one row for each line that is not blank; its number is that of the line."""
        with file.path.open("rb") as stream:
            lines = Lines(stream)
            start = 0
            for line in lines:
                blank = not line.strip(b"\xef\xbb\xbf \t\r\n")
                if not blank:
                    record = _record(line, file.kind, too_long=lines.take_too_long())
                    yield Row(lines.number, lines.number, start, lines.end, record)
                start = lines.end


def _kind(path: Path) -> str | None:
    stem = path.name.lower().split(".")[0]
    if stem in KINDS:
        return stem
    return "votes" if "votes" in path.name.lower() else None


def _record(line: bytes, kind: str, *, too_long: bool) -> Record | BadRow:
    try:
        if too_long:
            limits = f"{LINE_LIMIT:,} bytes; one text may have {TEXT_LIMIT:,}"
            raise BadRow(None, f"is longer than {limits}")
        return PARSERS[kind](_fields(line), len(line))
    except BadRow as bad:
        return bad


def _fields(line: bytes) -> Fields:
    try:
        return json_object(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadRow(None, f"is not valid UTF-8 (byte {error.start + 1} of the line)") from None


# -- One parser for each kind of file ------------------------------------------------------------


def _prompt(fields: Fields, size: int) -> PromptRecord:
    return PromptRecord(
        external_id=checked_name(_needed(fields, "id"), "id"),
        category=_name(fields, "category", limit=100),
        text=checked_text(_needed(fields, "text"), "text"),
        reference=_text(fields, "reference"),
        rubric=_text(fields, "rubric"),
        variables=checked_variables(fields.get("variables"), "variables"),
        retired=_flag(fields, "retired"),
    )


def _candidate(fields: Fields, size: int) -> CandidateRecord:
    return CandidateRecord(
        name=checked_name(_needed(fields, "name"), "name"),
        model=_name(fields, "model"),
        variant=_name(fields, "variant"),
        system_prompt=_text(fields, "system_prompt"),
        user_template=_text(fields, "user_template"),
        notes=_text(fields, "notes"),
        parameters=_parameters(fields),
        retired=_flag(fields, "retired"),
    )


def _response(fields: Fields, size: int) -> ResponseRecord:
    return ResponseRecord(
        candidate=checked_name(_needed(fields, "candidate"), "candidate"),
        prompt=checked_name(_needed(fields, "prompt"), "prompt"),
        text=checked_text(_needed(fields, "text"), "text"),
    )


def _vote(fields: Fields, size: int) -> VoteRecord:
    left = checked_name(_needed(fields, "a", take=True), "a")
    right = checked_name(_needed(fields, "b", take=True), "b")
    prompt = checked_name(fields.pop("prompt", None) or "", "prompt", required=False) or None
    preference = _preference(fields)
    outcome = _outcome(fields, preference)
    kind, rater = _rater(fields)
    cast_at = checked_time(fields.pop("cast_at", None), "cast_at")
    return VoteRecord(
        left=left,
        right=right,
        outcome=outcome,
        prompt=prompt,
        preference=preference,
        rater=rater,
        rater_kind=kind,
        cast_at=cast_at,
        details=checked_details(fields, size),
    )


PARSERS: dict[str, Callable[[Fields, int], Record]] = {
    "prompts": _prompt,
    "candidates": _candidate,
    "responses": _response,
    "votes": _vote,
}


def _preference(fields: Fields) -> float | None:
    """Take the soft verdict, as the preference for the left answer."""
    given = {name: fields.pop(name, None) for name in ("preference_a", "preference_b")}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) == 2:
        raise BadRow("preference_b", "stands beside preference_a; give one of the two")
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadRow(name, f"is {kind_of(value)}, not a number from 0 to 1")
        if not 0 <= value <= 1:
            raise BadRow(name, f"is {shown(value)}, not a number from 0 to 1")
        return float(value) if name == "preference_a" else 1.0 - value
    return None


def _outcome(fields: Fields, preference: float | None) -> str:
    """Take the outcome; where there is none, it is the side that the preference leans to."""
    given = fields.pop("outcome", None)
    if given is None and preference is None:
        raise BadRow("outcome", "is missing, and so is preference_b")
    leans = _leans(preference)
    outcome = leans if given is None else checked_outcome(given, "outcome")
    if {outcome, leans} == {"left", "right"}:
        raise BadRow("outcome", f"is {outcome}, but the preference leans to {leans}")
    return outcome


def _leans(preference: float | None) -> str:
    if preference is None or preference == 0.5:
        return "tie"
    return "left" if preference > 0.5 else "right"


def _rater(fields: Fields) -> tuple[str, str]:
    """Take the rater's kind and name: `judge` names a judge, `rater` a person or a `kind`."""
    if fields.get("judge") not in (None, ""):
        if fields.get("rater") not in (None, ""):
            raise BadRow("rater", "stands beside judge; a vote has one rater")
        fields.pop("rater", None)
        kind, column = "judge", "judge"
    else:
        fields.pop("judge", None)
        kind, column = "person", "rater"
    kind = fields.pop("kind", None) or kind
    if kind not in ("person", "judge", "jury"):
        raise BadRow("kind", f"is {shown(kind)}, which is none of person, judge and jury")
    name = fields.pop(column, None)
    return kind, checked_name("" if name is None else name, column, required=False)


# -- Fields of a line ----------------------------------------------------------------------------


def _needed(fields: Fields, name: str, *, take: bool = False) -> Any:
    if name not in fields:
        raise BadRow(name, "is missing")
    return fields.pop(name) if take else fields[name]


def _name(fields: Fields, name: str, limit: int = 200) -> str:
    value = fields.get(name)
    return checked_name("" if value is None else value, name, limit=limit, required=False)


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    return "" if value is None else checked_text(value, name)


def _flag(fields: Fields, name: str) -> bool:
    value = fields.get(name) or False
    if not isinstance(value, bool):
        raise BadRow(name, f"is {kind_of(value)}, not true or false")
    return value


def _parameters(fields: Fields) -> dict[str, Any]:
    value = fields.get("parameters")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRow("parameters", f"is {kind_of(value)}, not an object")
    if (size := len(json.dumps(value))) > DETAILS_LIMIT:
        raise BadRow("parameters", f"are {size:,} bytes long; the limit is {DETAILS_LIMIT:,}")
    return checked_details(value, 0)


def no_known_file(path: Path) -> FileProblem:
    """Say which names a file or a folder of this format must have."""
    names = "prompts.jsonl, candidates.jsonl, responses.jsonl or *votes*.jsonl"
    if path.is_dir():
        return FileProblem(f"The folder {path} has no {names}.")
    return FileProblem(f"{path}: a file of the native format is named {names}.")
