"""Copies of files in UTF-16, Parquet, Excel and zip as UTF-8, CSV and a folder. Pure."""

import csv
import errno
import gzip
import io
import json
import os
import re
import stat
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, time
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

PARQUET = b"PAR1"  # the first bytes of a file
ARENA_FILE = "arena.json"  # the settings of an exported arena
EXPORT_VERSION = 1
HAS_PYARROW = find_spec("pyarrow") is not None
NEEDS_PYARROW = "Parquet files need pyarrow: pip install 'ringside-arena[parquet]'"


class TableError(Exception):
    """A table that cannot be rewritten; the message continues a sentence."""


class Copy:
    """A temporary file, gone with this object, that several readers can read at once."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by the finalizer)
        weakref.finalize(self, self.file.close)

    def open(self) -> BinaryIO:
        self.file.flush()
        return io.BufferedReader(_Readings(self))


class _Readings(io.RawIOBase):
    """The bytes of a copy, with a read position of their own."""

    def __init__(self, copy: Copy) -> None:
        self.copy, self.place = copy, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = os.preadv(self.copy.file.fileno(), [buffer], self.place)
        self.place += size
        return size


def write_parquet(table: Path | BinaryIO, copy: BinaryIO) -> None:
    """Write a Parquet file as CSV in UTF-8; a null becomes an empty cell. Raises TableError."""
    if not HAS_PYARROW:
        raise TableError(f"cannot be read here. {NEEDS_PYARROW}, or save it as CSV.")
    import pyarrow
    from pyarrow import csv, parquet

    try:
        with parquet.ParquetFile(table) as file:
            schema = pyarrow.schema([_text_cells(pyarrow, column) for column in file.schema_arrow])
            with csv.CSVWriter(copy, schema) as writer:
                for batch in file.iter_batches():
                    writer.write_batch(_without_nesting(pyarrow, batch).cast(schema))
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise TableError(f"cannot be read: {reason}. Export it again.") from None


def _text_cells(pyarrow: Any, column: Any) -> Any:
    """The column as its cells are written: dictionaries as texts, times to the microsecond."""
    types = pyarrow.types
    if types.is_dictionary(column.type):
        return column.with_type(column.type.value_type)
    if types.is_timestamp(column.type):
        return column.with_type(pyarrow.timestamp("us", column.type.tz))
    if types.is_nested(column.type):
        return column.with_type(pyarrow.string())
    return column


def _without_nesting(pyarrow: Any, batch: Any) -> Any:
    """The batch with its lists and objects written as JSON."""
    columns = [
        pyarrow.array(
            [
                None if value is None else json.dumps(value, default=str)
                for value in column.to_pylist()
            ],
            pyarrow.string(),
        )
        if pyarrow.types.is_nested(column.type)
        else column
        for column in batch.columns
    ]
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


MOST_CELLS = 20_000_000
ROW, COLUMN = re.compile(rb' r="[A-Z]{1,3}(\d{1,7})"'), re.compile(rb' r="([A-Z]{1,3})\d')
# A formula in a sheet's XML, without a result.
NO_RESULT = re.compile(rb"<f(?: [^>]*)?(?:/>|>[^<]*</f>)(?:<v ?/>|<v></v>)?</c>")


def write_sheet(table: Path | BinaryIO, copy: BinaryIO) -> list[str]:
    """Write the first visible sheet of an Excel workbook as CSV in UTF-8, and return the names of
    the others. Raises TableError."""
    from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

    try:
        _check_workbook(table)
        if not isinstance(table, Path):
            table.seek(0)
        workbook = CalamineWorkbook.from_object(table)
        shown = [s for s in workbook.sheets_metadata if s.visible == SheetVisibleEnum.Visible]
        if not shown:
            raise TableError("has no visible sheet.")
        sheet = workbook.get_sheet_by_name(shown[0].name)
        if sheet.total_height * sheet.total_width > MOST_CELLS:
            raise TableError(
                f"has a sheet of {sheet.total_height:,} rows and {sheet.total_width:,} columns, "
                f"more than {MOST_CELLS:,} cells; delete those that are empty."
            )
        if merged := sheet.merged_cell_ranges:
            (row, column), _ = merged[0]
            raise TableError(f"has merged cells ({_cell_name(row, column)}); unmerge them.")
        text = io.TextIOWrapper(copy, "utf-8", newline="", write_through=True)
        csv.writer(text).writerows(map(_written_cell, row) for row in sheet.iter_rows())
        text.detach()
    except (*BROKEN, CalamineError, ArchiveError) as error:
        raise TableError(f"cannot be read: {error}. Save it again.") from None
    return [name for name in workbook.sheet_names if name != shown[0].name]


def _check_workbook(table: Path | BinaryIO) -> None:
    """Raise ArchiveError for a workbook that would fill the memory, and TableError for one with
    formulas that no program has computed yet, whose cells would be empty."""
    with zipfile.ZipFile(table) as archive:
        size = sum(member.compress_size for member in archive.infolist())
        left = max(SMALL, size * MOST_RATIO)
        for member in archive.infolist():
            with archive.open(member) as packed:
                content = packed.read(left + 1)
            left -= len(content)
            if left < 0:
                raise ArchiveError("it is much larger than it seems")
            if not member.filename.startswith("xl/worksheets/"):
                continue
            last = max((int(row) for row in ROW.findall(content)), default=0)
            wide = max(map(len, COLUMN.findall(content)), default=0)
            # Python-calamine makes room for the whole rectangle at once.
            if last * (26 ** min(wide, 3)) > 26**2 * MOST_CELLS:
                raise TableError(
                    f"has cells down to row {last:,} and far to the right; delete those beside the "
                    "table."
                )
            if NO_RESULT.search(content):
                raise TableError(
                    "has formulas whose results are not stored; open it in a spreadsheet program "
                    "and save it."
                )


def _written_cell(cell: Any) -> Any:
    """A cell as a person sees it: whole numbers without a point, times in ISO's form."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell.isoformat() if isinstance(cell, date | time) else cell


