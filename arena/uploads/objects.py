"""JSON Lines, and one JSON array: a row is an object, and the columns are the keys that occur."""

import io
import json
import re
from collections.abc import Iterator
from typing import Any

from arena.importers.base import BadRow, kind_of, shown
from arena.importers.formats import JSON, MOST_VALUES, holds_more_values, json_object
from arena.uploads.base import (
    Columns,
    Record,
    Sheet,
    UploadRefused,
    at_most,
    check_names,
    folded,
)
from arena.words import listed

Objects = Iterator[tuple[int, dict[str, Any] | BadRow]]
_SPACE = re.compile(r"[ \t\r\n]*")


def is_json(text: str) -> bool:
    """Does `text` begin as JSON does?"""
    return text.lstrip()[:1] in ("{", "[")


def json_sheet(text: str, columns: Columns, *, at_most_rows: int) -> Sheet:
    """Take JSON apart; raises UploadRefused where no object has the needed keys."""
    if holds_more_values(text):
        raise UploadRefused(
            f"The file has more than {MOST_VALUES:,} values; split it into several."
        )
    is_array = text.lstrip().startswith("[")
    objects = _elements(text) if is_array else _lines(text)
    names: dict[str, str] = {}
    records = list(at_most((_keyed(row, one, names) for row, one in objects), at_most_rows))
    _refuse_unless_some_can_be_read(records)
    if records and not columns.suffices(list(names.values())):
        raise UploadRefused(f"The objects have {_keys(list(names.values()))}. {columns.wanted}")
    return Sheet(list(names.values()), records, "JSON" if is_array else "JSON Lines")


def _keyed(row: int, one: dict[str, Any] | BadRow, names: dict[str, str]) -> Record:
    """Fold the keys of an object; `names` gathers them as first written."""
    if isinstance(one, BadRow):
        return row, one
    check_names(one)
    for name in one:
        names.setdefault(folded(name), name.strip())
    check_names(names)
    values = {folded(name): value for name, value in one.items()}
    if len(values) < len(one):
        return row, BadRow(None, "names a column twice")
    return row, values


def _refuse_unless_some_can_be_read(records: list[Record]) -> None:
    first = next(iter(records), None)
    if first and all(isinstance(values, BadRow) for _, values in records):
        row, bad = first
        assert isinstance(bad, BadRow)
        raise UploadRefused(f"No row can be read: row {row} {bad.reason}.")


def _keys(names: list[str]) -> str:
    return f"the keys {listed(map(shown, names))}" if names else "no keys"


def _lines(text: str) -> Objects:
    for row, line in enumerate(io.StringIO(text, newline=None), start=1):
        if line.strip():
            try:
                yield row, json_object(line)
            except BadRow as bad:
                yield row, bad


def _elements(text: str) -> Objects:
    """Yield the elements of an array, one read at a time, so that a long one is soon refused."""
    end = _after_space(text, text.index("[") + 1)
    row = 0
    while text[end : end + 1] != "]" or row:
        row += 1
        value, end = _element(text, end)
        yield row, value if isinstance(value, dict) else BadRow(None, _not_object(value))
        end = _after_space(text, end)
        if text[end : end + 1] == "]":
            break
        if text[end : end + 1] != ",":
            raise UploadRefused(f"The file is not JSON: {_place(text, end)} lacks a comma or ].")
        end = _after_space(text, end + 1)
    if _after_space(text, end + 1) < len(text):
        raise UploadRefused(f"The file is not JSON: {_place(text, end + 1)} follows its end.")


def _element(text: str, start: int) -> tuple[Any, int]:
    try:
        return JSON.raw_decode(text, start)
    except json.JSONDecodeError as error:
        place = _place(text, error.pos)
        raise UploadRefused(f"The file is not JSON: {place}: {error.msg}.") from None
    except RecursionError:
        raise UploadRefused(f"The file is nested too deeply; {_place(text, start)}.") from None
    except ValueError as error:
        raise UploadRefused(
            f"The file has a number that cannot be stored, in what begins at "
            f"{_place(text, start)}: {error}."
        ) from None


def _not_object(value: Any) -> str:
    return f"is {kind_of(value)}, not a JSON object"


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    assert found is not None
    return found.end()


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line:,}, character {at - text.rfind(chr(10), 0, at):,}"
