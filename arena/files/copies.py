"""Copies of files in UTF-16 and Parquet as UTF-8 and CSV, so that one reader reads all. Pure."""

import io
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any, BinaryIO

PARQUET = b"PAR1"  # the first bytes of a file


class ParquetError(Exception):
    """A file that cannot be rewritten; the message continues a sentence."""


class Copy:
    """A temporary file, gone with this object, that several readers can read at once."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by the finalizer)
        weakref.finalize(self, self.file.close)

    def open(self) -> BinaryIO:
        self.file.flush()
        return io.BufferedReader(_Readings(self))


class _Readings(io.RawIOBase):
    """The bytes of a copy, with a place of their own."""

    def __init__(self, copy: Copy) -> None:
        self.copy, self.place = copy, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = os.preadv(self.copy.file.fileno(), [buffer], self.place)
        self.place += size
        return size


def write_csv(path: Path, copy: BinaryIO) -> None:
    """Write the table as UTF-8; a null becomes an empty cell. Raises ParquetError."""
    import pyarrow
    from pyarrow import csv, parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = pyarrow.schema([_cells(pyarrow, column) for column in file.schema_arrow])
            with csv.CSVWriter(copy, schema) as writer:
                for batch in file.iter_batches():
                    writer.write_batch(batch.cast(schema))
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ParquetError(f"cannot be read: {reason}") from None


def _cells(pyarrow: Any, column: Any) -> Any:
    """The column as its cells are written: dictionaries as texts, times to the microsecond."""
    types = pyarrow.types
    if types.is_dictionary(column.type):
        return column.with_type(column.type.value_type)
    if types.is_timestamp(column.type):
        return column.with_type(pyarrow.timestamp("us", column.type.tz))
    if types.is_nested(column.type):
        raise ParquetError(f"the column {column.name} holds lists or objects, not single values")
    return column