def _cell_name(row: int, column: int) -> str:
    letters = ""
    while column >= 0:
        letters, column = chr(65 + column % 26) + letters, column // 26 - 1
    return f"{letters}{row + 1}"


MOST_MEMBERS = 10_000
# Texts shrink to a fifth and votes to a fiftieth; an archive that shrinks further is meant to fill
# the disk.
MOST_RATIO = 200
SMALL = 50_000_000  # bytes to which any archive may grow
BROKEN = (
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


class ArchiveError(Exception):
    """An archive that is not unpacked; the message continues a sentence."""


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a temporary folder with the files of a zip archive, or the one in a .gz file.

    Raises ArchiveError.
    """
    with tempfile.TemporaryDirectory(prefix="ringside-") as name:
        folder = Path(name)
        most = max(SMALL, path.stat().st_size * MOST_RATIO)
        try:
            if path.suffix.lower() == ".gz":
                with gzip.open(path) as packed:
                    _copy_decompressed(packed, folder / path.stem, most)
            else:
                with zipfile.ZipFile(path) as archive:
                    _unpack_archive(archive, folder, most)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise ArchiveError("contains two files with the same name; pack it again") from None
        except BROKEN as error:
            raise ArchiveError(f"cannot be unpacked: {error}; pack it again") from None
        except OSError as error:
            if error.errno != errno.EINVAL:  # an offset before the start of the archive
                raise
            raise ArchiveError("cannot be unpacked: it is damaged; pack it again") from None
        inside = list(folder.iterdir())
        yield inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _unpack_archive(archive: zipfile.ZipFile, folder: Path, most: int) -> None:
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > MOST_MEMBERS:
        raise ArchiveError(f"has {len(members):,} files; at most {MOST_MEMBERS:,} are allowed")
    for member in members:
        _check_member(member)
    if (size := sum(member.file_size for member in members)) > most:
        raise ArchiveError(
            f"would unpack to {size:,} bytes, more than {MOST_RATIO} times its size; unpack it "
            "yourself if you trust it"
        )
    left = most
    for member in members:
        target = folder / member.filename
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as packed:
            left -= _copy_decompressed(packed, target, left)


def _copy_decompressed(packed: IO[bytes] | gzip.GzipFile, target: Path, most: int) -> int:
    """Write the content and return its size; raises ArchiveError for more than `most` bytes."""
    size = 0
    with target.open("xb") as copy:
        while chunk := packed.read(1 << 20):
            size += len(chunk)
            if size > most:
                raise ArchiveError(
                    f"would unpack to more than {most:,} bytes; unpack it yourself if you trust it"
                )
            copy.write(chunk)
    return size


def _check_member(member: zipfile.ZipInfo) -> None:
    name, mode = PurePosixPath(member.filename.replace("\\", "/")), member.external_attr >> 16
    if name.is_absolute() or ".." in name.parts or ":" in member.filename:
        raise ArchiveError(
            f"contains {member.filename[:100]!r}, a path outside the archive; pack it again"
        )
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise ArchiveError(f"has {member.filename[:100]!r}, a link or device; pack the file itself")
    if member.flag_bits & 1:
        raise ArchiveError("is encrypted; pack it without a password")
