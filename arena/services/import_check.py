"""The first reading of an import: every row is checked, nothing is written to the database."""

import hashlib
from array import array
from collections.abc import Callable, Iterator, MutableSequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from django.db.models import Q

from arena.importers.base import BadRow, FileProblem, Row, SourceFile
from arena.importers.checking import Checker, Known, digest
from arena.models import Arena, Candidate, Import, Prompt, Response
from arena.models.catalog import REVEALED

PROBLEMS_SHOWN = 20
CHUNK = 1 << 20
# Told of: what is done ("checking", "writing"), the file, rows done, rows in all (about).
Progress = Callable[[str, Path, int, int], None]


@dataclass(frozen=True)
class Problem:
    """One bad row, in words."""

    path: Path
    line: int
    column: str | None
    reason: str

    def __str__(self) -> str:
        column = f", column {self.column}" if self.column else ""
        return f"{self.path}, line {self.line}{column}: {self.reason}"


@dataclass
class Problems:
    """The first bad rows, and how many there are."""

    first: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, problem: Problem) -> None:
        self.count += 1
        if len(self.first) < PROBLEMS_SHOWN:
            self.first.append(problem)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.first]
        if more := self.count - len(lines):
            lines.append(f"... and {more:,} more bad rows.")
        return "\n".join(lines)


@dataclass
class CheckedFile:
    """A file, what it is known by, and the numbers of its bad rows (ascending)."""

    file: SourceFile
    sha256: str
    lines: int
    good: int = 0
    added: int = 0
    bad: MutableSequence[int] = field(default_factory=lambda: array("Q"))
    rejects: Path | None = None

    def good_rows(self) -> Iterator[Row]:
        """Read the file again, without the rows that were found bad."""
        bad = iter(self.bad)
        next_bad = next(bad, None)
        for row in self.file.importer.rows(self.file):
            if row.number == next_bad:
                next_bad = next(bad, None)
            elif isinstance(row.record, BadRow):
                raise changed(self.file.path)
            else:
                yield row

    def bad_rows(self) -> Iterator[Row]:
        """Read the file again, without the good rows."""
        bad = set(self.bad)
        return (row for row in self.file.importer.rows(self.file) if row.number in bad)


def changed(path: Path) -> FileProblem:
    """Say that a file is not what it was when it was checked."""
    return FileProblem(
        f"{path} has changed while it was imported. Nothing of it is shown; try again."
    )


def fingerprint(path: Path) -> tuple[str, int]:
    """Return the SHA-256 of a file and how many lines it has."""
    sha, lines = hashlib.sha256(), 0
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                sha.update(chunk)
                lines += chunk.count(b"\n")
    except OSError as error:
        raise FileProblem(f"{path} cannot be read: {error.strerror}.") from None
    return sha.hexdigest(), lines


def check_files(files: list[CheckedFile], known: Known, progress: Progress) -> Problems:
    """Check every row of `files`; note in each how many are good, and which ones are not."""
    checker, problems = Checker(known), Problems()
    for one in files:
        _check_file(one, checker, problems, progress)
        if not one.good and not one.bad:
            raise FileProblem(f"{one.file.path} has no rows.")
    return problems


def _check_file(
    one: CheckedFile,
    checker: Checker,
    problems: Problems,
    progress: Progress,
) -> None:
    path = one.file.path
    for row in one.file.importer.rows(one.file):
        bad = _fault(row, checker)
        if bad is None:
            one.good += 1
        else:
            one.bad.append(row.number)
            problems.add(Problem(path, row.line, bad.column, bad.reason))
        if row.number % 1000 == 0:
            progress("checking", path, row.line, one.lines)
    progress("checking", path, one.lines, one.lines)


def _fault(row: Row, checker: Checker) -> BadRow | None:
    if isinstance(row.record, BadRow):
        return row.record
    try:
        checker.check(row.record)
    except BadRow as bad:
        return bad
    return None


# -- What the arena knows already ----------------------------------------------------------------


def known_in(arena: Arena, files: list[CheckedFile]) -> Known:
    """Return what `arena` has that stays: everything but rows of other, abandoned imports."""
    if arena.pk is None:
        return Known()
    ours = Import.objects.filter(arena=arena, sha256__in=[one.sha256 for one in files])
    stays = REVEALED | Q(source__in=list(ours))
    kinds = {one.file.kind for one in files}
    prompts = Prompt.objects.filter(stays, arena=arena)
    fields = ("external_id", "category", "text", "reference", "rubric", "variables")
    return Known(
        prompts={name: digest(*rest) for name, *rest in prompts.values_list(*fields).iterator()},
        candidates={
            one.own_name: _content(one) for one in Candidate.objects.filter(stays, arena=arena)
        },
        responses=_answers(arena, stays) if "responses" in kinds else {},
    )


def _content(one: Candidate) -> bytes:
    return digest(
        one.model, one.variant, one.system_prompt, one.user_template, one.notes, one.parameters
    )


def _answers(arena: Arena, stays: Q) -> dict[tuple[str, str], bytes]:
    rows = Response.objects.filter(stays, prompt__arena=arena).select_related("candidate", "prompt")
    return {
        (row.candidate.own_name, row.prompt.external_id): digest(row.text)
        for row in rows.iterator(chunk_size=500)
    }


# -- Rejected rows, copied byte by byte ----------------------------------------------------------


def write_rejects(one: CheckedFile, folder: Path | None) -> None:
    """Copy the bad rows, as they are, to `<file>.rejects.<ext>` beside the file or in `folder`.

    Under the same header, so that the copy can be corrected and imported by itself.
    """
    path = one.file.path
    target = (folder or path.parent) / f"{path.stem}.rejects{path.suffix}"
    draft = target.with_name(f"{target.name}.draft")
    try:
        with path.open("rb") as stream, draft.open("wb") as copy:
            _copy_bytes(stream, copy, 0, one.file.importer.preamble(path))
            for row in one.bad_rows():
                _copy_bytes(stream, copy, row.start, row.end)
        draft.replace(target)
    except OSError as error:
        raise FileProblem(
            f"The rejected rows cannot be written to {target}: {error.strerror}. "
            "Name another folder with --rejects."
        ) from None
    one.rejects = target


def _copy_bytes(source: BinaryIO, target: BinaryIO, start: int, end: int) -> None:
    """Copy the bytes [start, end), with a line break at the end if there is none."""
    source.seek(start)
    last = b"\n"
    while start < end and (chunk := source.read(min(CHUNK, end - start))):
        target.write(chunk)
        start += len(chunk)
        last = chunk[-1:]
    if last != b"\n":
        target.write(b"\n")
