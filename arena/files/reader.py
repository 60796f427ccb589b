"""CSV and JSON from any program, whatever its encoding, as a stream of numbered rows. Pure.

An unreadable row yields an InputError in its place; an unusable file raises FileError.
"""

import codecs
import csv
import errno
import io
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from charset_normalizer import from_bytes
from pydantic_core import from_json

from arena.files.copies import PARQUET, Copy, TableError, write_parquet, write_sheet
from arena.validation import TEXT_LIMIT, InputError, decode_json, json_type, numbered, quoted

LINE_LIMIT = 16_000_000
CSV_ROW_LIMIT = 1_048_576  # a spreadsheet's maximum; blank rows count
CHUNK = 1 << 16
BOM = "\ufeff"
BLANK = b"\xef\xbb\xbf\xff\xfe \t\r\n\0"

SAVE_AS_CSV = "open it in its own program and save it as CSV"
OFFICE_ZIPS = {
    b"opendocument.spreadsheet": "a LibreOffice sheet",
    b"[Content_Types].xml": "an Excel workbook or another Office file",
}
OTHER_FORMATS = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": f"an old Excel workbook or Office file; {SAVE_AS_CSV}",
    b"%PDF": f"a PDF; {SAVE_AS_CSV}",
    b"{\\rtf": f"formatted text (RTF); {SAVE_AS_CSV}",
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"PK\x03\x04": "a zip archive; unpack it first, or save it as CSV if it is an Excel workbook",
    b"\x28\xb5\x2f\xfd": "a zstd archive; unpack it first",
    b"\xfd7zXZ": "an xz archive; unpack it first",
    b"BZh": "a bzip2 archive; unpack it first",
}
UTF_16 = {codecs.BOM_UTF16_LE: "UTF-16-LE", codecs.BOM_UTF16_BE: "UTF-16-BE"}
# Only encodings that programs still write: an exotic one could win the guess.
ENCODINGS = {
    "cp1252": "Windows-1252",
    "cp1250": "Windows-1250",
    "cp1251": "Windows-1251",
    "cp1253": "Windows-1253",
    "cp1254": "Windows-1254",
    "cp1255": "Windows-1255",
    "cp1256": "Windows-1256",
    "koi8_r": "KOI8-R",
    "cp932": "Shift JIS",
    "euc_jp": "EUC-JP",
    "gb18030": "GB 18030",
    "big5": "Big5",
    "cp949": "Korean (CP949)",
    "mac_roman": "Mac Roman",
}
GUESS_FROM = 100_000  # bytes of lines that are not ASCII
FEWEST_BYTES = 8  # bytes that are not ASCII; fewer are not enough for a guess
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


class FileError(Exception):
    """A file or folder that cannot be used; the message is a sentence for people."""


class RepeatedColumnError(FileError):
    """A header that names a column twice."""


class TooWideError(FileError):
    """A table of so many columns that nobody looks for those that are needed."""


class UnknownTableError(FileError):
    """A table whose columns say too little; somebody has to choose what they are."""


