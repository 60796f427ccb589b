"""What every importer stands on: the records it yields, the files it reads, the checks of texts.

An importer turns one kind of file into records and knows no database. A row that cannot be used
is yielded as a `BadRow` in its place, with the column and a reason for people; a file that cannot
be used at all raises `FileProblem`.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol

TEXT_LIMIT = 1_000_000
LINE_LIMIT = 16_000_000
DETAILS_LIMIT = 100_000
DETAILS_DEPTH = 20
VARIABLE_LIMIT = 100
MOST_VARIABLES = 100
OUTCOMES = ("left", "right", "tie", "both_bad")

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class FileProblem(Exception):
    """A file or folder that cannot be imported; the message is a sentence for people."""


class BadRow(Exception):
    """A row that cannot be imported: which column, if one is to blame, and why."""

    def __init__(self, column: str | None, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


@dataclass(slots=True)
class PromptRecord:
    external_id: str
    category: str
    text: str
    reference: str
    rubric: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    retired: bool = False


@dataclass(slots=True)
class CandidateRecord:
    name: str
    model: str
    variant: str
    system_prompt: str
    user_template: str
    notes: str
    parameters: dict[str, Any]
    retired: bool = False


@dataclass(slots=True)
class ResponseRecord:
    candidate: str
    prompt: str
    text: str


@dataclass(slots=True)
class VoteRecord:
    """One vote. `makes_names`: candidates and prompts it names are made when they are new."""

    left: str
    right: str
    outcome: str
    prompt: str | None = None
    preference: float | None = None
    rater: str = ""
    rater_kind: str = "person"
    cast_at: datetime | None = None
    details: dict[str, Any] = field(default_factory=dict)
    makes_names: bool = False


Record = PromptRecord | CandidateRecord | ResponseRecord | VoteRecord
KINDS = ("prompts", "candidates", "responses", "votes")


@dataclass(slots=True)
class Row:
    """One row of a file: its number, its line, its bytes [start, end), and what it says."""

    number: int
    line: int
    start: int
    end: int
    record: Record | BadRow


@dataclass(frozen=True)
class SourceFile:
    """A file that an importer will read; `kind` (one of KINDS) says what its rows are."""

    path: Path
    kind: str
    importer: "Importer"


class Importer(Protocol):
    """One format. To add one, copy `pairs.py` and name the copy in `arena/importers/__init__`."""

    name: str

    def files(self, path: Path) -> list[SourceFile]:
        """Return the files at `path` (a file or a folder) that are in this format."""

    def preamble(self, path: Path) -> int:
        """Return how many bytes at the start are a header, to stand above rejected rows too."""

    def rows(self, file: SourceFile) -> Iterator[Row]:
        """Yield every row of `file`, good or bad, in the order of the file."""


class Lines:
    """The physical lines of a binary file, with the number and the place of the last one.

    A line over LINE_LIMIT is cut there and flagged, so that no line can fill the memory.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.number = 0
        self.end = 0
        self.too_long = False

    def __iter__(self) -> Iterator[bytes]:
        while line := self.stream.readline(LINE_LIMIT):
            self.number += 1
            self.end += len(line)
            if len(line) == LINE_LIMIT and not line.endswith(b"\n"):
                self._skip_rest()
            yield line

    def _skip_rest(self) -> None:
        self.too_long = True
        while rest := self.stream.readline(LINE_LIMIT):
            self.end += len(rest)
            if rest.endswith(b"\n"):
                return

    def take_too_long(self) -> bool:
        """Say whether a line since the last question was too long."""
        flag, self.too_long = self.too_long, False
        return flag


# -- Checks of single values ---------------------------------------------------------------------


