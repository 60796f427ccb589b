"""Rubrics of teams: written in versions, read as judges use them, exported and imported as files.

A judge names the version: `endpoint:model@acme/support.2`. The number is part of the name, so a
name means one judge whatever is written later, as the digest of a folder's files does for judges
with a rubric on the server; `@acme/support` means the newest version. The team is part of it too:
two teams with the same files have two judges, and neither sees the other's.
"""

import difflib
import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from django.db import transaction
from django.db.models import Max, QuerySet

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import Team
from arena.models.fields import clean_field
from arena.permissions import visible_teams
from arena.services.audit import record
from arena.validation import InputError, numbered
from judges.core.rubric import Rubric, RubricError, load_rubric, rubric_of
from judges.models import Judge, RubricVersion, TeamRubric
from judges.models.rubrics import FILE_COLUMNS, FILE_LIMIT, RESERVED_SLUGS

NAME = re.compile(r"(?P<team>[-\w]+)/(?P<slug>[-\w]+)(\.(?P<number>[0-9]{1,9}))?", re.ASCII)
SLUG = re.compile(r"[a-z0-9][-a-z0-9]{0,39}")
LARGEST_ZIP = 1_000_000  # bytes
MOST_LINES = 1_000  # of a file
BAD_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError)
FILES = ", ".join(FILE_COLUMNS)
NOT_A_ZIP = f"This is not a ZIP file with a rubric: {FILES}, perhaps in one folder."


class RubricRefusedError(ServiceError):
    """A rubric that cannot be written or removed; the message says why."""


class StaleRubricError(RubricRefusedError):
    """Somebody wrote version number `newest` after the one that this was written from."""

    def __init__(self, newest: int) -> None:
        super().__init__(
            f"Version {newest} was written while you were writing. Look at what it changes; saving "
            "again keeps yours as the next version."
        )
        self.newest = newest


def rubric_named(name: str, by: Actor) -> Rubric:
    """Return the rubric of this name: a folder of the server, or a version of a team's rubric.

    Raises RubricError; a rubric of a team that `by` does not see looks like a missing one.
    """
    if "/" not in name:
        return load_rubric(name)
    version = find_version(name, visible_teams(by))
    if version is None:
        raise RubricError(f"There is no rubric called {name!r}.")
    return read_version(version)


def find_version(name: str, teams: "QuerySet[Team]") -> RubricVersion | None:
    """Return the version called `team/rubric.number`, or the newest of `team/rubric`."""
    if (parts := NAME.fullmatch(name)) is None:
        return None
    versions = RubricVersion.objects.filter(
        rubric__team__in=teams, rubric__team__slug=parts["team"], rubric__slug=parts["slug"]
    )
    if parts["number"]:
        versions = versions.filter(number=int(parts["number"]))
    return versions.select_related("rubric__team").order_by("-number").first()


def read_version(version: RubricVersion, name: str = "") -> Rubric:
    """Return a version as judges use it. Raises RubricError if this release refuses its files."""
    return _read(name or version.name, tuple(version.texts.items()))


@lru_cache(maxsize=256)
def _read(name: str, texts: tuple[tuple[str, str], ...]) -> Rubric:
    return rubric_of(name, {file: text.encode() for file, text in texts})


def rubric_of_judge(judge: Judge) -> Rubric:
    """Return a judge's rubric: its version of a team's, or the server's files as they are now."""
    version = judge.rubric_version
    return load_rubric(judge.rubric) if version is None else read_version(version, judge.rubric)


def newest_versions(teams: "QuerySet[Team]") -> "QuerySet[RubricVersion]":
    """Return the newest version of each rubric of these teams."""
    rubrics = TeamRubric.objects.filter(team__in=teams).annotate(newest=Max("versions"))
    versions = RubricVersion.objects.filter(pk__in=rubrics.values("newest"))
    return versions.select_related("rubric__team").order_by("rubric__team__slug", "rubric__slug")


def check_rubric(name: str, texts: Mapping[str, str]) -> tuple[dict[str, str], Rubric]:
    """Return cleaned texts by file name, and their rubric; raises RubricRefusedError."""
    cleaned = {}
    for file, column in FILE_COLUMNS.items():
        try:
            cleaned[file] = clean_field(RubricVersion, column, texts.get(file, ""))
        except InputError as error:
            raise RubricRefusedError(f"{file} {error.reason}.", field=column) from None
        if (lines := cleaned[file].count("\n")) > MOST_LINES:  # differences would take too long
            limit = f"the limit is {MOST_LINES:,}"
            raise RubricRefusedError(f"{file} has {lines:,} lines; {limit}.", field=column)
    if not cleaned["note.md"].strip():
        del cleaned["note.md"]
    try:
        return cleaned, rubric_of(name, {file: text.encode() for file, text in cleaned.items()})
    except RubricError as error:
        raise RubricRefusedError(str(error)) from None