def unreadable(path: Path, error: OSError) -> FileError:
    """Return the error that explains why `path` cannot be read."""
    if isinstance(error, FileNotFoundError):
        return FileError(f"There is no file or folder {path}.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return FileError(f"{path} cannot be read: no permission.")
    return FileError(f"{path} cannot be read: {error.strerror or error}.")


class Source:
    """A file on disk or in memory, read as UTF-8; `subject` names it in messages.

    `notice` is a sentence for people if the encoding was guessed, else ''.
    """

    def __init__(
        self, content: Path | bytes, subject: str, encoding: str = "UTF-8", notice: str = ""
    ) -> None:
        self.content, self.subject = content, subject
        self.encoding, self.notice = encoding, notice
        self.copy: Copy | None = None
        self.other_sheets: list[str] = []  # of a workbook, once it was opened
        self.line_limit = LINE_LIMIT
        self.row_limit = CSV_ROW_LIMIT if isinstance(content, bytes) else sys.maxsize

    @classmethod
    def at(cls, path: Path) -> "Source":
        """Return the file at `path`, UTF-8, UTF-16 or Parquet, to be read as a stream.

        In any other encoding, each row that is not UTF-8 is bad. Raises FileError if the file is
        empty, cannot be read, or is plainly not text.
        """
        try:
            if path.exists() and not path.is_file():
                raise FileError(f"{path} is not an ordinary file.")
            with path.open("rb") as stream:
                start = stream.read(4096)
        except OSError as error:
            raise unreadable(path, error) from None
        if kind := _table_kind(start):
            return cls(path, str(path), kind)
        _refuse_other_formats(start, str(path))
        encoding = _utf_16(start)
        if not encoding:
            _refuse_binary(start, str(path))
        return cls(path, str(path), encoding or "UTF-8")

    @classmethod
    def of(
        cls, data: bytes, subject: str = "The file", *, most: int = 0, guess: bool = True
    ) -> "Source":
        """Return `data` decoded from UTF-8, UTF-16 or, with `guess`, its most likely encoding.

        Raises FileError for more than `most` bytes (0: no limit) and for data that is not text.
        """
        if most and len(data) > most:
            size, limit = math.ceil(len(data) / 1e5) / 10, most / 1e6
            raise FileError(f"{subject} is {size:,.1f} MB; the limit is {limit:,.1f} MB.")
        if kind := _table_kind(data[:4096]):
            packed = cls(data, subject, kind)
            return cls(packed.open().read(), subject, kind, packed.notice)
        _refuse_other_formats(data, subject)
        data, encoding, notice = _decoded_text(data, subject, guess=guess)
        if b"\0" in data:
            line = data.count(b"\n", 0, data.index(b"\0")) + 1
            raise FileError(
                f"{subject} has a NUL byte in line {line:,}, which cannot be stored; "
                "save it as CSV UTF-8."
            )
        _refuse_binary(data[:4096], subject)
        return cls(data, subject, encoding, notice)

    def open(self) -> BinaryIO:
        """Open the file as UTF-8; Parquet and Excel as CSV."""
        if isinstance(self.content, bytes) and not _table_kind(self.content[:4096]):
            return io.BytesIO(self.content)
        if isinstance(self.content, Path) and self.encoding == "UTF-8":
            return self.content.open("rb")
        if self.copy is None:
            self.copy = Copy()
            self._convert_to_csv(self.copy.file)
        return self.copy.open()

    def _convert_to_csv(self, copy: BinaryIO) -> None:
        table = self.content if isinstance(self.content, Path) else io.BytesIO(self.content)
        try:
            if self.encoding == "Parquet":
                write_parquet(table, copy)
            elif self.encoding == "Excel":
                self.other_sheets = write_sheet(table, copy)
            elif isinstance(self.content, Path):
                with self.content.open(encoding=self.encoding, newline="") as text:
                    shutil.copyfileobj(text, codecs.getwriter("utf-8")(copy), CHUNK)
        except UnicodeDecodeError:
            raise _not_utf_16(self.subject) from None
        except TableError as error:
            raise FileError(f"{self.subject} is {self.encoding}, but {error}") from None

    @property
    def is_table(self) -> bool:
        """Whether it is a table, whatever its text begins with."""
        return self.encoding in ("Parquet", "Excel")

    def first_character(self) -> str:
        """Return the first character that is not blank: "{" for JSON Lines, "[" for an array."""
        with self.open() as stream:
            while chunk := stream.read(CHUNK):
                if start := chunk.lstrip(BLANK)[:1]:
                    return start.decode("latin-1")
        return ""


def _table_kind(start: bytes) -> str:
    """Name the kind of a file that is a table, but no text; "" for others."""
    if start.startswith(b"PK\x03\x04") and b"xl/" in start:
        return "Excel"
    return "Parquet" if start.startswith(PARQUET) else ""


def _refuse_other_formats(start: bytes, subject: str) -> None:
    if not start.strip(BLANK):
        raise FileError(f"{subject} is empty.")
    if start.startswith(b"PK\x03\x04"):
        for inside, words in OFFICE_ZIPS.items():
            if inside in start:
                raise FileError(f"{subject} is {words}; {SAVE_AS_CSV}.")
    for magic, words in OTHER_FORMATS.items():
        if start.startswith(magic):
            raise FileError(f"{subject} is {words}.")


def _refuse_binary(start: bytes, subject: str) -> None:
    if len(_CONTROL.findall(start)) * 10 > len(start):
        raise FileError(f"{subject} is a binary file, not text; save it as CSV or JSON Lines.")


def _utf_16(start: bytes) -> str:
    """Name the UTF-16 variant, known by its BOM or four ASCII characters; '' if it is neither."""
    if name := UTF_16.get(start[:2]):
        return name
    even, odd = start[0:8:2], start[1:8:2]
    if len(start) >= 8 and not any(odd) and all(even):
        return "UTF-16-LE"
    return "UTF-16-BE" if len(start) >= 8 and not any(even) and all(odd) else ""


def _not_utf_16(subject: str) -> FileError:
    return FileError(f"{subject} begins as UTF-16, but is not valid UTF-16; save it as CSV UTF-8.")


def _decoded_text(data: bytes, subject: str, *, guess: bool) -> tuple[bytes, str, str]:
    """Return `data` as UTF-8, its original encoding, and a notice if that was guessed."""
    if encoding := _utf_16(data[:8]):
        try:
            return data.decode(encoding).encode(), encoding, ""
        except UnicodeDecodeError:
            raise _not_utf_16(subject) from None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    else:
        return data, "UTF-8 with BOM" if text.startswith(BOM) else "UTF-8", ""
    if data.startswith(codecs.BOM_UTF8) or _is_mostly_utf_8(data):
        raise FileError(
            f"{subject} is UTF-8, but line {line:,} is not; save it as CSV UTF-8 again."
        )
    codec = guess_encoding(data)
    if not guess or not codec:
        seems = f" and seems to be {ENCODINGS[codec]}" if codec else ""
        raise FileError(
            f"{subject}: line {line:,} is not UTF-8{seems}. Save the file as UTF-8 (in a "
            "spreadsheet, choose CSV UTF-8), then try again."
        )
    notice = (
        f"{subject} is not UTF-8 and was read as {ENCODINGS[codec]}. Check accented letters and "
        "quotation marks."
    )
    return data.decode(codec).encode(), ENCODINGS[codec], notice


def _is_mostly_utf_8(data: bytes) -> bool:
    """Whether valid non-ASCII characters of UTF-8 outnumber the invalid byte sequences."""
    text = data.decode("utf-8", "replace")
    unknown = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) - unknown > unknown


