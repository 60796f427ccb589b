"""The rows of a file of labels, JSON Lines or CSV, each with the line it begins on."""

import codecs
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from arena.importers.base import (
    LINE_LIMIT,
    BadRow,
    FileProblem,
    Lines,
    kind_of,
    shown,
)
from arena.importers.formats import DELIMITERS, next_record, wide_fields
from judges.labels.rows import FORMS, LabelRow, checked_row

BLANK = b"\xef\xbb\xbf \t\r\n"
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
Numbered = tuple[int, LabelRow | BadRow]


def rows_of(path: Path) -> Iterator[Numbered]:
    """Yield (line, row) for every row, good or bad, in the order of the file.

    What begins with a brace is JSON Lines, anything else is CSV with a header. Both are UTF-8, or
    UTF-16 that begins with its mark. Raises FileProblem for a file that cannot be read at all.
    """
    try:
        with _opened(path) as stream:
            start = stream.read(64).lstrip(BLANK)
    except OSError as error:
        raise FileProblem(f"{path}: cannot be read: {error.strerror or error}.") from None
    if not start:
        raise FileProblem(f"{path}: the file is empty.")
    return _json_rows(path) if start.startswith(b"{") else _csv_rows(path)


def _opened(path: Path) -> BinaryIO:
    """Open a file as UTF-8; spreadsheets save "Unicode text" as UTF-16, which is turned into it."""
    with path.open("rb") as stream:
        if not stream.read(2).startswith(UTF_16):
            return path.open("rb")
    try:
        return io.BytesIO(path.read_bytes().decode("utf-16").encode())
    except UnicodeDecodeError:
        raise FileProblem(f"{path}: begins as UTF-16, but is not valid UTF-16.") from None


def _checked(fields: dict[str, Any] | BadRow) -> LabelRow | BadRow:
    if isinstance(fields, BadRow):
        return fields
    try:
        return checked_row(fields)
    except BadRow as bad:
        return bad


# -- JSON Lines ------------------------------------------------------------------------------------


def _json_rows(path: Path) -> Iterator[Numbered]:
    with _opened(path) as stream:
        lines = Lines(stream)
        for line in lines:
            too_long = lines.take_too_long()
            if line.strip(BLANK):
                yield lines.number, _checked(_fields(line, too_long=too_long))


def _fields(line: bytes, *, too_long: bool) -> dict[str, Any] | BadRow:
    if too_long:
        return BadRow(None, f"is longer than {LINE_LIMIT:,} bytes")
    try:
        fields = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return BadRow(None, f"is not valid UTF-8 (byte {error.start + 1} of the line)")
    except json.JSONDecodeError as error:
        return BadRow(None, f"is not JSON: {error.msg} at character {error.pos + 1}")
    except RecursionError:
        return BadRow(None, "is nested too deeply")
    except ValueError:
        return BadRow(None, "has a whole number of too many digits")
    return (
        fields if isinstance(fields, dict) else BadRow(None, f"is {kind_of(fields)}, not an object")
    )


# -- CSV -------------------------------------------------------------------------------------------


def _csv_rows(path: Path) -> Iterator[Numbered]:
    with _opened(path) as stream:
        lines = Lines(stream)
        text = _decoded(path, lines)
        delimiter, columns = _header(path, next(text))
        records = csv.reader(text, delimiter=delimiter, strict=True)
        while True:
            line = lines.number + 1
            with wide_fields():
                fields = next_record(records)
            if fields is None:
                return
            if fields:
                yield line, _checked(_named(columns, fields, too_long=lines.take_too_long()))


def _decoded(path: Path, lines: Lines) -> Iterator[str]:
    """Yield the lines as text: in another encoding most rows are wrong, and one sentence is enough.

    A line that was cut because of its length may end within a character; its row is bad anyway.
    """
    for line in lines:
        try:
            yield line.decode("utf-8", "ignore" if lines.too_long else "strict")
        except UnicodeDecodeError:
            raise FileProblem(
                f"{path}: line {lines.number} is not UTF-8. Save the file as UTF-8 (a spreadsheet "
                "calls it CSV UTF-8), then try again."
            ) from None


def _header(path: Path, line: str) -> tuple[str, list[str]]:
    """Find the delimiter with which the first line names the needed columns."""
    header = line.removeprefix("\ufeff").strip("\r\n")
    for delimiter in DELIMITERS:
        columns = [name.strip().strip('"').lower() for name in header.split(delimiter)]
        if "prompt" in columns and {"label", "score"} & set(columns):
            if twice := {name for name in columns if columns.count(name) > 1}:
                named = shown(min(twice))
                raise FileProblem(f"{path}: the first line names a column twice: {named}.")
            return delimiter, columns
    raise FileProblem(
        f"{path}: the first line must name the columns; it is {shown(header)}. {FORMS}"
    )


def _named(
    columns: list[str], fields: list[str] | BadRow, *, too_long: bool
) -> dict[str, Any] | BadRow:
    if isinstance(fields, BadRow):
        return fields
    if too_long or len(fields) != len(columns):
        return BadRow(None, f"has {len(fields)} fields; the header has {len(columns)}")
    return dict(zip(columns, fields, strict=True))
