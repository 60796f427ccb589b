"""JSON and CSV as every reader of files takes them: nothing unstorable, no quiet repairs."""

import csv
import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from arena.importers.base import TEXT_LIMIT, BadRow, kind_of

DELIMITERS = (",", ";", "\t")
MOST_VALUES = 1_500_000  # 10,000 rows have a million if each of them has a hundred variables


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


JSON = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_whole)


# Up to the next list, object or comma, or to the end. A text ends with its line, as JSON wants it.
# No part of the pattern gives back what it took: linear time.
_TO_THE_NEXT = r"""(?:[^"\[{,]++|"(?:[^"\\\r\n]++|\\.)*+"?)*+(?:[\[{,]|\Z)"""
_IN_TEXT, _IN_BYTES = re.compile(_TO_THE_NEXT), re.compile(_TO_THE_NEXT.encode())


def holds_more_values(text: str | bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON has more lists, objects and commas than `most`, give or take one.

    Each value costs fifty times its bytes once it is read, so they are counted before.
    """
    if len(text) <= most:
        return False
    found = _IN_TEXT.finditer(text) if isinstance(text, str) else _IN_BYTES.finditer(text)
    return next(islice(found, most + 1, None), None) is not None


def json_object(text: str) -> dict[str, Any]:
    """Return the one object that `text` holds; raises BadRow."""
    try:
        fields = JSON.decode(text.strip())
    except json.JSONDecodeError as error:
        raise BadRow(None, f"is not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise BadRow(None, "is nested too deeply") from None
    except ValueError as error:
        raise BadRow(None, f"has a number that cannot be stored: {error}") from None
    if not isinstance(fields, dict):
        raise BadRow(None, f"is {kind_of(fields)}, not a JSON object")
    return fields


# -- CSV -------------------------------------------------------------------------------------------


def next_record(records: Iterator[list[str]]) -> list[str] | BadRow | None:
    """Read the next record: [] for a blank line, None at the end, BadRow where CSV is broken."""
    try:
        return next(records, None)
    except csv.Error as error:
        return BadRow(None, f"is not CSV: {error}")


class _FieldLimit:
    """The csv module's limit, which all threads share, raised while anybody needs it higher."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.usual = 0

    def raise_it(self) -> None:
        with self.lock:
            if not self.users:
                self.usual = csv.field_size_limit(TEXT_LIMIT)
            self.users += 1

    def lower_it(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                csv.field_size_limit(self.usual)


_limit = _FieldLimit()


@contextmanager
def wide_fields() -> Iterator[None]:
    """Let fields of CSV be as long as a text may be, in here and not beyond."""
    _limit.raise_it()
    try:
        yield
    finally:
        _limit.lower_it()