def guess_encoding(data: bytes) -> str:
    """Return the most likely codec of ENCODINGS for `data`; '' if none can decode it.

    Windows-1252 is the most common one; another wins only if its text is more coherent."""
    sample = b"\n".join(line for line in data.splitlines() if not line.isascii())[:GUESS_FROM]
    candidates = ["cp1252"]
    if sum(byte > 0x7F for byte in sample) >= FEWEST_BYTES:
        matches = from_bytes(sample, cp_isolation=list(ENCODINGS))
        best = matches.best()
        western = next((match for match in matches if match.encoding == "cp1252"), None)
        if (
            best is not None
            and (western is None or best.coherence > western.coherence)
            and str(best) != sample.decode("cp1252", "replace")
        ):
            candidates.insert(0, best.encoding)
    for codec in candidates:
        with suppress(UnicodeDecodeError):
            data.decode(codec)
            return codec
    return ""


Values = dict[str, Any]

MOST_VALUES = 1_500_000  # 10,000 rows with a hundred variables each have a million

# The csv module's limit applies to the whole process: 131,072 characters unless it is raised.
csv.field_size_limit(max(csv.field_size_limit(), TEXT_LIMIT))


@dataclass(slots=True)
class Row:
    """One row: its number, the line it begins on, its bytes [start, end), and its content.

    Rows of CSV are numbered as in a spreadsheet: the header is row 1, and blank rows count. A row
    of JSON Lines is numbered by its line, an element of a JSON array by its position. `content` is
    the row's values, the object parsed from them without `unread` ones, or an InputError.
    """

    number: int
    line: int
    start: int
    end: int
    content: Any
    unread: tuple[str, ...] = ()


class _Lines:
    """The lines of a stream of UTF-8, with the number and the end of the last one.

    Lines end with \\n, \\r\\n or \\r. A line of more than `limit` bytes is cut there and flagged,
    so that no line can fill the memory.
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
                yield from self._parts_of_lines(line)

    def _parts_of_lines(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines in a chunk that contains \\r or was cut at the limit."""
        *lines, last = chunk.splitlines(keepends=True)
        while lines and last[-1:] not in (b"\n", b"\r"):
            yield from map(self._counted_line, lines)
            *lines, last = (last + self.stream.readline(self.limit - len(last))).splitlines(True)
        yield from map(self._counted_line, lines)
        self._counted_line(last)
        rest = last if len(last) >= self.limit else b"\n"
        while rest and not rest.endswith(b"\n"):
            self.too_long = True
            rest = self.stream.readline(self.limit)
            self.end += len(rest)
        yield last

    def _counted_line(self, line: bytes) -> bytes:
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
        """Return the error of a row with a line that was too long, and clear the flag."""
        self.too_long = False
        return InputError(
            f"is longer than {self.limit:,} bytes; the limit for one text is {TEXT_LIMIT:,}"
        )


