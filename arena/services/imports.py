"""Taking files into an arena: checked whole, written in batches, revealed by one update.

Until the reveal nobody reads a row of it. An import that is killed is resumed by making the same
call again; a file that was imported before is known by its SHA-256 and adds nothing.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import DatabaseError, transaction
from django.utils import timezone

from arena.importers import find_files
from arena.importers.base import Row, SourceFile
from arena.models import Arena, Import, Response
from arena.models.imports import DELETED
from arena.services.import_check import (
    CheckedFile,
    Problems,
    Progress,
    changed,
    check_files,
    fingerprint,
    known_in,
    write_rejects,
)
from arena.services.import_lock import ImportRefused, one_import_at_a_time
from arena.services.import_rows import Writer, discard
from arena.services.pairing import sync_pairs
from arena.signals import announce, arena_created, votes_changed

FIRST_BATCH, SMALLEST_BATCH, LARGEST_BATCH = 500, 50, 2_000
BATCH_BYTES = 8_000_000
BATCH_SECONDS = 0.2


class BadRows(ImportRefused):
    """Rows were bad and not to be skipped; nothing was written."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(str(problems))
        self.problems = problems


@dataclass(frozen=True)
class Options:
    """How to import. `name`, `description` and `is_sample` are for an arena that is new."""

    format_name: str = "auto"
    name: str = ""
    description: str = ""
    is_sample: bool = False
    skip_bad: bool = False
    rejects_folder: Path | None = None
    progress: Progress = lambda *told: None


@dataclass
class FileReport:
    """What became of one file. `known`: it had been imported before, and added nothing."""

    path: Path
    kind: str
    added: int = 0
    rejected: int = 0
    rejects: Path | None = None
    known: bool = False


@dataclass
class ImportReport:
    """What an import did, file by file, and the first of the rows that it left out."""

    arena: Arena
    files: list[FileReport] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)


def import_files(
    *, slug: str, paths: Sequence[Path], now: datetime, options: Options | None = None
) -> ImportReport:
    """Import `paths` into the arena `slug`, which is made when it is new.

    Raises FileProblem or ImportRefused with a sentence for people; BadRows, before anything is
    written, where rows are bad and are not to be skipped.
    """
    options = options or Options()
    arena = _arena(slug, options)
    try:
        with one_import_at_a_time(slug):
            files = _fingerprints(find_files(paths, options.format_name))
            # Asked again under the lock: another import may just have made it.
            arena = Arena.objects.filter(slug=slug).first() or arena
            return _import(arena, files, options, now)
    except DatabaseError as error:
        raise ImportRefused(
            f"The database stopped the import: {str(error).strip()}. What was written stays "
            "hidden; the same import again goes on from there."
        ) from error


def _arena(slug: str, options: Options) -> Arena:
    """Return the arena of that slug, or a new one, checked and not yet saved."""
    if arena := Arena.objects.filter(slug=slug).first():
        if arena.founded_by and arena.founded_by.format == DELETED:
            raise ImportRefused(
                f"{slug} is being deleted; run delete_arena once more, then bring it anew."
            )
        return arena
    arena = Arena(
        slug=slug,
        name=options.name or slug[:120],
        description=options.description,
        is_sample=options.is_sample,
    )
    try:
        arena.full_clean()
    except ValidationError as error:
        reasons = [f"{field}: {' '.join(words)}" for field, words in error.message_dict.items()]
        raise ImportRefused(f"No arena can be made. {' '.join(reasons)}") from None
    return arena


def _fingerprints(files: list[SourceFile]) -> list[CheckedFile]:
    """Return the files with what they are known by; the same content twice counts once."""
    found = [CheckedFile(file, *fingerprint(file.path)) for file in files]
    return list({one.sha256: one for one in reversed(found)}.values())[::-1]


def _import(
    arena: Arena, files: list[CheckedFile], options: Options, now: datetime
) -> ImportReport:
    known = _known_files(arena, files)
    new = [one for one in files if one.sha256 not in known]
    problems = _checked(arena, new, options)
    if new:
        _write_all(arena, new, options, now)
    else:
        _ring(arena, founded=True)
    if Response.objects.filter(candidate__arena=arena).exists():
        sync_pairs(arena=arena)
        announce(votes_changed, arena_id=arena.pk, reason="import")  # there are pairs to weigh now
    reports = [
        FileReport(
            path=one.file.path,
            kind=one.file.kind,
            added=one.added,
            rejected=len(one.bad),
            rejects=one.rejects,
            known=one.sha256 in known,
        )
        for one in files
    ]
    return ImportReport(arena, reports, problems)


