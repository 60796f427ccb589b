"""Files that are written piece by piece, in constant memory: CSV, JSON Lines, Parquet and ZIP."""

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from arena.validation import escape_cells

LINES_AT_ONCE = 500
AT_ONCE = 1000
Row = Mapping[str, Any]
Columns = Mapping[str, str]
# Of a Parquet file a group is held in memory, and 25 kB about each group until the file is closed.
ROWS_IN_GROUP, BYTES_IN_GROUP = 20_000, 8_000_000


class _Chunks(io.RawIOBase):
    """Keeps what is written to it until it is taken out."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._chunks.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self._chunks)
        self._chunks.clear()
        return taken


def as_jsonl(rows: Iterable[Row], columns: Columns | None = None) -> Iterator[bytes]:
    """Yield rows as lines of JSON, many at a time."""
    for batch in batches(rows, LINES_AT_ONCE):
        yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in batch).encode()


def as_csv(rows: Iterable[Row], columns: Columns) -> Iterator[bytes]:
    """Yield rows as CSV with a header line: messages as JSON, and no text that a spreadsheet would
    run as a formula."""
    yield _csv_lines([columns])
    for batch in batches(rows, LINES_AT_ONCE):
        yield _csv_lines(escape_cells(_cell(row[name]) for name in columns) for row in batch)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _csv_lines(rows: Iterable[Iterable[Any]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def as_parquet(rows: Iterable[Row], columns: Columns) -> Iterator[bytes]:
    """Yield rows as a Parquet file, a group of rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    types = {
        "name": pa.string(),
        "text": pa.large_string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "flag": pa.bool_(),
        "messages": pa.list_(message),
    }
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    chunks = _Chunks()
    with pq.ParquetWriter(pa.PythonFile(chunks, mode="w"), schema, compression="zstd") as file:
        group: list[Any] = []
        for batch in batches(rows, AT_ONCE):
            group.append(pa.RecordBatch.from_pylist(batch, schema=schema))
            n_bytes = sum(part.nbytes for part in group)
            if len(group) * AT_ONCE >= ROWS_IN_GROUP or n_bytes >= BYTES_IN_GROUP:
                file.write_table(pa.Table.from_batches(group))
                group.clear()
                yield chunks.take()
        if group:
            file.write_table(pa.Table.from_batches(group))
    yield chunks.take()


def as_zip(members: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """Yield a zip archive of these members, each written while it is read."""
    chunks = _Chunks()
    with zipfile.ZipFile(chunks, "w") as archive:
        for name, content in members:
            with archive.open(name, "w", force_zip64=True) as member:
                for chunk in content:
                    member.write(chunk)
                    yield chunks.take()
    yield chunks.take()


def batches(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    source = iter(rows)
    while batch := list(islice(source, size)):
        yield batch
