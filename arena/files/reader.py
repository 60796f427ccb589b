"""CSV and JSON from any program, read as a stream of numbered rows. Pure.

A row that cannot be read is an InputError in its place; a file that cannot be used at all raises
FileError.
"""

import codecs
import csv
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO

from pydantic_core import from_json

from arena.files.source import BOM, CHUNK, FileError, Source
from arena.validation import TEXT_LIMIT, InputError, json_type, quoted

Values = dict[str, Any]

MOST_VALUES = 1_500_000  # 10,000 rows have a million if each of them has a hundred variables

# The limit of the csv module is one for the process: 131,072 characters unless it is raised.
csv.field_size_limit(max(csv.field_size_limit(), TEXT_LIMIT))


@dataclass(slots=True)
class Row:
    """One row: its number, the line it begins on, its bytes [start, end), and what it says.

    Rows of CSV are numbered as a spreadsheet does: the header is row 1, blank rows count. Lines of
    JSON Lines have the number of their line, elements of a JSON array that of their place.
    `content` is the values of the row, or what they say, or an InputError.
    """

    number: int
    line: int
    start: int
    end: int
    content: Any


# -- Lines -----------------------------------------------------------------------------------------


class _Lines:
    """The lines of a stream of UTF-8, with the number and the end of the last one.

    They end with \\n, \\r\\n or \\r. One of more than `limit` bytes is cut there and flagged, so
    that no line can fill the memory.
    """

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self.stream = stream
        self.limit = limit
        self.number = 0
        self.end = 0
        self.too_long = False

    def __iter__(self) -> Iterator[bytes]:
        readline, limit = self.stream.readline, self.limit
        while line := readline(limit):
            mark = line.find(b"\r")
            ends_plainly = mark < 0 or (mark == len(line) - 2 and line.endswith(b"\n"))
            if ends_plainly and len(line) < limit:
                self.number += 1
                self.end += len(line)
                yield line
            else:
                yield from self._parts(line)

    def _parts(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines of what was read as one: some end with \\r, or it was cut."""
        *lines, last = chunk.splitlines(keepends=True)
        while lines and last[-1:] not in (b"\n", b"\r"):
            yield from map(self._counted, lines)
            *lines, last = (last + self.stream.readline(self.limit - len(last))).splitlines(True)
        yield from map(self._counted, lines)
        self._counted(last)
        rest = last if len(last) >= self.limit else b"\n"
        while rest and not rest.endswith(b"\n"):
            self.too_long = True
            rest = self.stream.readline(self.limit)
            self.end += len(rest)
        yield last

    def _counted(self, line: bytes) -> bytes:
        self.number += 1
        self.end += len(line)
        return line

    def texts(self) -> Iterator[str]:
        """Yield the lines as text; bytes that are not UTF-8 become lone surrogates."""
        lines = iter(self)
        first = next(lines, b"").decode("utf-8", "surrogateescape").removeprefix(BOM)
        if not _SEPARATOR.fullmatch(first):
            yield first
        for line in lines:
            yield line.decode("utf-8", "surrogateescape")

    def length_error(self) -> InputError:
        """Return the error of a row with a line that was too long."""
        self.too_long = False
        return InputError(f"is longer than {self.limit:,} bytes; one text can have {TEXT_LIMIT:,}")


# -- CSV -------------------------------------------------------------------------------------------

DELIMITERS = ",;\t"
# Where there is one column nothing separates it from others, and texts keep their commas.
ONE_COLUMN = "\x1f"
# Excel's own way to name the delimiter, above the header.
_SEPARATOR = re.compile(r"sep=[,;\t]\r?\n", re.IGNORECASE)
_QUOTED = re.compile(r'^"(.*)"$')
_GAPS = re.compile(r"[\s-]+")


@dataclass(frozen=True)
class Header:
    """The first row of a CSV file that is not blank, and the delimiter with which it makes sense.

    `names` are as written; `keys` are what rows call the columns, '' below no name. `end` is where
    its bytes end.
    """

    names: Sequence[str]
    keys: Sequence[str]
    delimiter: str
    row: int
    end: int


def folded(name: str) -> str:
    """Return a column's name as it is compared: `Prompt ID` is `prompt_id`."""
    return _GAPS.sub("_", name.strip().casefold())


def csv_header(
    source: Source,
    *,
    suffices: Callable[[Sequence[str]], bool],
    wanted: str,
    key: Callable[[str], str] = str.lower,
    most_columns: int = sys.maxsize,
) -> Header:
    """Find the delimiter with which the first row names columns that suffice.

    Of several the one with the most columns counts. Raises FileError, which ends with `wanted`.
    """
    fitting = []
    for delimiter in DELIMITERS:
        row = next(
            (row for row in _csv_records(source, delimiter, strict=False) if row.content), None
        )
        if row is None or isinstance(row.content, InputError):
            continue
        check_width(source.subject, row.content, most_columns)
        # A quote after a blank is part of the name, as in `left, "right"`.
        names = [_QUOTED.sub(r"\1", name.strip()) for name in row.content]
        if suffices(names):
            fitting.append(Header(names, list(map(key, names)), delimiter, row.number, row.end))
    if not fitting:
        with source.open() as stream:
            start = stream.read(CHUNK).decode("utf-8", "replace").lstrip(BOM).strip()
        raise FileError(
            f"{source.subject} must name its columns in the first row, which is "
            f"{quoted(start.partition(chr(10))[0].strip())}. {wanted}"
        )
    header = max(fitting, key=lambda header: len(header.names))
    if twice := [name for name in header.keys if name and header.keys.count(name) > 1]:
        raise FileError(
            f"{source.subject} names the column {quoted(twice[0])} twice in its first row."
        )
    return header if len(header.names) > 1 else replace(header, delimiter=ONE_COLUMN)


def check_width(subject: str, names: Sized, most: int) -> None:
    """Raise FileError where there are more than `most` columns."""
    if len(names) > most:
        raise FileError(f"{subject} has {len(names):,} columns; at most {most:,} are allowed.")


def csv_rows(source: Source, header: Header) -> Iterator[Row]:
    """Yield the rows below `header` that are not blank, as values by key."""
    keys, width, has_nameless = header.keys, len(header.keys), "" in header.keys
    for row in islice(_csv_records(source, header.delimiter), header.row, None):
        cells = row.content
        if type(cells) is list:
            if not any(map(str.strip, cells)):
                continue
            if len(cells) == width and not has_nameless:
                row.content = dict(zip(keys, cells, strict=True))
            else:
                row.content = _named(keys, cells)
        yield row


def _named(keys: Sequence[str], cells: list[str]) -> Values | InputError:
    """Return values by key of a row that has blank cells at its end, or columns without a name."""
    while len(cells) > len(keys) and not cells[-1].strip():
        cells.pop()
    if len(cells) != len(keys):
        return InputError(f"has {len(cells)} fields; the header has {len(keys)}")
    pairs = list(zip(keys, cells, strict=True))
    if any(cell.strip() for key, cell in pairs if not key):
        return InputError("has a value in a column without a name")
    return {key: cell for key, cell in pairs if key}


def _csv_records(source: Source, delimiter: str, *, strict: bool = True) -> Iterator[Row]:
    """Yield every record, the header and blank ones too."""
    with source.open() as stream:
        lines = _Lines(stream, source.line_limit)
        records = csv.reader(lines.texts(), delimiter=delimiter, strict=strict)
        number, row_limit = 0, source.row_limit
        while True:
            line, start = lines.number + 1, lines.end
            content: list[str] | InputError | None
            try:
                content = next(records, None)
            except csv.Error as error:
                content = InputError(f"is not CSV: {error}")
            if content is None:
                return
            number += 1
            if number > row_limit:
                raise FileError(
                    f"{source.subject} has more than {row_limit:,} rows, with blank ones."
                )
            if lines.too_long:
                content = lines.length_error()
            yield Row(number, line, start, lines.end, content)


# -- JSON ------------------------------------------------------------------------------------------


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError(f"{literal[:20]} is not a finite number")
    return number


def _whole(literal: str) -> int:
    if len(literal) > 300:
        raise ValueError(f"a whole number of {len(literal):,} digits")
    return int(literal)


_JSON = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_whole)
INFINITE = (math.inf, -math.inf)
# Up to the next list, object or comma, or to the end. A text ends with its line, as JSON wants it.
# No part of the pattern gives back what it took: linear time.
_VALUE = re.compile(rb"""(?:[^"\[{,]++|"(?:[^"\\\r\n]++|\\.)*+"?)*+(?:[\[{,]|\Z)""")