DELIMITERS = ",;\t|"
# The delimiter of a file with one column, so that its texts keep their commas.
ONE_COLUMN = "\x1f"
TOO_LONG = f"has a text longer than the limit of {TEXT_LIMIT:,} characters"
# Excel names the delimiter this way, in a line above the header.
_SEPARATOR = re.compile(r"sep=[,;\t|]\r?\n", re.IGNORECASE)
_QUOTED = re.compile(r'^"(.*)"$')
_GAPS = re.compile(r"[\s-]+")
_ENDS = " \t?:*"  # of questions in forms


@dataclass(frozen=True)
class Header:
    """The first row of a CSV file that is not blank, and the delimiter of the file.

    `names` are the columns' names as written; `keys` are their keys in the rows, '' for a column
    without a name. `end` is the offset after the header's last byte.
    """

    names: Sequence[str]
    keys: Sequence[str]
    delimiter: str
    row: int
    end: int


def folded(name: str) -> str:
    """Return a column's name in the form used for comparison: `Prompt ID` is `prompt_id`."""
    return _GAPS.sub("_", name.strip().rstrip(_ENDS).casefold())


def csv_header(
    source: Source,
    *,
    suffices: Callable[[Sequence[str]], bool],
    wanted: str,
    key: Callable[[str], str] = str.lower,
    most_columns: int = 5_000,
    may_repeat: bool = False,
) -> Header:
    """Find the delimiter with which the first row names all needed columns, and most others.

    Raises FileError, whose message ends with `wanted`. A name that may repeat is numbered from its
    second column on.
    """
    fitting = []
    for delimiter in DELIMITERS:
        row = next(
            (row for row in _csv_records(source, delimiter, strict=False) if row.content), None
        )
        if row is None or isinstance(row.content, InputError):
            continue
        check_width(source.subject, row.content, most_columns)
        # csv leaves quotes that follow a blank in the name, as in `left, "right"`.
        names = [_QUOTED.sub(r"\1", name.strip()) for name in row.content]
        if may_repeat:
            names = _numbered_from_the_second(names)
        if suffices(names):
            fitting.append(Header(names, list(map(key, names)), delimiter, row.number, row.end))
    if not fitting:
        with source.open() as stream:
            start = stream.read(CHUNK).decode("utf-8", "replace").lstrip(BOM).strip()
        raise FileError(
            f"{source.subject} must name its columns in the first row, but that row is "
            f"{quoted(start.partition(chr(10))[0].strip())}. {wanted}"
        )
    header = max(fitting, key=lambda header: len(header.names))
    if twice := [name for name in header.keys if name and header.keys.count(name) > 1]:
        raise RepeatedColumnError(
            f"{source.subject} names the column {quoted(twice[0])} twice in its first row. Rename "
            "or delete one of them."
        )
    return header if len(header.names) > 1 else replace(header, delimiter=ONE_COLUMN)


def _numbered_from_the_second(names: list[str]) -> list[str]:
    earlier = (names[:n].count(name) for n, name in enumerate(names))
    return [f"{name} {n + 1}" if n else name for name, n in zip(names, earlier, strict=True)]


def check_width(subject: str, names: Sized, most: int) -> None:
    """Raise TooWideError for more than `most` columns."""
    if len(names) > most:
        raise TooWideError(f"{subject} has {len(names):,} columns; at most {most:,} are allowed.")


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
                row.content = _values_by_key(keys, cells)
        yield row