def checked_text(value: Any, column: str, *, limit: int = TEXT_LIMIT) -> str:
    """Return `value` as it is, if it is text that can be stored; else raise BadRow."""
    if not isinstance(value, str):
        raise BadRow(column, f"is {kind_of(value)}, not text")
    if len(value) * 4 > limit and (size := len(value.encode(errors="replace"))) > limit:
        raise BadRow(column, f"is {size:,} bytes long; the limit is {limit:,}")
    if "\0" in value:
        raise BadRow(column, "contains a NUL byte, which cannot be stored")
    if _SURROGATE.search(value):
        raise BadRow(column, "is not valid Unicode text (UTF-8)")
    return value


def checked_name(value: Any, column: str, *, limit: int = 200, required: bool = True) -> str:
    """Return a name or id: one line, at most `limit` characters; a number is taken as text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise BadRow(column, f"is {kind_of(value)}, not a name")
    return _checked_name(value, column, limit, required)


@lru_cache(maxsize=20_000)
def _checked_name(value: str, column: str, limit: int, required: bool) -> str:
    name = value.strip()
    if required and not name:
        raise BadRow(column, "is empty")
    if len(name) > limit:
        raise BadRow(column, f"is {len(name):,} characters long; the limit is {limit}")
    checked_text(name, column)
    if _CONTROL.search(name):
        raise BadRow(column, "contains a line break or another control character")
    return name


def is_variable(name: str) -> bool:
    """May a prompt's variable have this name? `prompt` is the prompt's own text."""
    return name.isidentifier() and name != "prompt" and len(name) <= VARIABLE_LIMIT


def checked_variables(value: Any, column: str) -> dict[str, str]:
    """Return a prompt's variables: an object of names and texts; None is none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRow(column, f"is {kind_of(value)}, not an object of names and texts")
    check_how_many(value, column)
    for name, text in value.items():
        if not is_variable(name):
            raise BadRow(
                column,
                f"has {shown(name)}, which is not one word of letters, digits and underscores "
                "other than prompt",
            )
        checked_text(text, name)
    return value


def check_how_many(variables: Collection[str], column: str | None) -> None:
    """Raise BadRow for more variables than a prompt may have."""
    if len(variables) > MOST_VARIABLES:
        count = f"has {len(variables):,} variables"
        raise BadRow(column, f"{count}; a prompt has {MOST_VARIABLES} at most")


def checked_outcome(value: Any, column: str) -> str:
    """Return one of the four outcomes, or raise BadRow that lists them."""
    outcome = value.strip().lower() if isinstance(value, str) else value
    if outcome not in OUTCOMES:
        raise BadRow(column, f"is {shown(value)}, which is none of {', '.join(OUTCOMES)}")
    return str(outcome)


def checked_time(value: Any, column: str) -> datetime | None:
    """Return an ISO 8601 time (UTC unless it says otherwise); None for nothing."""
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        reason = f"is {shown(value)}, not a time such as 2026-01-31T12:00:00Z"
        raise BadRow(column, reason) from None


def checked_details(details: dict[str, Any], size: int) -> dict[str, Any]:
    """Return what a row says besides, if the database can keep it. `size`: bytes of the row."""
    if size > DETAILS_LIMIT:
        raise BadRow(None, f"is {size:,} bytes long; the limit for a vote is {DETAILS_LIMIT:,}")
    for name, value in details.items():
        checked_text(name, shown(name))
        _check_nested(value, name)
    return details


def _check_nested(value: Any, column: str, depth: int = 0) -> None:
    if isinstance(value, str):
        checked_text(value, column)
    elif isinstance(value, dict | list):
        if depth >= DETAILS_DEPTH:
            raise BadRow(column, f"is nested more than {DETAILS_DEPTH} levels deep")
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        for item in inner:
            _check_nested(item, column, depth + 1)


def shown(value: Any) -> str:
    """Quote a value for a message: short, on one line, with nothing that a terminal obeys."""
    text = ascii(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 42 else f"{text[:38]}...{text[0]}"


def kind_of(value: Any) -> str:
    """Say in words what kind of JSON value this is."""
    words = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return words.get(type(value), "a number" if isinstance(value, int | float) else "a text")