def _known_files(arena: Arena, files: list[CheckedFile]) -> set[str]:
    if arena.pk is None:
        return set()
    sums = [one.sha256 for one in files]
    revealed = arena.imports.filter(sha256__in=sums, revealed_at__isnull=False)
    return set(revealed.values_list("sha256", flat=True))


def _checked(arena: Arena, files: list[CheckedFile], options: Options) -> Problems:
    """Read every file once; refuse bad rows, or put them aside where they are to be skipped."""
    problems = check_files(files, known_in(arena, files), options.progress)
    if problems.count and not options.skip_bad:
        raise BadRows(problems)
    if files and not any(one.good for one in files):
        raise BadRows(problems)
    for one in files:
        if one.bad:
            write_rejects(one, options.rejects_folder)
    return problems


# -- Writing, hidden -----------------------------------------------------------------------------


def _write_all(arena: Arena, files: list[CheckedFile], options: Options, now: datetime) -> None:
    imports = _open(arena, files, now)
    abandoned = arena.imports.hidden().exclude(pk__in=[one.pk for one in imports])
    discard(arena, list(abandoned))
    for one, source in zip(files, imports, strict=True):
        _write_file(arena, one, source, options.progress)
    _reveal(arena, imports)


@transaction.atomic
def _open(arena: Arena, files: list[CheckedFile], now: datetime) -> list[Import]:
    """Find or make the Import of each file, and have one of them found a hidden arena."""
    hidden = arena.pk is None or not Arena.objects.revealed().filter(pk=arena.pk).exists()
    if arena.pk is None:
        arena.save()
    imports = [
        Import.objects.get_or_create(
            arena=arena,
            sha256=one.sha256,
            defaults={
                "file_name": one.file.path.name[-255:],
                "format": one.file.importer.name,
                "started_at": now,
            },
        )[0]
        for one in files
    ]
    if hidden and arena.founded_by not in imports:
        arena.founded_by = imports[0]
        arena.save(update_fields=["founded_by"])
    return imports


def _write_file(arena: Arena, one: CheckedFile, source: Import, progress: Progress) -> None:
    """Write the good rows that are not there yet, in batches that each take a moment."""
    writer, kind, path = Writer(arena=arena, source=source), one.file.kind, one.file.path
    done, last = writer.rows_written(kind)
    rows = (row for row in one.good_rows() if row.number > last)
    size = FIRST_BATCH
    while batch := _batch(rows, size):
        started = time.monotonic()
        writer.write(batch, kind)
        size = _next_size(len(batch), time.monotonic() - started)
        done += len(batch)
        progress("writing", path, done, one.good)
    one.added, _ = writer.rows_written(kind)
    if fingerprint(path)[0] != one.sha256 or (kind == "votes" and one.added != one.good):
        raise changed(path)
    source.rows_added, source.rows_rejected = one.added, len(one.bad)
    source.save(update_fields=["rows_added", "rows_rejected"])


def _batch(rows: Iterator[Row], size: int) -> list[Row]:
    """Take the next `size` rows, or fewer where they are large."""
    batch: list[Row] = []
    room = BATCH_BYTES
    for row in rows:
        batch.append(row)
        room -= row.end - row.start
        if len(batch) == size or room <= 0:
            break
    return batch


def _next_size(size: int, seconds: float) -> int:
    """Return how many rows fit into the time a transaction may take, growing at most twofold."""
    wanted = min(size * BATCH_SECONDS / max(seconds, 0.001), size * 2)
    return int(min(max(wanted, SMALLEST_BATCH), LARGEST_BATCH))


# -- The reveal ----------------------------------------------------------------------------------


@transaction.atomic
def _reveal(arena: Arena, imports: list[Import]) -> None:
    """Show every row of these imports, and the arena they founded, by one update.

    Its time is that of the update, not that at which the import began: a board that was fitted
    in between must see that it is behind.
    """
    ids = [one.pk for one in imports]
    Import.objects.filter(pk__in=ids).update(revealed_at=timezone.now())
    _ring(arena, founded=arena.founded_by in imports)


def _ring(arena: Arena, *, founded: bool) -> None:
    if founded:
        announce(arena_created, arena_id=arena.pk)
    announce(votes_changed, arena_id=arena.pk, reason="import")
