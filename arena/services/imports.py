"""Importing files into an arena: checked completely, written in batches, revealed by one update.

Nobody can read a row before the reveal. A killed import is resumed by making the same call again;
a file that was imported before is recognised by its SHA-256 and adds nothing.
"""

import hashlib
import json
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from django.core.exceptions import ValidationError
from django.db import DatabaseError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.text import slugify

from arena.actors import CLI, Actor
from arena.checks import clean_checks
from arena.db import sql
from arena.files.copies import ARENA_FILE, EXPORT_VERSION
from arena.files.reader import FileError, Row, Source, unreadable
from arena.files.rows import CandidateRow, PromptRow
from arena.formats import find_files, opened, renamed
from arena.formats.base import (
    Checker,
    ImportFile,
    Known,
    RejectedRows,
    content_digest,
    digest,
)
from arena.formats.columns import likely_roles, unknown_table
from arena.formats.records import Foreign
from arena.formats.warnings import Warnings
from arena.models import (
    AnswerCheck,
    Arena,
    Candidate,
    Comparison,
    Import,
    Prompt,
    Rater,
    Response,
    Team,
    Vote,
)
from arena.models.imports import DELETED, REVEALED
from arena.services import audit
from arena.services.arenas import delete_arena, random_slug
from arena.services.checks import bring_in_checks
from arena.services.import_rows import Writer, discard
from arena.services.locks import exclusive_lock
from arena.services.pairs import sync_pairs
from arena.services.reasons import read_reasons
from arena.signals import announce, arena_created, votes_changed
from arena.validation import ARENA_NAME_LIMIT, InputError, join_names

FIRST_BATCH, SMALLEST_BATCH, LARGEST_BATCH = 500, 50, 2_000
BATCH_BYTES = 8_000_000
BATCH_SECONDS = 0.2
CHUNK = 1 << 20
MANY_ROWS = 10_000  # with more, an export right after the import would take three times as long
MERGE = (
    "If they are one, merge them after the import: "
    "manage.py merge_candidates {slug} {{names}} --into {{into}}"
)
BUSY = "Another import into this arena is running. Wait for it to finish, then try again."
# Called with the stage ("checking", "writing"), the file, the rows done and the approximate total.
Progress = Callable[[str, Path, int, int], None]


class ArenaImportError(Exception):
    """An import that was not made; the message is a sentence for people."""


class BadRowsError(ArenaImportError):
    """Rows were bad and `skip_bad` was off, or no good row was left; nothing was written."""

    def __init__(self, rejected: RejectedRows) -> None:
        super().__init__(str(rejected))
        self.rejected = rejected


@dataclass(frozen=True)
class Options:
    """Options of an import. Those from `name` to `visibility` apply to a new arena only.

    A new arena is private if it has a team, and unlisted otherwise, unless `visibility` is given;
    its other settings are those of the files' `arena.json`.
    """

    format_name: str = "auto"
    name: str = ""
    description: str = ""
    is_sample: bool = False
    team: Team | None = None
    visibility: str = ""
    skip_bad: bool = False
    rejects_folder: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # chosen ones, by field
    values: Mapping[str, str] = field(default_factory=dict)  # what winners' values mean
    by: Actor = CLI
    by_team: bool = False  # its votes count like votes by its token
    most_rows: int = ImportFile.most_rows  # in one file
    progress: Progress = lambda *told: None
    checks: Sequence[Mapping[str, Any]] = ()  # of all prompts of a new arena


