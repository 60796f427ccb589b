"""CSV as columns, for files of millions of rows. Pure.

A block of whole lines is read as columns only where `reader` is certain to find the same rows in
it. Any other block, and every bad row, is left to `reader`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from arena.files.copies import HAS_PYARROW
from arena.files.reader import Header, Row, Source, csv_rows
from arena.validation import DETAILS_LIMIT

BLOCK_BYTES = 1 << 22
SPLIT_BYTES = 1 << 16  # a bad row makes its block slow to read, so a longer one is halved
THREADS, AHEAD = 2, 3

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Column:
    """The texts of one column: an Arrow array with one code per row, and what the codes mean."""

    codes: Any
    texts: list[str]

    def is_plain(self, limit: int) -> bool:
        """Whether all texts are printable ASCII, of 1 to `limit` characters, with no spaces at
        their ends or in a row. Much faster than `unlike`.
        """
        joined = " ".join(["", *self.texts, ""])
        is_printable = joined.isascii() and joined.isprintable()
        return is_printable and "  " not in joined and max(map(len, self.texts)) <= limit

    def unlike(self, pattern: str) -> list[int]:
        """The codes of the texts that do not match a pattern (RE2)."""
        import pyarrow
        from pyarrow import compute

        texts = pyarrow.array(self.texts, pyarrow.string())
        odd = compute.invert(compute.match_substring_regex(texts, pattern))
        places: list[int] = compute.indices_nonzero(odd).to_pylist()
        return places

    def meets(self, other: "Column") -> bool:
        """Whether the two columns have the same text in some row."""
        codes = {text: code for code, text in enumerate({*self.texts, *other.texts})}
        ours, theirs = ([codes[text] for text in column.texts] for column in (self, other))
        return bool((self.coded(ours) == other.coded(theirs)).any())

    def coded(self, numbers: Sequence[int]) -> Any:
        """Map each row to its text's entry in `numbers`, as a NumPy array."""
        import pyarrow

        return pyarrow.array(numbers, pyarrow.int64()).to_numpy()[self.codes.to_numpy()]


@dataclass(frozen=True, eq=False)
class Block:
    """`n_lines` whole lines of a CSV file, from the offset `start` on, below `line` other lines.

    `is_plain`: no quoted field contains a quote, and none continues in the next block. A block that
    is not plain stands for the rest of its file.
    """

    source: Source
    header: Header
    head: bytes
    data: bytes
    start: int
    line: int
    n_lines: int
    is_plain: bool

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def columns(self, wanted: Sequence[str]) -> dict[str, Column] | None:
        """The wanted columns by key; None if the rows must be read one by one."""
        keys = self.header.keys
        if not self.is_plain or "" in keys or b"\0" in self.data or not _is_utf_8(self.data):
            return None
        import pyarrow
        from pyarrow import csv

        texts = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        try:
            table = csv.read_csv(
                pyarrow.BufferReader(self.data),
                # With threads, the memory of each one grows with the number of blocks.
                csv.ReadOptions(column_names=list(keys), use_threads=False),
                csv.ParseOptions(delimiter=self.header.delimiter, newlines_in_values=True),
                csv.ConvertOptions(
                    include_columns=list(wanted), column_types=dict.fromkeys(wanted, texts)
                ),
            ).unify_dictionaries()
        except pyarrow.ArrowInvalid:  # a row with more or fewer fields
            return None
        if table.num_rows != self.n_lines:  # a blank row, or a text of several lines
            return None
        return {key: _column_as_text(pyarrow, table[key]) for key in wanted}

    def halves(self) -> list["Block"]:
        """The block in two, divided after a row; empty if it is too short, or not plain."""
        middle = self.data.find(b"\n", len(self.data) // 2) + 1
        first, second = self.data[:middle], self.data[middle:]
        is_possible = self.is_plain and len(self.data) > SPLIT_BYTES and first and second
        if not is_possible or first.count(b'"') % 2:  # within a text of several lines
            return []
        n_lines = first.count(b"\n")
        return [
            replace(self, data=first, n_lines=n_lines),
            replace(
                self,
                data=second,
                start=self.start + middle,
                line=self.line + n_lines,
                n_lines=self.n_lines - n_lines,
            ),
        ]

    def rows(self) -> Iterator[Row]:
        """Yield the rows one by one, with their lines and offsets in the file."""
        if not self.is_plain:
            yield from (
                row for row in csv_rows(self.source, self.header) if row.start >= self.start
            )
            return
        part = Source(self.head + self.data, self.source.subject)
        part.row_limit = self.source.row_limit
        further, lines = self.start - len(self.head), self.line - self.head.count(b"\n")
        for row in csv_rows(part, self.header):
            row.start, row.end, row.line = row.start + further, row.end + further, row.line + lines
            yield row


def csv_blocks(source: Source, header: Header) -> Iterator[Block]:
    """Yield the file below its header in blocks of whole lines."""
    with source.open() as stream:
        head = stream.read(header.end)
        start, line, rest = len(head), head.count(b"\n"), b""
        ends_plainly = HAS_PYARROW and _has_plain_ends(head) and head.endswith(b"\n")
        at_end = False
        while not at_end:
            chunk = stream.read(BLOCK_BYTES)
            at_end = len(chunk) < BLOCK_BYTES
            data = rest + chunk
            whole = len(data) if at_end else data.rfind(b"\n") + 1
            data, rest = data[:whole], data[whole:]
            if at_end and not data:
                return
            n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
            is_plain = ends_plainly and bool(data) and _is_plain_csv(data, header.delimiter)
            yield Block(source, header, head, data, start, line, n_lines, is_plain)
            if not is_plain:
                return
            start, line = start + len(data), line + n_lines


def read_ahead(read: Callable[[Block], T], blocks: Iterable[Block]) -> Iterator[T]:
    """Yield what `read` makes of each block, in threads that are a few blocks ahead."""
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for block in blocks:
            waiting.append(pool.submit(read, block))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _is_plain_csv(data: bytes, delimiter: str) -> bool:
    """Whether lines end with \\n or \\r\\n, are short, and quotes enclose whole fields only.

    In that case, every second piece between quotes is outside of them, between delimiters.
    """
    if not _has_plain_ends(data) or _has_long_line(data):
        return False
    if b'"' not in data:
        return True
    pieces = data.split(b'"')
    if len(pieces) % 2 == 0:
        return False
    first, *between, last = pieces[::2]
    before, after = (delimiter.encode(), b"\n"), (delimiter.encode(), b"\n", b"\r\n")
    return (
        (not first or first.endswith(before))
        and (not last or last.startswith(after))
        and all(piece.startswith(after) and piece.endswith(before) for piece in set(between))
    )


def _has_plain_ends(data: bytes) -> bool:
    return b"\r" not in data or data.count(b"\r") == data.count(b"\r\n")


def _has_long_line(data: bytes) -> bool:
    """Whether a line may be longer than a vote's details; never False if one is."""
    step = DETAILS_LIMIT // 2
    ends = (data.find(b"\n", start, start + step) for start in range(0, len(data) - step + 1, step))
    return any(end < 0 for end in ends)


def _is_utf_8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _column_as_text(pyarrow: Any, column: Any) -> Column:
    """One array of codes for all chunks, which share their dictionary."""
    chunks = column.chunks
    codes = pyarrow.concat_arrays([chunk.indices for chunk in chunks])
    return Column(codes, chunks[0].dictionary.to_pylist())
