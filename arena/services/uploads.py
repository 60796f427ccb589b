"""Files of any format that a team imports into its arena, after a preview.

Between preview and confirmation the file waits in the folder of uploads, where it is deleted after
a day; a signed key leads back to it, for the same person and arena alone.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import signing

from arena.actors import Actor
from arena.errors import ServiceError
from arena.files.reader import FileError
from arena.files.tables import AT_MOST_BYTES
from arena.formats.base import RejectedRows
from arena.models import Arena
from arena.services import audit
from arena.services.imports import (
    ArenaImportError,
    BadRowsError,
    ImportPreview,
    ImportReport,
    Options,
    import_files,
    preview_files,
)

SALT = "ringside.uploads"
KEPT_SECONDS = 24 * 60 * 60
GONE = "The file is no longer here. Choose it again."
_UNSAFE = re.compile(r"[^\w. ()+@-]")


class UploadError(ServiceError):
    """A file that was not imported; the message is a sentence for people."""


class BadUploadError(UploadError):
    """Rows of the file are bad, so that nothing was imported."""

    def __init__(self, rejected: RejectedRows) -> None:
        super().__init__(
            f"Nothing was imported, because of {rejected.count:,} bad rows. Correct them, or skip "
            "bad rows.",
            field="skip_bad",
        )
        self.rejected = rejected


@dataclass(frozen=True)
class Upload:
    """A file, and how to read it; `columns` are the chosen ones, by field."""

    name: str
    data: bytes
    format_name: str = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)
    skip_bad: bool = False


def preview_upload(*, arena: Arena, upload: Upload) -> ImportPreview:
    """Return what the file would add; nothing is written. Raises UploadError."""
    with _on_disk(upload) as (path, folder):
        preview = preview_files(slug=arena.slug, paths=[path], options=_options(upload))
        return replace(preview, rejected=_nameless(preview.rejected, folder))


def import_upload(*, arena: Arena, upload: Upload, by: Actor, now: datetime) -> ImportReport:
    """Import the file. Raises UploadError; BadUploadError for bad rows, unless they are skipped.

    Votes of people count as votes by the team's token do: on a public leaderboard only where the
    arena says so.
    """
    with _on_disk(upload) as (path, folder):
        try:
            options = replace(_options(upload), by=by, by_team=True, rejects_folder=folder)
            report = import_files(slug=arena.slug, paths=[path], now=now, options=options)
        except BadRowsError as error:
            raise BadUploadError(_nameless(error.rejected, folder)) from None
    added = {file.kind: 0 for file in report.files}
    for file in report.files:
        added[file.kind] += 0 if file.known else file.added
    if any(added.values()):
        audit.record(
            team=arena.team,
            by=by,
            action="imported a file",
            subject=upload.name[:200],
            arena=arena.slug,
            **added,
        )
    return replace(report, rejected=_nameless(report.rejected, folder))


def _options(upload: Upload) -> Options:
    return Options(format_name=upload.format_name, columns=upload.columns, skip_bad=upload.skip_bad)


@contextmanager
def _on_disk(upload: Upload) -> Iterator[tuple[Path, Path]]:
    """Yield the file in a folder of its own; errors become an UploadError without its path."""
    if len(upload.data) > AT_MOST_BYTES:
        raise UploadError(
            f"The file is larger than {AT_MOST_BYTES // 1_000_000} MB. Import it with manage.py "
            "import_arena.",
            field="file",
        )
    with tempfile.TemporaryDirectory(prefix="ringside-") as name:
        folder = Path(name)
        path = folder / file_name(upload.name)
        path.write_bytes(upload.data)
        try:
            yield path, folder
        except (FileError, ArenaImportError) as error:
            raise UploadError(_without(str(error), folder), field="file") from None


def _nameless(rejected: RejectedRows, folder: Path) -> RejectedRows:
    """The rows in words that do not name the folder."""
    lines = [_without(line, folder) for line in rejected.first]
    return replace(rejected, first=lines, hint=_without(rejected.hint, folder))


def _without(sentence: str, folder: Path) -> str:
    return sentence.replace(f"{folder}/", "")


def file_name(name: str) -> str:
    """Return a name without a path, so that it can be used in any folder."""
    safe = _UNSAFE.sub("_", Path(name.replace("\\", "/")).name).lstrip(".")[-100:]
    return safe or "file"


# -- Between preview and confirmation --------------------------------------------------------------


def keep_upload(*, arena: Arena, name: str, data: bytes, by: Actor) -> str:
    """Keep the file for a day, where nobody else can read it; return the key to it."""
    with tempfile.NamedTemporaryFile(suffix=".upload", dir=_folder(), delete=False) as kept:
        kept.write(data)
    return signing.dumps([Path(kept.name).name, name, arena.pk, by.key], salt=SALT)


def kept_upload(*, arena: Arena, key: str, by: Actor) -> tuple[str, bytes]:
    """Return the name and the bytes of a kept file. Raises UploadError."""
    try:
        stored, name, arena_id, owner = signing.loads(key, salt=SALT, max_age=KEPT_SECONDS)
        if (arena_id, owner) != (arena.pk, by.key):
            raise UploadError(GONE, field="file")
        return name, (_folder() / stored).read_bytes()
    except (signing.BadSignature, ValueError, OSError):
        raise UploadError(GONE, field="file") from None


def _folder() -> Path:
    return Path(settings.FILE_UPLOAD_TEMP_DIR or tempfile.gettempdir())


def preview_summary(preview: ImportPreview) -> dict[str, Any]:
    """Return a preview as the API shows it."""
    return {
        "files": [
            {
                "name": file.name,
                "format": file.format_name,
                "title": file.title,
                "columns": file.columns,
                "rows": file.rows,
                "bad": file.bad,
            }
            for file in preview.files
        ],
        "rows": preview.rows,
        "bad": preview.rejected.count,
        "problems": preview.rejected.lines,
    }
