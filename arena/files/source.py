"""Files of text as UTF-8, whatever their encoding; what is no text is refused. Pure."""

import codecs
import errno
import io
import math
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from charset_normalizer import from_bytes

LINE_LIMIT = 16_000_000
CSV_ROW_LIMIT = 1_048_576  # as many as a spreadsheet has, blank ones included
CHUNK = 1 << 16
BOM = "\ufeff"
BLANK = b"\xef\xbb\xbf\xff\xfe \t\r\n\0"

SAVE_AS_CSV = "open it in its program and save it as CSV"
OFFICE_ZIPS = {
    b"xl/": "an Excel workbook",
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
    b"PAR1": "a Parquet file; save it as CSV or JSON Lines first",
}
UTF_16 = {codecs.BOM_UTF16_LE: "UTF-16-LE", codecs.BOM_UTF16_BE: "UTF-16-BE"}
# What programs still save, so that exotic encodings do not compete in a guess.
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
FEWEST_BYTES = 8  # that are not ASCII: fewer tell nothing
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


class FileError(Exception):
    """A file or folder that cannot be used; the message is a sentence for people."""


def unreadable(path: Path, error: OSError) -> FileError:
    """Say why the system does not let us read `path`."""
    if isinstance(error, FileNotFoundError):
        return FileError(f"There is no file or folder {path}.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return FileError(f"{path} cannot be read: no permission.")
    return FileError(f"{path} cannot be read: {error.strerror or error}.")


class Source:
    """A file on disk or in memory, read as UTF-8; `subject` names it in messages.

    `notice` is a sentence that people should see where the encoding was guessed.
    """

    def __init__(
        self, content: Path | bytes, subject: str, encoding: str = "UTF-8", notice: str = ""
    ) -> None:
        self.content, self.subject = content, subject
        self.encoding, self.notice = encoding, notice
        self.line_limit = LINE_LIMIT
        self.row_limit = CSV_ROW_LIMIT if isinstance(content, bytes) else sys.maxsize

    @classmethod
    def at(cls, path: Path) -> "Source":
        """Return the file at `path`, to be read as a stream: UTF-8 or UTF-16.

        In any other encoding its rows are bad, each by itself. Raises FileError for what is empty,
        cannot be read, or is plainly not text.
        """
        try:
            if path.exists() and not path.is_file():
                raise FileError(f"{path} is not an ordinary file.")
            with path.open("rb") as stream:
                start = stream.read(4096)
        except OSError as error:
            raise unreadable(path, error) from None
        _refuse_other_formats(start, str(path))
        encoding = _utf_16(start)
        if not encoding:
            _refuse_binary(start, str(path))
        return cls(path, str(path), encoding or "UTF-8")

    @classmethod
    def of(
        cls, data: bytes, subject: str = "The file", *, most: int = 0, guess: bool = True
    ) -> "Source":
        """Return `data` decoded: UTF-8 or UTF-16, or else, with `guess`, what it seems to be.

        Raises FileError for more than `most` bytes (0 is no limit) and for what is not text.
        """
        if most and len(data) > most:
            size, limit = math.ceil(len(data) / 1e5) / 10, most / 1e6
            raise FileError(f"{subject} has {size:,.1f} MB; at most {limit:,.1f} MB are allowed.")
        _refuse_other_formats(data, subject)
        data, encoding, notice = _decoded(data, subject, guess=guess)
        if b"\0" in data:
            line = data.count(b"\n", 0, data.index(b"\0")) + 1
            raise FileError(
                f"{subject} has a NUL byte in line {line:,}, which cannot be stored; "
                "save it as CSV UTF-8."
            )
        _refuse_binary(data[:4096], subject)
        return cls(data, subject, encoding, notice)

    def open(self) -> BinaryIO:
        """Open the file as UTF-8."""
        if isinstance(self.content, bytes):
            return io.BytesIO(self.content)
        if self.encoding == "UTF-8":
            return self.content.open("rb")
        copy = tempfile.TemporaryFile()  # noqa: SIM115  (it is returned open)
        try:
            with self.content.open(encoding=self.encoding, newline="") as text:
                shutil.copyfileobj(text, codecs.getwriter("utf-8")(copy), CHUNK)
        except UnicodeDecodeError:
            copy.close()
            raise _not_utf_16(self.subject) from None
        copy.seek(0)
        return copy

    def first_character(self) -> str:
        """Return the first that is not blank: "{" begins JSON Lines, and "[" a JSON array."""
        with self.open() as stream:
            while chunk := stream.read(CHUNK):
                if start := chunk.lstrip(BLANK)[:1]:
                    return start.decode("latin-1")
        return ""


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
        raise FileError(f"{subject} is a binary file, not text.")


def _utf_16(start: bytes) -> str:
    """Name the UTF-16 that begins with its mark or with four ASCII characters; '' for none."""
    if name := UTF_16.get(start[:2]):
        return name
    even, odd = start[0:8:2], start[1:8:2]
    if len(start) >= 8 and not any(odd) and all(even):
        return "UTF-16-LE"
    return "UTF-16-BE" if len(start) >= 8 and not any(even) and all(odd) else ""


def _not_utf_16(subject: str) -> FileError:
    return FileError(f"{subject} begins as UTF-16, but is not valid UTF-16; save it as CSV UTF-8.")


def _decoded(data: bytes, subject: str, *, guess: bool) -> tuple[bytes, str, str]:
    """Return `data` as UTF-8, its encoding, and a notice where that was guessed."""
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
            f"{subject} is UTF-8, but line {line:,} is not; save it as CSV UTF-8 once more."
        )
    codec = guess_encoding(data)
    if not guess or not codec:
        seems = f" and seems to be {ENCODINGS[codec]}" if codec else ""
        raise FileError(
            f"{subject}: line {line:,} is not UTF-8{seems}. Save the file as UTF-8 (a spreadsheet "
            "calls it CSV UTF-8), then try again."
        )
    notice = (
        f"{subject} is not UTF-8 and was read as {ENCODINGS[codec]}. Check accented letters and "
        "quotation marks."
    )
    return data.decode(codec).encode(), ENCODINGS[codec], notice


def _is_mostly_utf_8(data: bytes) -> bool:
    """Are there more characters that only UTF-8 writes so than bytes that it does not know?"""
    text = data.decode("utf-8", "replace")
    unknown = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) - unknown > unknown


def guess_encoding(data: bytes) -> str:
    """Return the codec of ENCODINGS that `data` is most likely in; '' where none can read it.

    Windows-1252, which most programs mean, counts unless another one makes clearly more sense.
    """
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