def _values_by_key(keys: Sequence[str], cells: list[str]) -> Values | InputError:
    """Return the values by key, dropping blank cells at the end and in columns without a name."""
    while len(cells) > len(keys) and not cells[-1].strip():
        cells.pop()
    if len(cells) != len(keys):
        fields = numbered(len(cells), "field")
        remedy = "leave missing ones empty"
        if len(cells) > len(keys):
            remedy = "put text that contains delimiters in quotes"
        return InputError(f"has {fields}; the header has {len(keys)}: {remedy}")
    pairs = list(zip(keys, cells, strict=True))
    # A first column without a name has the numbers of the rows, as pandas writes them.
    if any(cell.strip() for key, cell in pairs[1:] if not key):
        return InputError("has a value in a column without a name; name or delete the column")
    return {key: cell for key, cell in pairs if key}


def _csv_records(source: Source, delimiter: str, *, strict: bool = True) -> Iterator[Row]:
    """Yield every record, including the header and blank ones."""
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
                is_long = "field limit" in str(error)
                content = InputError(
                    TOO_LONG if is_long else f"is not CSV: {error}; double each quote within a text"
                )
            if content is None:
                return
            number += 1
            if number > row_limit:
                raise FileError(
                    f"{source.subject} has more than {row_limit:,} rows, counting blank ones."
                )
            if lines.too_long:
                content = lines.length_error()
            yield Row(number, line, start, lines.end, content)


INFINITE = (math.inf, -math.inf)
DOCUMENT_BYTES = 500_000_000
# Matches up to the next list, object or comma, or to the end. A text ends with its line, as in
# JSON. The pattern never backtracks, so it takes linear time.
_VALUE = re.compile(rb"""(?:[^"\[{,]++|"(?:[^"\\\r\n]++|\\.)*+"?)*+(?:[\[{,]|\Z)""")


def holds_more_values(text: bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON has more lists, objects and commas than `most`, give or take one.

    Values are counted before parsing, because a parsed value takes fifty times its bytes.
    """
    if len(text) <= most:
        return False
    return next(islice(_VALUE.finditer(text), most + 1, None), None) is not None


def json_object(value: Any) -> Values:
    """Return `value` if it is an object; raises InputError."""
    if not isinstance(value, dict):
        raise InputError(f"is {json_type(value)}, not a JSON object")
    return value


def is_json(source: Source) -> bool:
    return source.first_character() in ("{", "[")


def json_rows(source: Source) -> Iterator[Row]:
    """Yield the rows of JSON Lines, or of a JSON array, which is read into memory as a whole."""
    return _rows_of_array(source) if source.first_character() == "[" else json_lines(source)


def json_lines(source: Source) -> Iterator[Row]:
    with source.open() as stream:
        lines, start = _Lines(stream, source.line_limit), 0
        for line in lines:
            if not line.isspace() and line != codecs.BOM_UTF8:
                content = lines.length_error() if lines.too_long else _object_in_line(line)
                yield Row(lines.number, lines.number, start, lines.end, content)
            start = lines.end


def _object_in_line(line: bytes) -> Values | InputError:
    """Parse a line with the fast parser; if that fails, again with the exact one for the reason."""
    with suppress(ValueError):
        values = from_json(line, allow_inf_nan=False)
        # A number as large as 1e999 becomes infinite.
        if type(values) is dict and not any(number in values.values() for number in INFINITE):
            return values
    try:
        return json_object(decode_json(line.decode().removeprefix(BOM), of_file=True))
    except UnicodeDecodeError as error:
        return InputError(f"is not valid UTF-8 (byte {error.start + 1} of the line)")
    except InputError as error:
        return error


def json_document(source: Source) -> Any:
    """Return the content of one JSON document. Raises FileError."""
    with source.open() as stream:
        data = stream.read(DOCUMENT_BYTES + 1)
    lines = "one JSON object per line"
    if len(data) > DOCUMENT_BYTES:
        most = f"{DOCUMENT_BYTES // 10**6} MB"
        raise FileError(f"{source.subject} is a JSON document of over {most}; save {lines}.")
    try:
        return decode_json(data.decode().removeprefix(BOM), is_file=True)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileError(
            f"{source.subject}: line {line:,} is not UTF-8. Save the file as UTF-8."
        ) from None
    except InputError as error:
        must = f" It must be one JSON document, or {lines}." if "not JSON" in error.reason else ""
        raise FileError(f"{source.subject} {error.reason}.{must}") from None


def _rows_of_array(source: Source) -> Iterator[Row]:
    for number, element in enumerate(json_document(source), start=1):
        try:
            yield Row(number, number, 0, 0, json_object(element))
        except InputError as error:
            yield Row(number, number, 0, 0, error)