@dataclass(kw_only=True)
class ImportedFile(ImportFile):
    """A file: its fingerprint, the numbers of its bad rows (ascending), and its result.

    `known`: the file had been imported before, so it added nothing.
    """

    bytes_sha256: str
    lines: int
    mapping: dict[str, dict[str, str]] = field(default_factory=dict)
    good: int = 0
    added: int = 0
    checks: int = 0  # of its prompts
    bad: MutableSequence[int] = field(default_factory=lambda: array("Q"))
    rejects: Path | None = None
    known: bool = False

    @property
    def sha256(self) -> str:
        """What the file is known by in an arena: its content, and how it is read."""
        return self.read_as(self.mapping)

    def read_as(self, mapping: Mapping[str, Any]) -> str:
        """What it would be known by, read in this way."""
        if not mapping:
            return self.bytes_sha256
        text = json.dumps([self.bytes_sha256, mapping], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def good_rows(self) -> Iterator[Row]:
        """Read the file again; yield all but the bad rows."""
        bad = iter(self.bad)
        next_bad = next(bad, None)
        for row in self.rows():
            if row.number == next_bad:
                next_bad = next(bad, None)
            elif isinstance(row.content, InputError):
                raise _changed_error(self.path)
            else:
                yield row


@dataclass
class ImportReport:
    """The result of an import, file by file, the first rejected rows, and what is odd about the
    others, in sentences."""

    arena: Arena
    files: list[ImportedFile]
    rejected: RejectedRows
    warnings: list[str] = field(default_factory=list)


def import_files(
    *, slug: str, paths: Sequence[Path], now: datetime, options: Options | None = None
) -> ImportReport:
    """Import `paths` into the arena `slug`, which is created if it does not exist.

    Raises FileError or ArenaImportError with a sentence for people; BadRowsError, before anything
    is written, if rows are bad and must not be skipped.
    """
    options = options or Options()
    try:
        with exclusive_import(slug), _opened_paths(paths) as places:
            arena = _arena_to_fill(slug, options, places.values())
            options = replace(options, checks=_checks_of(places.values()))
            files = _files_to_import(places, options)
            if any(path != place for path, place in places.items()) and not options.rejects_folder:
                options = replace(options, rejects_folder=paths[0].parent)
            return _import_files(arena, files, options, now)
    except DatabaseError as error:
        raise ArenaImportError(
            f"The database stopped the import: {str(error).strip()}. What was written stays "
            "hidden; run the same import again to resume it."
        ) from error


@contextmanager
def _opened_paths(paths: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Yield the places of the paths' contents; errors name the paths as they were given."""
    with opened(paths) as places:
        try:
            yield places
        except FileError as error:
            raise type(error)(renamed(str(error), places)) from None
        except BadRowsError as error:
            _rename_places(error.rejected, places)
            raise BadRowsError(error.rejected) from None


def _rename_places(rejected: RejectedRows, places: Mapping[Path, Path]) -> None:
    rejected.rename(lambda name: renamed(name, places))


def _files_to_import(places: Mapping[Path, Path], options: Options) -> list[ImportedFile]:
    """Return the files to import; those with the same content count once."""
    to_import = find_files([*places.values()], options.format_name, options.columns, options.values)
    files = [
        ImportedFile(
            path=file.path,
            kind=file.kind,
            format=file.format,
            unread=file.unread,
            most_rows=options.most_rows,
            mapping=file.format.mapping_chosen(file.path)
            if isinstance(file.format, Foreign)
            else {},
            **_fingerprint(file),
        )
        for file in to_import
    ]
    return list({file.sha256: file for file in reversed(files)}.values())[::-1]


@dataclass(frozen=True)
class PreviewedFile:
    """The format of a file: how its columns were read, its rows by kind, and its bad rows.

    `columns` maps the fields of its layout to the file's columns, '' for none; `names` are all
    columns of the file, `samples` their first values, and `values` what winners are called, with
    what each means, '' if that has to be said. All are empty if columns cannot be chosen. `unread`
    columns are not used.
    """

    name: str
    format_name: str
    title: str
    columns: dict[str, str]
    names: list[str]
    samples: dict[str, list[str]]
    values: dict[str, str]
    rows: dict[str, int]
    bad: int
    unread: list[str]


@dataclass(frozen=True)
class ImportPreview:
    """What an import would add, file by file; nothing was written."""

    files: list[PreviewedFile]
    rejected: RejectedRows
    warnings: list[str] = field(default_factory=list)

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows by kind."""
        counts: dict[str, int] = {}
        for file in self.files:
            for kind, n_rows in file.rows.items():
                counts[kind] = counts.get(kind, 0) + n_rows
        return counts


def preview_files(
    *, slug: str, paths: Sequence[Path], options: Options | None = None
) -> ImportPreview:
    """Check the files as an import would, and write nothing.

    Raises FileError or ArenaImportError with a sentence for people.
    """
    options = options or Options()
    with _opened_paths(paths) as places:
        arena = _arena_to_fill(slug, options, places.values())
        files = _files_to_import(places, options)
        checker, rejected = Checker(_known_content(arena, files)), RejectedRows()
        warnings = Warnings()
        for file in files:
            _check_file(file, checker, rejected, warnings, options.progress)
        if not any(file.good or file.bad for file in files):
            raise _without_rows(files[0])
        _rename_places(rejected, places)
        by_path: dict[Path, list[ImportedFile]] = {}
        for file in files:
            by_path.setdefault(file.path, []).append(file)
        return ImportPreview(
            [_preview_of_file(group) for group in by_path.values()],
            rejected,
            _sentences(arena, warnings),
        )


def _preview_of_file(files: list[ImportedFile]) -> PreviewedFile:
    """Describe one file, given once for each kind of its rows."""
    first, n_checks = files[0], sum(file.checks for file in files)
    columns, names = dict[str, str](), list[str]()
    samples, values = dict[str, list[str]](), dict[str, str]()
    if isinstance(first.format, Foreign):
        columns, names = first.format.mapping(first.path)
        samples = first.format.samples(first.path) if names else {}
        values = first.format.meanings(first.path) if names else {}
    return PreviewedFile(
        name=first.path.name,
        format_name=first.format.NAME,
        title=first.format.TITLE,
        columns=columns,
        names=names,
        samples=samples,
        values=values,
        rows={file.kind: file.good for file in files if file.good}
        | ({"checks": n_checks} if n_checks else {}),
        bad=sum(len(file.bad) for file in files),
        unread=first.unread,
    )


def preview_of_table(path: Path) -> PreviewedFile | None:
    """Describe the columns of a table of which nobody knows how to read it; None if it is none."""
    try:
        table = unknown_table(path)
        if table is None:
            return None
        _, names = table.mapping(path)
        roles = likely_roles(names)
        columns = {role: heading for heading, role in roles.items()}
        samples = table.samples(path)
    except FileError:
        return None
    return PreviewedFile(path.name, "", "", columns, names, samples, {}, {}, 0, [])


def exclusive_import(slug: str) -> AbstractContextManager[None]:
    """Hold the arena's import lock; raises ArenaImportError while somebody else holds it."""
    return exclusive_lock(f"import-{slug}", busy=ArenaImportError(BUSY))


def import_archive(*, team: Team, by: Actor, path: Path, now: datetime) -> Arena:
    """Import an export, a zip file, as a new private arena of `team`.

    Only an operator's file is believed about where its votes came from.
    Raises FileError or ArenaImportError, and then leaves nothing behind.
    """
    slug = ""
    try:
        with _opened_paths([path]) as places:
            name = str(_settings_of(places.values()).get("name") or path.stem)
        slug = random_slug(slugify(name))
        options = Options(
            format_name="native",
            name=name[:ARENA_NAME_LIMIT],
            team=team,
            by=by,
            by_team=not by.is_operator,
        )
        return import_files(slug=slug, paths=[path], now=now, options=options).arena
    except (FileError, ArenaImportError) as error:
        if left := Arena.objects.filter(slug=slug).first():
            delete_arena(arena=left, by=by)
        # Messages must not reveal paths on this server.
        raise ArenaImportError(str(error).replace(f"{path.parent}/", "")) from None


def _arena_to_fill(slug: str, options: Options, paths: Iterable[Path]) -> Arena:
    """Return the arena with that slug, or a new one, validated but not saved."""
    if arena := Arena.objects.filter(slug=slug).first():
        if arena.founded_by and arena.founded_by.format == DELETED:
            raise ArenaImportError(
                f"{slug} is being deleted; run delete_arena again, then import it again."
            )
        return arena
    visible = Arena.Visibility
    settings = {
        "name": slug[:ARENA_NAME_LIMIT],
        **_settings_of(paths),
        "visibility": options.visibility or (visible.PRIVATE if options.team else visible.UNLISTED),
    }
    given = {"name": options.name, "description": options.description}
    settings |= {name: value for name, value in given.items() if value}
    if settings["visibility"] == visible.PRIVATE:
        settings["open_to_teams"] = False
    if options.team is None and settings.get("voters") == Arena.Voters.MEMBERS:
        settings["voters"] = Arena.Voters.SIGNED_IN
    arena = Arena(slug=slug, is_sample=options.is_sample, team=options.team, **settings)
    try:
        arena.full_clean()
    except ValidationError as error:
        reasons = [f"{field}: {' '.join(words)}" for field, words in error.message_dict.items()]
        raise ArenaImportError(f"The arena cannot be created. {' '.join(reasons)}") from None
    return arena


def _settings_of(paths: Iterable[Path]) -> dict[str, Any]:
    """Return the arena's settings in the `arena.json` of a folder; raises FileError."""
    facts = _facts_of(paths)
    return {name: facts[name] for name in Arena.SETTINGS if name in facts}


def _facts_of(paths: Iterable[Path]) -> dict[str, Any]:
    for file in filter(Path.is_file, (path / ARENA_FILE for path in paths)):
        try:
            facts = json.loads(file.read_bytes())
        except (ValueError, RecursionError):
            raise FileError(f"{file} is not JSON.") from None
        except OSError as error:
            raise unreadable(file, error) from None
        if not isinstance(facts, dict) or facts.get("ringside") != EXPORT_VERSION:
            raise FileError(f"{file} is not a description of an arena that this version can read.")
        if unknown := set(facts) - {"ringside", "checks", *Arena.SETTINGS}:
            raise FileError(f"{file} has unknown settings: {join_names(sorted(unknown))}.")
        return facts
    return {}


def _checks_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the checks of all prompts in the `arena.json` of a folder; raises FileError."""
    try:
        return clean_checks(_facts_of(paths).get("checks"))
    except InputError as error:
        raise FileError(f"The column checks of {ARENA_FILE} {error.reason}.") from None


def _fingerprint(file: ImportFile) -> dict[str, Any]:
    """Return `bytes_sha256` and `lines` (their number) of a file, one for each kind of its rows."""
    sha, lines = hashlib.sha256(file.kind.encode() if file.format.repeats else b""), 0
    try:
        with file.path.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                sha.update(chunk)
                lines += chunk.count(b"\n")
    except OSError as error:
        raise unreadable(file.path, error) from None
    return {"bytes_sha256": sha.hexdigest(), "lines": lines}


def _changed_error(path: Path) -> FileError:
    return FileError(
        f"{path} changed while it was being imported. None of it is visible; try again."
    )


def _import_files(
    arena: Arena, files: list[ImportedFile], options: Options, now: datetime
) -> ImportReport:
    if arena.pk is not None:
        revealed = arena.imports.filter(revealed_at__isnull=False)
        mappings = dict(revealed.values_list("sha256", "mapping"))
        for file in files:
            file.known = file.sha256 in mappings
            read_otherwise = (file.read_as(mapping) == sha for sha, mapping in mappings.items())
            if not file.known and any(read_otherwise):
                raise ArenaImportError(
                    f"{file.path.name} is already in this arena, read in another way, so its rows "
                    "would count twice. Import it into a new arena."
                )
    new = [file for file in files if not file.known]
    warnings = Warnings()
    rejected = _check_files(arena, new, options, warnings)
    sentences = _sentences(arena, warnings)  # before its own names are among the arena's
    if new:
        _write_files(arena, new, options, now)
    else:
        _announce_import(arena, founded=True)
    if Response.objects.filter(candidate__arena=arena).exists():
        sync_pairs(arena=arena)
        announce(votes_changed, arena_id=arena.pk, reason="import")  # new pairs need weights
    return ImportReport(arena, files, rejected, sentences)


def _sentences(arena: Arena, warnings: Warnings) -> list[str]:
    """Say what is odd; names that are not public yet are left out."""
    present = list(arena.candidates.revealed()) if arena.pk else []
    return warnings.sentences(
        MERGE.format(slug=arena.slug),
        present=[str(one) for one in present if one.disclosed_at],
        merged=[one.own_name for one in present if one.merged_into_id],
    )


def _check_files(
    arena: Arena, files: list[ImportedFile], options: Options, warnings: Warnings
) -> RejectedRows:
    """Read every file once; raise BadRowsError for bad rows, or record them to be skipped."""
    checker, rejected = Checker(_known_content(arena, files)), RejectedRows()
    for file in files:
        _check_file(file, checker, rejected, warnings, options.progress)
    if files and not any(file.good for file in files):
        raise BadRowsError(rejected) if rejected.count else _without_rows(files[0])
    if rejected.count and not options.skip_bad:
        raise BadRowsError(rejected)
    for file in files:
        if file.bad:
            file.rejects = _write_rejects(file, options.rejects_folder)
    return rejected


def _without_rows(file: ImportedFile) -> FileError:
    return FileError(
        f"{file.path} has no rows to import. Export it again with prompts, answers or votes."
    )


def _check_file(
    file: ImportedFile,
    checker: Checker,
    rejected: RejectedRows,
    warnings: Warnings,
    progress: Progress,
) -> None:
    for row in file.rows():
        file.note(row.number, row.unread)
        n_checks = len(checker.checks)
        try:
            if isinstance(row.content, InputError):
                raise row.content
            file.good += checker.check(row.content, repeats=file.format.repeats)
            warnings.add(file.path, row.line, row.content)
        except InputError as error:
            file.bad.append(row.number)
            rejected.add(file.path, row.line, error)
        file.checks += len(checker.checks) - n_checks
        if row.number % 1000 == 0:
            progress("checking", file.path, row.line, file.lines)
    progress("checking", file.path, file.lines, file.lines)
    if not file.good and not file.bad and not file.format.repeats:
        raise _without_rows(file)


def _known_content(arena: Arena, files: list[ImportedFile]) -> Known:
    """Return the content of `arena`, except for rows of other, abandoned imports."""
    if arena.pk is None:
        return Known()
    ours = Import.objects.filter(arena=arena, sha256__in=[file.sha256 for file in files])
    stays = REVEALED | Q(source__in=list(ours))
    known = Known()
    for prompt in Prompt.objects.filter(stays, arena=arena).defer("html").iterator():
        known.prompts[prompt.external_id] = content_digest(PromptRow, prompt)
    for candidate in arena.candidates.filter(stays):
        known.candidates[candidate.own_name] = content_digest(CandidateRow, candidate)
    if "responses" in {file.kind for file in files}:
        rows = Response.objects.filter(stays, prompt__arena=arena)
        for row in rows.select_related("candidate", "prompt").iterator(chunk_size=500):
            known.responses[row.candidate.own_name, row.prompt.external_id] = digest(
                row.text, row.messages
            )
    return known


def _write_rejects(file: ImportedFile, folder: Path | None) -> Path | None:
    """Copy the bad rows unchanged to `<file>.rejects.<ext>` beside the file or in `folder`.

    The copy has the same header, so that it can be corrected and imported by itself. Records inside
    a JSON document are not copied: then the result is None.
    """
    path, bad = file.path, set(file.bad)
    if not any(row.end for row in file.rows() if row.number in bad):
        return None
    suffix = ".csv" if path.suffix.lower() == ".parquet" else path.suffix
    kind = f".{file.kind}" if file.format.repeats else ""
    target = (folder or path.parent) / f"{path.stem}{kind}.rejects{suffix}"
    draft = target.with_name(f"{target.name}.draft")
    try:
        with Source.at(path).open() as stream, draft.open("wb") as copy:
            place = _copy_bytes(stream, copy, file.format.preamble(path))
            for row in file.rows():
                if row.number in bad and row.start >= place:
                    _copy_bytes(stream, None, row.start - place)
                    place = row.start + _copy_bytes(stream, copy, row.end - row.start)
        draft.replace(target)
    except OSError as error:
        raise FileError(
            f"The rejected rows cannot be written to {target}: {error.strerror}. Choose another "
            "folder with --rejects."
        ) from None
    return target


def _copy_bytes(source: BinaryIO, target: BinaryIO | None, size: int) -> int:
    """Copy the next `size` bytes, or skip them; a copy ends with a line break."""
    left, last = size, b"\n"
    while left and (chunk := source.read(min(CHUNK, left))):
        left -= len(chunk)
        if target is not None:
            target.write(chunk)
            last = chunk[-1:]
    if target is not None and last != b"\n":
        target.write(b"\n")
    return size


def _write_files(arena: Arena, files: list[ImportedFile], options: Options, now: datetime) -> None:
    imports = _open_imports(arena, files, now, options)
    abandoned = arena.imports.hidden().exclude(pk__in=[source.pk for source in imports])
    discard(arena, list(abandoned))
    for file, source in zip(files, imports, strict=True):
        _write_file(arena, file, source, options.progress, by_team=options.by_team)
    read_reasons(votes=Vote.objects.filter(source__in=imports))
    if sum(file.added for file in files) > MANY_ROWS:
        sql.count_rows_anew(Prompt, Candidate, Response, Rater, Comparison, Vote)
    _reveal_imports(arena, imports)


@transaction.atomic
def _open_imports(
    arena: Arena, files: list[ImportedFile], now: datetime, options: Options
) -> list[Import]:
    """Find or create the Import of each file; one of them becomes a hidden arena's founder."""
    hidden = arena.pk is None or not Arena.objects.revealed().filter(pk=arena.pk).exists()
    is_new = arena.pk is None
    if is_new:
        arena.save()
        audit.record_in(arena, options.by, "imported an arena")
    imports = [
        Import.objects.get_or_create(
            arena=arena,
            sha256=file.sha256,
            defaults={
                "file_name": file.path.name[-255:],
                "format": file.format.NAME,
                "mapping": file.mapping,
                "started_at": now,
            },
        )[0]
        for file in files
    ]
    for file, source in zip(files, imports, strict=True):
        if source.format != file.format.NAME:
            raise ArenaImportError(
                f"An import of {file.path.name} was begun by an earlier version, which read it as "
                f"{source.format}. It cannot be resumed as {file.format.NAME}: import it into a "
                "new arena."
            )
    if hidden and arena.founded_by not in imports:
        arena.founded_by = imports[0]
        arena.save(update_fields=["founded_by"])
    if is_new and options.checks:
        bring_in_checks(arena=arena, checks=[(None, options.checks)], source=imports[0])
    return imports


def _write_file(
    arena: Arena, file: ImportedFile, source: Import, progress: Progress, *, by_team: bool
) -> None:
    """Write the good rows that are not written yet, in small batches."""
    writer = Writer(arena=arena, source=source, by_team=by_team)
    done, last = writer.rows_written(file.kind)
    rows = (row for row in file.good_rows() if row.number > last)
    size = FIRST_BATCH
    while batch := _next_batch(rows, size):
        started = time.monotonic()
        writer.write(batch, file.kind)
        # As many rows as fit into the time a transaction may take, but at most twice as many as
        # before.
        seconds = max(time.monotonic() - started, 0.001)
        wanted = min(len(batch) * BATCH_SECONDS / seconds, len(batch) * 2)
        size = int(min(max(wanted, SMALLEST_BATCH), LARGEST_BATCH))
        done += len(batch)
        progress("writing", file.path, done, file.good)
    file.added, _ = writer.rows_written(file.kind)
    if file.checks:
        file.checks = AnswerCheck.objects.filter(source=source).exclude(prompt=None).count()
    is_short = file.kind == "votes" and file.added != file.good
    if is_short or _fingerprint(file)["bytes_sha256"] != file.bytes_sha256:
        raise _changed_error(file.path)
    source.rows_added, source.rows_rejected = file.added, len(file.bad)
    source.save(update_fields=["rows_added", "rows_rejected"])


def _next_batch(rows: Iterator[Row], size: int) -> list[Row]:
    """Take the next `size` rows, or fewer if they are large."""
    batch, room = list[Row](), BATCH_BYTES
    for row in islice(rows, size):
        batch.append(row)
        room -= row.end - row.start
        if room <= 0:
            break
    return batch


@transaction.atomic
def _reveal_imports(arena: Arena, imports: list[Import]) -> None:
    """Reveal every row of these imports, and the arena they founded, by one update.

    `revealed_at` is the time of the update, not of the import's start: a leaderboard fitted in
    between must see that it is outdated.
    """
    ids = [source.pk for source in imports]
    Import.objects.filter(pk__in=ids).update(revealed_at=timezone.now())
    _announce_import(arena, founded=arena.founded_by in imports)


def _announce_import(arena: Arena, *, founded: bool) -> None:
    if founded:
        announce(arena_created, arena_id=arena.pk)
    announce(votes_changed, arena_id=arena.pk, reason="import")
