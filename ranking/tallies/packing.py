"""Columns of integers as bytes: each column in the narrowest width that holds it."""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

HEADER = struct.Struct("<BBI")  # version, columns, rows
VERSION = 1
WIDTHS = (1, 2, 4, 8)  # bytes of a signed integer; 0 is a column of zeros, which takes none


class BadPack(ValueError):
    """The bytes are not what `pack` wrote."""


def pack(columns: Sequence[Ints]) -> bytes:
    """Columns of equal length, as bytes."""
    n_rows = len(columns[0])
    widths = [_width(column) for column in columns]
    parts = [HEADER.pack(VERSION, len(columns), n_rows), bytes(widths)]
    for column, width in zip(columns, widths, strict=True):
        if width:
            parts.append(column.astype(f"<i{width}").tobytes())
    return b"".join(parts)


def unpack(packed: bytes | memoryview) -> list[Ints]:
    """The columns that `pack` was given. Raises BadPack."""
    found = memoryview(packed)
    try:
        version, n_columns, n_rows = HEADER.unpack_from(found)
    except struct.error as error:
        raise BadPack("too short to be tallies") from error
    start = HEADER.size + n_columns
    widths = bytes(found[HEADER.size : start])
    whole = start + n_rows * sum(widths)
    if version != VERSION or set(widths) - {0, *WIDTHS} or len(found) != whole:
        raise BadPack("these bytes are not tallies of this version")
    columns = []
    for width in widths:
        if width:
            column = np.frombuffer(found, f"<i{width}", n_rows, start).astype(np.int64)
        else:
            column = np.zeros(n_rows, np.int64)
        columns.append(column)
        start += n_rows * width
    return columns


def _width(column: Ints) -> int:
    """The bytes that each number of a column needs."""
    if not column.any():
        return 0
    low, high = int(column.min()), int(column.max())
    return next(w for w in WIDTHS if -(1 << 8 * w - 1) <= low and high < 1 << 8 * w - 1)
