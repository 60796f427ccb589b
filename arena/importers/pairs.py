"""Votes as CSV: `left,right,winner`, with an optional `prompt`, `worker` and `cast_at`.

There are no texts, so an arena of this format alone is a board: candidates, prompts and raters
are made from the names in the rows. Further columns are kept as the vote's details.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from arena.importers.base import (
    BadRow,
    FileProblem,
    Lines,
    Row,
    SourceFile,
    VoteRecord,
    checked_details,
    checked_name,
    checked_outcome,
    checked_time,
    shown,
)
from arena.importers.formats import DELIMITERS, next_record

SUFFIXES = (".csv", ".tsv", ".txt")
NEEDED = ("left", "right", "winner")
OPTIONAL = ("prompt", "worker", "cast_at")


class PairsImporter:
    name = "pairs"

    def files(self, path: Path) -> list[SourceFile]:
        """Return the one file; a folder is never taken, because any CSV may lie in it."""
        if path.is_dir() or path.suffix.lower() not in SUFFIXES:
            return []
        return [SourceFile(path, "votes", self)]

    def preamble(self, path: Path) -> int:
        return _Table(path).header_end

    def rows(self, file: SourceFile) -> Iterator[Row]:
        """Yield one row for each record below the header, numbered from 1."""
        return _Table(file.path).rows()


class _Table:
    """A CSV file whose header has been read and found good."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as stream:
            lines = Lines(stream)
            first = next(iter(lines), b"")
            self.header_end = lines.end
        self.delimiter, self.columns = _header(path, first)
        self.extra = [name for name in self.columns if name not in NEEDED + OPTIONAL]

    def rows(self) -> Iterator[Row]:
        with self.path.open("rb") as stream:
            lines = Lines(stream)
            text = (line.decode("utf-8", "surrogateescape") for line in lines)
            next(text)
            records = csv.reader(text, delimiter=self.delimiter, strict=True)
            number = 0
            while True:
                line, start = lines.number + 1, lines.end
                fields = next_record(records)
                if fields is None:
                    return
                if fields:
                    number += 1
                    too_long = lines.take_too_long()
                    record = self._record(fields, lines.end - start, too_long=too_long)
                    yield Row(number, line, start, lines.end, record)

    def _record(
        self, fields: list[str] | BadRow, size: int, *, too_long: bool
    ) -> VoteRecord | BadRow:
        try:
            if isinstance(fields, BadRow):
                return fields
            if too_long or len(fields) != len(self.columns):
                counts = f"has {len(fields)} fields; the header has {len(self.columns)}"
                raise BadRow(None, counts)
            return self._vote(dict(zip(self.columns, fields, strict=True)), size)
        except BadRow as bad:
            return bad

    def _vote(self, fields: dict[str, str], size: int) -> VoteRecord:
        return VoteRecord(
            left=checked_name(fields["left"], "left"),
            right=checked_name(fields["right"], "right"),
            outcome=checked_outcome(fields["winner"], "winner"),
            prompt=checked_name(fields.get("prompt", ""), "prompt", required=False) or None,
            rater=checked_name(fields.get("worker", ""), "worker", required=False),
            cast_at=checked_time(fields.get("cast_at"), "cast_at"),
            details=checked_details({name: fields[name] for name in self.extra}, size),
            makes_names=True,
        )


def _header(path: Path, line: bytes) -> tuple[str, list[str]]:
    """Find the delimiter with which the first line names the needed columns."""
    try:
        text = line.decode("utf-8-sig").strip("\r\n")
    except UnicodeDecodeError:
        raise FileProblem(f"{path}: the first line is not valid UTF-8.") from None
    for delimiter in DELIMITERS:
        columns = [name.strip().strip('"').lower() for name in text.split(delimiter)]
        if set(NEEDED) <= set(columns):
            return delimiter, _once_each(path, columns)
    raise FileProblem(
        f"{path}: the first line must name the columns left, right and winner; it is {shown(text)}."
    )


def _once_each(path: Path, columns: list[str]) -> list[str]:
    twice = {name for name in columns if columns.count(name) > 1}
    if twice:
        raise FileProblem(f"{path}: the first line names a column twice: {shown(min(twice))}.")
    return columns
