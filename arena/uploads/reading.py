"""Read an uploaded table: every row becomes a row of its kind, or a problem in words."""

import re
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from arena.importers.base import BadRow, shown
from arena.importers.formats import wide_fields
from arena.uploads.base import (
    AT_MOST_BYTES,
    AT_MOST_ROWS,
    Columns,
    Given,
    Problem,
    Record,
    SeenBefore,
    Sheet,
    Table,
    UploadRefused,
    Values,
    at_most,
    folded,
)
from arena.uploads.decoding import decoded
from arena.uploads.delimited import csv_sheet
from arena.uploads.kinds import PROMPTS, PromptRow
from arena.uploads.objects import is_json, json_sheet
from arena.words import listed

R = TypeVar("R")
_RULE = re.compile(r"\s*-{3,}\s*")


def read_table(
    data: bytes,
    *,
    columns: Columns[R],
    at_most_rows: int = AT_MOST_ROWS,
    at_most_bytes: int = AT_MOST_BYTES,
) -> Table[R]:
    """Read a file of CSV, JSON Lines or one JSON array, in whatever encoding it was saved.

    Raises UploadRefused for a file that cannot be used at all; nothing else is raised.
    """
    source = decoded(data, at_most_bytes=at_most_bytes)
    with wide_fields():
        if is_json(source.text):
            sheet = json_sheet(source.text, columns, at_most_rows=at_most_rows)
        else:
            sheet = csv_sheet(source.text, columns)
        table = _Reader(columns, sheet).read(at_most_rows)
    if not table.rows and not table.problems:
        raise UploadRefused("The file has no rows.")
    table.encoding = source.encoding
    table.notices = [notice for notice in (source.notice, *table.notices) if notice]
    return table


def parse_pasted(text: str, *, at_most_rows: int = AT_MOST_ROWS) -> Table[PromptRow]:
    """Read prompts from a box: one in each line, or parted by lines of `---` where it has such.

    Raises UploadRefused where there is none or too many. A row's number is the line it begins in.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    is_parted = any(map(_RULE.fullmatch, lines))
    blocks = _blocks(lines) if is_parted else enumerate(lines, start=1)
    records: Iterator[Record] = (
        (row, {"text": block.strip()}) for row, block in blocks if block.strip()
    )
    dialect = "parted by ---" if is_parted else "one prompt in each line"
    table = _Reader(PROMPTS, Sheet(["text"], records, dialect)).read(at_most_rows)
    if not table.rows and not table.problems:
        raise UploadRefused("There is no prompt in the text.")
    return table


def _blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, text) for what stands between lines of `---`."""
    begins, block = 1, list[str]()
    for number, line in enumerate([*lines, "---"], start=1):
        if _RULE.fullmatch(line):
            yield begins, "\n".join(block)
            begins, block = number + 1, []
        elif block or line.strip():
            block.append(line)
        else:
            begins = number + 1


class _Reader(Generic[R]):
    """Reads the records of one sheet, and remembers which keys it has seen where."""

    def __init__(self, columns: Columns[R], sheet: Sheet) -> None:
        self.columns = columns
        self.sheet = sheet
        self.written = {folded(name): name for name in sheet.names if name}
        self.assigned = columns.assigned(sheet.names)
        taken = set(self.assigned.values())
        self.free = {key: name for key, name in self.written.items() if key not in taken}
        self.others = {key: name for key, name in self.free.items() if columns.takes_other(name)}
        self.seen: dict[tuple[str, Hashable], int] = {}

    def read(self, at_most_rows: int) -> Table[R]:
        table: Table[R] = Table(dialect=self.sheet.dialect, notices=self._notices())
        for row, values in at_most(self.sheet.records, at_most_rows):
            try:
                table.rows.append(self._row(row, values))
            except BadRow as bad:
                table.problems.append(self._problem(row, bad))
        table.notices += self.columns.remarks(table.rows)
        return table

    def _row(self, row: int, values: Values | BadRow) -> R:
        if isinstance(values, BadRow):
            raise values
        wanted, others = self.assigned.items(), self.others.items()
        given = Given(
            row=row,
            fields={column: values[key] for column, key in wanted if key in values},
            others={name: values[key] for key, name in others if key in values},
        )
        parsed = self.columns.parse(given)
        self._refuse_twice(row, *self.columns.key(parsed))
        return parsed

    def _refuse_twice(self, row: int, column: str, key: Hashable) -> None:
        earlier = self.seen.setdefault((column, key), row)
        if earlier != row:
            raise SeenBefore(column, earlier)

    def _problem(self, row: int, bad: BadRow) -> Problem:
        if bad.column is None:
            return Problem(row, "", f"The row {bad.reason}.")
        column = self.written.get(self.assigned.get(bad.column, ""), bad.column)
        return Problem(row, column, self._sentence(bad, column))

    def _sentence(self, bad: BadRow, column: str) -> str:
        """Say what is wrong; `column` is its name in the file, which may not be ours."""
        if isinstance(bad, SeenBefore) and (done := self.columns.twice.get(bad.column or "")):
            return f"Row {bad.earlier:,} has {done} already."
        if thing := self.columns.things.get(bad.column or ""):
            return f"{thing} {bad.reason} (column {shown(column)})."
        return f"The column {shown(column)} {bad.reason}."

    def _notices(self) -> list[str]:
        return [*self._taken(), *self._unused()]

    def _taken(self) -> list[str]:
        """Say what the columns were read as, where the file has names of its own for them."""
        words = self.columns.words
        own = {key: words[column] for column, key in self.assigned.items() if column in words}
        said = [f"{shown(self.written[key])} is {what}" for key, what in own.items()]
        if words and self.others:
            names = [shown(name) for name in self.others.values()]
            what = (
                "are variables of the prompt" if len(names) > 1 else "is a variable of the prompt"
            )
            said.append(f"{listed(names)} {what}")
        as_named = self.columns.usual.issuperset(own) and not self.others
        return [] if as_named else [f"The columns were read so: {'; '.join(said)}."]

    def _unused(self) -> list[str]:
        """Name the columns that are not used, so that nobody misses them later."""
        unused = [shown(name) for key, name in self.free.items() if key not in self.others]
        if not unused:
            return []
        return [f"Not used: {listed(unused)}. {self.columns.why_not}"]