@transaction.atomic
def write_rubric(
    *, team: Team, slug: str, texts: Mapping[str, str], by: Actor, after: int, reason: str = ""
) -> RubricVersion:
    """Write the next version of a rubric, whose newest one is number `after`; 0 makes a rubric.

    `texts` are those of its files by name. Writing the newest version again changes nothing.
    Raises RubricRefusedError with a sentence, such as that of the rubric's checks.
    """
    cleaned, rubric = check_rubric(f"{team.slug}/{slug}", texts)
    reason = _clean_reason(reason)
    stored = _locked_rubric(team, slug)
    if stored is None and after:
        raise RubricRefusedError("This rubric was deleted while you were writing.")
    versions = RubricVersion.objects.filter(rubric=stored)
    same = versions.filter(digest=rubric.digest).first() if stored else None
    newest = versions.order_by("-number").first() if stored else None
    if same is not None and same == newest:
        return same
    if same is not None:
        raise RubricRefusedError(f"Version {same.number} has the same files: judges can use it.")
    if newest is not None and not after:
        raise RubricRefusedError(f"The team already has a rubric called {slug}.", field="slug")
    if newest is not None and newest.number != after:
        raise StaleRubricError(newest.number)
    if stored is None:
        stored = TeamRubric.objects.create(team=team, slug=slug)
    version = RubricVersion.objects.create(
        rubric=stored,
        number=after + 1,
        digest=rubric.digest,
        reason=reason,
        made_by=by.user,
        **{FILE_COLUMNS[file]: text for file, text in cleaned.items()},
    )
    record(team=team, by=by, action="wrote a rubric", subject=slug, version=version.number)
    return version


def _locked_rubric(team: Team, slug: str) -> TeamRubric | None:
    """Return the team's rubric, locked against other writers. Its address is checked."""
    if not SLUG.fullmatch(slug) or slug in RESERVED_SLUGS:
        raise RubricRefusedError(
            "An address has up to 40 small letters, digits and hyphens, begins with a letter or a "
            f"digit, and is none of: {', '.join(RESERVED_SLUGS)}.",
            field="slug",
        )
    # The team's row, because two people may write the first version at once.
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    return TeamRubric.objects.filter(team=team, slug=slug).first()


def _clean_reason(reason: str) -> str:
    try:
        cleaned: str = clean_field(RubricVersion, "reason", reason)
    except InputError as error:
        raise RubricRefusedError(f"What changed {error.reason}.", field="reason") from None
    return cleaned


@transaction.atomic
def remove_rubric(*, rubric: TeamRubric, by: Actor) -> None:
    """Delete a rubric that no judge uses, with its versions. Raises RubricRefusedError."""
    list(rubric.versions.select_for_update())  # waits for judges that are being registered
    judges = Judge.objects.filter(rubric_version__rubric=rubric).count()
    if judges:
        raise RubricRefusedError(
            f"{numbered(judges, 'judge')} used this rubric, and their verdicts depend on it, so it "
            "cannot be deleted."
        )
    record(team=rubric.team, by=by, action="deleted a rubric", subject=rubric.slug)
    rubric.delete()


@dataclass(frozen=True)
class FileDifference:
    """How a file changed: lines, each with "+", "-", "@" or " " for added, removed, place, same."""

    file: str
    lines: list[tuple[str, str]]


def differences(before: RubricVersion, now: RubricVersion) -> list[FileDifference]:
    """Return the files that differ between two versions."""
    changed = []
    for file in FILE_COLUMNS:
        old, new = (version.texts.get(file, "").splitlines() for version in (before, now))
        if old != new:
            unified = list(difflib.unified_diff(old, new, lineterm=""))[2:]
            changed.append(FileDifference(file, [(line[0], line[1:]) for line in unified]))
    return changed


def as_zip(version: RubricVersion) -> bytes:
    """Return the files of a version in a folder, as `judges/rubrics` has them. Always the same."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in version.texts.items():
            entry = zipfile.ZipInfo(f"{version.rubric.slug}/{file}")
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return packed.getvalue()


def read_zip(content: bytes) -> tuple[str, dict[str, str]]:
    """Return the folder's name, '' if there is none, and the texts of a rubric's files by name.

    Raises RubricRefusedError. No more is unpacked than a rubric may have.
    """
    if len(content) > LARGEST_ZIP:
        raise RubricRefusedError(f"The file is larger than {LARGEST_ZIP:,} bytes.", field="file")
    texts: dict[str, str] = {}
    folders = set()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.infolist():
                path = PurePosixPath(entry.filename)
                if entry.is_dir() or path.parts[0] == "__MACOSX":
                    continue
                if path.name not in FILE_COLUMNS or len(path.parts) > 2 or path.name in texts:
                    raise RubricRefusedError(f"{NOT_A_ZIP} It has {path}.", field="file")
                folders.add(path.parts[0] if len(path.parts) == 2 else "")
                with archive.open(entry) as file:
                    texts[path.name] = file.read(4 * FILE_LIMIT + 1).decode("utf-8")
    except UnicodeDecodeError:
        raise RubricRefusedError("A file of the rubric is not UTF-8.", field="file") from None
    except BAD_ZIP:
        raise RubricRefusedError(NOT_A_ZIP, field="file") from None
    if len(folders) != 1:
        raise RubricRefusedError(NOT_A_ZIP, field="file")
    return folders.pop(), texts
