"""What every reader of an uploaded table stands on: the columns wanted and what came of the rows.

Nothing here knows a database. A row that cannot be used becomes a `Problem` in its place; a file
that cannot be used at all raises `UploadRefused`.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from arena.importers.base import BadRow

R = TypeVar("R")
Values = dict[str, Any]
Record = tuple[int, Values | BadRow]

AT_MOST_BYTES = 20_000_000
AT_MOST_ROWS = 10_000
AT_MOST_COLUMNS = 200
LONGEST_PROMPT = 100_000  # characters, as many as a candidate's template may have
ROWS_OF_A_SHEET = 1_048_576  # as many as a spreadsheet has, blank ones included
_GAPS = re.compile(r"[\s-]+")


class UploadRefused(Exception):
    """A file that cannot be used at all; the message is a sentence for people."""


class SeenBefore(BadRow):
    """A row that says again what row `earlier` has said."""

    def __init__(self, column: str, earlier: int) -> None:
        super().__init__(column, f"is the same as in row {earlier:,}")
        self.earlier = earlier


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a row was left out; `row` counts as the file's own program does, the header is row 1."""

    row: int
    column: str
    sentence: str


@dataclass(slots=True)
class Table(Generic[R]):
    """What was read; `notices` are sentences about the whole file that nobody should miss."""

    rows: list[R] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    encoding: str = ""
    dialect: str = ""


@dataclass(frozen=True)
class Sheet:
    """A file taken apart: its columns as written, and its records, whose keys are folded names."""

    names: Sequence[str]
    records: Iterable[Record]
    dialect: str


@dataclass(frozen=True, slots=True)
class Given:
    """One row's values by the names of the columns wanted; `others` by the names in the file."""

    row: int
    fields: Values
    others: Values


@dataclass(frozen=True)
class Columns(Generic[R]):
    """The columns that a kind of table has.

    `synonyms`: names in files, the first that is there counts; a name taken by one column is no
    longer free for the next. `needed`: of each group at least one. `parse` raises BadRow. `key`
    tells which column names a row, and as what. `takes_other` says which further columns are kept,
    and `why_not` is the sentence for those that are not. `words` name the columns to people whose
    file names them otherwise; without words nothing is said of it. `remarks` are sentences about
    rows that can go in, but may not be meant so. `things` are what a row that cannot go in has
    wrong, as people call it, and `twice` what an earlier row has done already.
    """

    synonyms: Mapping[str, tuple[str, ...]]
    needed: tuple[tuple[str, ...], ...]
    parse: Callable[[Given], R]
    key: Callable[[R], tuple[str, Hashable]]
    takes_other: Callable[[str], bool]
    why_not: str
    words: Mapping[str, str] = field(default_factory=dict)
    remarks: Callable[[Sequence[R]], list[str]] = lambda rows: []
    things: Mapping[str, str] = field(default_factory=dict)
    twice: Mapping[str, str] = field(default_factory=dict)

    def assigned(self, names: Sequence[str]) -> dict[str, str]:
        """Return the folded name in the file for each column that the file has."""
        free = {folded(name) for name in names}
        found = {}
        for column, synonyms in self.synonyms.items():
            if name := next((name for name in synonyms if name in free), ""):
                found[column] = name
                free.discard(name)
        return found

    def suffices(self, names: Sequence[str]) -> bool:
        """Does a file with these columns have the needed ones?"""
        return all(set(group) & set(self.assigned(names)) for group in self.needed)

    @property
    def usual(self) -> frozenset[str]:
        """The names that say by themselves what they are."""
        return frozenset(synonyms[0] for synonyms in self.synonyms.values())

    @property
    def accepted(self) -> str:
        """Say which names each column may have."""
        return "; ".join(_either(names) for names in self.synonyms.values())

    @property
    def wanted(self) -> str:
        """Say which columns a file must have."""
        groups = [
            [name for column in group for name in self.synonyms[column]] for group in self.needed
        ]
        columns = [f"a column {_either(names)}" for names in groups]
        return f"It needs {', and '.join(columns)}."


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def folded(name: str) -> str:
    """Return a column's name as it is compared: `Prompt ID` is `prompt_id`."""
    return _GAPS.sub("_", name.strip().casefold())


def check_names(names: Collection[str]) -> None:
    """Raise UploadRefused where there are too many columns."""
    if len(names) > AT_MOST_COLUMNS:
        raise UploadRefused(
            f"The file has {len(names):,} columns; at most {AT_MOST_COLUMNS:,} will do."
        )


def check_length(text: str, column: str) -> None:
    """Raise BadRow for a text of a prompt that is too long to be asked or read."""
    if len(text) > LONGEST_PROMPT:
        raise BadRow(column, f"has {len(text):,} characters; at most {LONGEST_PROMPT:,} will do")


def at_most(records: Iterable[Record], limit: int) -> Iterator[Record]:
    """Yield the records; raises UploadRefused at the first beyond `limit`."""
    for count, record in enumerate(records, start=1):
        if count > limit:
            raise UploadRefused(f"The file has more than {limit:,} rows; split it into several.")
        yield record