def holds_more_values(text: bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON has more lists, objects and commas than `most`, give or take one.

    Each value costs fifty times its bytes once it is read, so they are counted before.
    """
    if len(text) <= most:
        return False
    return next(islice(_VALUE.finditer(text), most + 1, None), None) is not None


def decode_json(text: str) -> Any:
    """Return the value that `text` holds; raises InputError for what is not JSON, or too much."""
    try:
        return _JSON.decode(text.strip())
    except json.JSONDecodeError as error:
        line = f"line {error.lineno:,}, " if "\n" in text.strip() else ""
        raise InputError(f"is not JSON: {error.msg}, {line}character {error.colno:,}") from None
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"has a number that cannot be stored: {error}") from None


def json_object(value: Any) -> Values:
    """Return `value` if it is an object; raises InputError."""
    if not isinstance(value, dict):
        raise InputError(f"is {json_type(value)}, not a JSON object")
    return value


def is_json(source: Source) -> bool:
    """Does it begin as JSON Lines or as a JSON array?"""
    return source.first_character() in ("{", "[")


def json_rows(source: Source) -> Iterator[Row]:
    """Yield the rows of JSON Lines, or of one JSON array, which is held in memory as a whole."""
    return _elements(source) if source.first_character() == "[" else json_lines(source)


def json_lines(source: Source) -> Iterator[Row]:
    """Yield one row for each line that is not blank."""
    with source.open() as stream:
        lines, start = _Lines(stream, source.line_limit), 0
        for line in lines:
            if not line.isspace() and line != codecs.BOM_UTF8:
                content = lines.length_error() if lines.too_long else _object_in(line)
                yield Row(lines.number, lines.number, start, lines.end, content)
            start = lines.end


def _object_in(line: bytes) -> Values | InputError:
    """Read a line quickly, and once more for the exact reason where that fails."""
    with suppress(ValueError):
        values = from_json(line, allow_inf_nan=False)
        # A number as long as 1e999 becomes infinite.
        if type(values) is dict and not any(number in values.values() for number in INFINITE):
            return values
    try:
        return json_object(decode_json(line.decode().removeprefix(BOM)))
    except UnicodeDecodeError as error:
        return InputError(f"is not valid UTF-8 (byte {error.start + 1} of the line)")
    except InputError as error:
        return error


def _elements(source: Source) -> Iterator[Row]:
    with source.open() as stream:
        text = stream.read().decode().removeprefix(BOM)
    try:
        elements = decode_json(text)
    except InputError as error:
        raise FileError(f"{source.subject} {error.reason}.") from None
    for number, element in enumerate(elements, start=1):
        try:
            yield Row(number, number, 0, 0, json_object(element))
        except InputError as error:
            yield Row(number, number, 0, 0, error)
