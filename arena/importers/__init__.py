"""Formats that can be imported: one file each, and this list of them."""

import errno
import re
from collections.abc import Sequence
from pathlib import Path

from arena.importers.base import KINDS, FileProblem, Importer, SourceFile
from arena.importers.native import NativeImporter, no_known_file
from arena.importers.pairs import PairsImporter

IMPORTERS: dict[str, Importer] = {
    importer.name: importer for importer in (NativeImporter(), PairsImporter())
}
ARCHIVES = {
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"PK\x03\x04": "a zip archive; unpack it first, or save it as CSV if it is an Excel workbook",
    b"\x28\xb5\x2f\xfd": "a zstd archive; unpack it first",
    b"\xfd7zXZ": "an xz archive; unpack it first",
    b"BZh": "a bzip2 archive; unpack it first",
    b"PAR1": "a Parquet file; save it as CSV or JSON Lines first",
}
MAGIC = ARCHIVES | {
    b"\xff\xfe": "UTF-16 text; save it as UTF-8 first",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8 first",
}
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def find_files(paths: Sequence[Path], format_name: str = "auto") -> list[SourceFile]:
    """Return the files to import, prompts and candidates before what refers to them.

    Raises FileProblem with a sentence about the first path that cannot be used.
    """
    files = [file for path in paths for file in _files_at(path, format_name)]
    for file in files:
        _check_readable_text(file.path)
    return sorted(files, key=lambda file: KINDS.index(file.kind))


def _files_at(path: Path, format_name: str) -> list[SourceFile]:
    importers = list(IMPORTERS.values()) if format_name == "auto" else [IMPORTERS[format_name]]
    try:
        if not path.exists():
            raise FileProblem(f"There is no file or folder {path}.")
        for importer in importers:
            if files := importer.files(path):
                return files
    except OSError as error:
        raise _unreadable(path, error) from None
    if path.is_file():
        _check_readable_text(path)
    raise _unknown(path, format_name)


def _unknown(path: Path, format_name: str) -> FileProblem:
    if format_name == "native" or path.is_dir():
        return no_known_file(path)
    return FileProblem(f"{path}: known are .jsonl files and, as pairs, .csv, .tsv and .txt files.")


def _check_readable_text(path: Path) -> None:
    """Refuse what is empty, cannot be read, or is plainly not text, before anything is read."""
    if not path.is_file():
        raise FileProblem(f"{path} is not an ordinary file.")
    try:
        with path.open("rb") as stream:
            start = stream.read(4096)
    except OSError as error:
        raise _unreadable(path, error) from None
    if not start.strip(b"\xef\xbb\xbf \t\r\n"):
        raise FileProblem(f"{path} is empty.")
    for magic, words in MAGIC.items():
        if start.startswith(magic):
            raise FileProblem(f"{path} is {words}.")
    if len(_CONTROL.findall(start)) * 10 > len(start):
        raise FileProblem(f"{path} is a binary file, not text.")


def _unreadable(path: Path, error: OSError) -> FileProblem:
    if error.errno in (errno.EACCES, errno.EPERM):
        return FileProblem(f"{path} cannot be read: no permission.")
    return FileProblem(f"{path} cannot be read: {error.strerror or error}.")
