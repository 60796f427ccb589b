"""Import formats: one module per format, and their list."""

from collections.abc import Sequence
from pathlib import Path

from arena.files.reader import FileError, Source, unreadable
from arena.formats import native, pairs
from arena.formats.base import KINDS, Format, ImportFile

FORMATS: dict[str, Format] = {format_.NAME: format_ for format_ in (native, pairs)}


def find_files(paths: Sequence[Path], format_name: str = "auto") -> list[ImportFile]:
    """Return the files to import, prompts and candidates before the rows that refer to them.

    Raises FileError with a sentence about the first unusable path.
    """
    files = [file for path in paths for file in _files_at(path, format_name)]
    for file in files:
        Source.at(file.path)
    return sorted(files, key=lambda file: KINDS.index(file.kind))


def _files_at(path: Path, format_name: str) -> list[ImportFile]:
    formats = [*FORMATS.values()] if format_name == "auto" else [FORMATS[format_name]]
    try:
        path.stat()
        for format_ in formats:
            if files := format_.sniff(path):
                return [ImportFile(file, kind, format_) for file, kind in files]
    except OSError as error:
        raise unreadable(path, error) from None
    if path.is_file():
        Source.at(path)
    known = "; ".join(f"{format_.NAME}: {format_.FILES}" for format_ in formats)
    has = "has no file" if path.is_dir() else "is not a file"
    raise FileError(f"{path} {has} of a known format. {known}.")
