"""CSV as spreadsheets save it: commas, semicolons or tabs, and quoted texts of several lines."""

import csv
import io
import re
from collections.abc import Iterator

from arena.importers.base import BadRow, shown
from arena.importers.formats import DELIMITERS, next_record
from arena.uploads.base import (
    ROWS_OF_A_SHEET,
    Columns,
    Record,
    Sheet,
    UploadRefused,
    Values,
    check_names,
    folded,
)

DIALECTS = {",": "CSV with commas", ";": "CSV with semicolons", "\t": "CSV with tabs"}
# Where there is one column nothing has to part it from others, and texts keep their commas.
ONE_COLUMN = "\x1f"
# Excel's own way to name the delimiter, above the header.
_NAMED = re.compile(r"sep=[,;\t]\r?\n", re.IGNORECASE)


def csv_sheet(text: str, columns: Columns) -> Sheet:
    """Take CSV apart; raises UploadRefused where no row names the needed columns."""
    if named := _NAMED.match(text):
        text = text[named.end() :]
    headers = {delimiter: _header(text, delimiter) for delimiter in DELIMITERS}
    fitting = [one for one in DELIMITERS if columns.suffices(headers[one])]
    if not fitting:
        raise UploadRefused(
            "The first row must name the columns; it is "
            f"{shown(text.strip().split(chr(10))[0].strip())}. {columns.wanted}"
        )
    delimiter = max(fitting, key=lambda one: len(headers[one]))
    names = headers[delimiter]
    _refuse_twice(names)
    if len(names) == 1:
        return Sheet(names, _records(text, ONE_COLUMN, names), "CSV with one column")
    return Sheet(names, _records(text, delimiter, names), DIALECTS[delimiter])


def _numbered(text: str, delimiter: str) -> Iterator[tuple[int, list[str] | BadRow]]:
    """Yield every record with its number, as a spreadsheet numbers its rows; blank ones as []."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number = 0
    while (fields := next_record(reader)) is not None:
        number += 1
        if number > ROWS_OF_A_SHEET:
            raise UploadRefused(
                f"The file has more than {ROWS_OF_A_SHEET:,} rows, with blank ones."
            )
        is_blank = isinstance(fields, list) and not any(field.strip() for field in fields)
        yield number, [] if is_blank else fields


def _header(text: str, delimiter: str) -> list[str]:
    """Return the names in the first row; raises UploadRefused for very many, before any is read."""
    header = next((fields for _, fields in _numbered(text, delimiter) if fields), [])
    if isinstance(header, BadRow):
        return []
    check_names(header)
    return [name.strip() for name in header]


def _refuse_twice(names: list[str]) -> None:
    keys = [folded(name) for name in names if name]
    for key in keys:
        if keys.count(key) > 1:
            raise UploadRefused(f"The first row names the column {shown(key)} twice.")


def _records(text: str, delimiter: str, names: list[str]) -> Iterator[Record]:
    records = ((row, fields) for row, fields in _numbered(text, delimiter) if fields)
    next(records)
    keys = [folded(name) for name in names]
    for row, fields in records:
        yield row, fields if isinstance(fields, BadRow) else _named(keys, fields)


def _named(keys: list[str], fields: list[str]) -> Values | BadRow:
    while len(fields) > len(keys) and not fields[-1].strip():
        fields.pop()
    if len(fields) != len(keys):
        return BadRow(None, f"has {len(fields)} fields; the header has {len(keys)}")
    pairs = list(zip(keys, fields, strict=True))
    if any(field.strip() for key, field in pairs if not key):
        return BadRow(None, "has a value in a column without a name")
    return {key: field for key, field in pairs if key}
