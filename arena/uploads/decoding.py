"""From the bytes of an uploaded file to its text: what kind of file it is, and its encoding."""

import codecs
import math
import re
from dataclasses import dataclass

from arena.importers import ARCHIVES
from arena.uploads.base import UploadRefused

BLANK = b"\xef\xbb\xbf\xff\xfe \t\r\n\0"
SPREADSHEETS = {
    b"xl/": "an Excel workbook",
    b"opendocument.spreadsheet": "a LibreOffice sheet",
    b"[Content_Types].xml": "an Excel workbook or another Office file",
}
OTHERS = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Excel workbook or another Office file",
    b"%PDF": "a PDF",
    b"{\\rtf": "a text with formatting (RTF)",
}
SAVE_AS = "open it in its program and save it as CSV, then upload that."
UTF_16 = {codecs.BOM_UTF16_LE: "UTF-16 LE", codecs.BOM_UTF16_BE: "UTF-16 BE"}
NOT_UTF_8 = (
    "The file is not UTF-8 and was read as Windows-1252. Look at accented letters and quotation "
    "marks before you go on."
)
_CONTROL = re.compile("[\x01-\x08\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    encoding: str
    notice: str = ""


def decoded(data: bytes, *, at_most_bytes: int) -> Decoded:
    """Return the text of a file; raises UploadRefused for one that is too large or no text."""
    if len(data) > at_most_bytes:
        size, most = math.ceil(len(data) / 1e5) / 10, at_most_bytes / 1e6
        raise UploadRefused(f"The file has {size:,.1f} MB; at most {most:,.1f} MB will do.")
    if not data.strip(BLANK):
        raise UploadRefused("The file is empty.")
    _refuse_other_formats(data)
    found = _utf_16(data) or _utf_8(data) or _windows(data)
    _refuse_binary(found.text)
    return found


def _refuse_other_formats(data: bytes) -> None:
    if data.startswith(b"PK\x03\x04"):
        for inside, words in SPREADSHEETS.items():
            if inside in data:
                raise UploadRefused(f"The file is {words}; {SAVE_AS}")
    for magic, words in OTHERS.items():
        if data.startswith(magic):
            raise UploadRefused(f"The file is {words}; {SAVE_AS}")
    for magic, words in ARCHIVES.items():
        if data.startswith(magic):
            raise UploadRefused(f"The file is {words}.")


def _refuse_binary(text: str) -> None:
    start = text[:4096]
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UploadRefused(
            f"Line {line:,} of the file contains a NUL byte, which no text has; "
            "save it as CSV UTF-8."
        )
    if len(_CONTROL.findall(start)) * 10 > len(start):
        raise UploadRefused("The file is a binary file, not text.")


def _utf_16(data: bytes) -> Decoded | None:
    """Decode UTF-16 that begins with its mark, or with four characters that are plainly ASCII."""
    name = UTF_16.get(data[:2], "")
    marked = bool(name)
    if not marked and len(data) >= 8:
        even, odd = data[0:8:2], data[1:8:2]
        if not any(odd) and all(even):
            name = "UTF-16 LE"
        elif not any(even) and all(odd):
            name = "UTF-16 BE"
    if not name:
        return None
    try:
        return Decoded(data[2 * marked :].decode(name.lower().replace(" ", "-")), name)
    except UnicodeDecodeError:
        raise UploadRefused(
            "The file begins as UTF-16, but is not valid UTF-16; save it as CSV UTF-8."
        ) from None


def _utf_8(data: bytes) -> Decoded | None:
    marked = data.startswith(codecs.BOM_UTF8)
    try:
        return Decoded(data.decode("utf-8-sig"), "UTF-8 with BOM" if marked else "UTF-8")
    except UnicodeDecodeError as error:
        if marked or _is_mostly_utf_8(data):
            line = error.object.count(b"\n", 0, error.start) + 1
            raise UploadRefused(
                f"The file is UTF-8, but not in line {line:,}; save it as CSV UTF-8 once more."
            ) from None
    return None


def _is_mostly_utf_8(data: bytes) -> bool:
    """Are there more characters that only UTF-8 writes so than bytes that it does not know?"""
    text = data.decode("utf-8", "replace")
    unknown = text.count("\ufffd")
    return sum(character > "\x7f" for character in text) - unknown > unknown


def _windows(data: bytes) -> Decoded:
    try:
        return Decoded(data.decode("cp1252"), "Windows-1252", NOT_UTF_8)
    except UnicodeDecodeError:
        raise UploadRefused(
            "The file is neither UTF-8 nor Windows-1252 text; save it as CSV UTF-8."
        ) from None
