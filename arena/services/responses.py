"""Responses that are uploaded, matched to the prompts of the arena; and files of any format that a
team imports into its arena, after a preview.

Between preview and confirmation such a file waits in the database, because another host may be
asked to import it.
"""

import re
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from arena.actors import Actor
from arena.errors import ServiceError
from arena.files.reader import FileError, RepeatedColumnError, UnknownTableError
from arena.files.rows import ResponseRow
from arena.files.tables import AT_MOST_BYTES, Problem
from arena.formats.base import RejectedRows
from arena.formats.columns import fields_of
from arena.models import Arena, Candidate, Comparison, KeptUpload, Prompt, Response, Team
from arena.self_identification import self_identifies
from arena.services import audit
from arena.services.candidate_checks import CandidateError, check_is_open
from arena.services.imports import (
    ArenaImportError,
    BadRowsError,
    ImportPreview,
    ImportReport,
    Options,
    PreviewedFile,
    import_files,
    preview_files,
    preview_of_table,
)
from arena.services.locks import retry_on_deadlock
from arena.services.pairs import sync_pairs
from arena.validation import join_names, numbered, quoted

BATCH = 500
MOST_ROWS = 200_000  # of an upload: an archive of 50 kB may have millions
FIGURES = ("tokens_in", "tokens_out", "seconds", "cost")
# Without "call": updating a unique column would lock answers against references, and issuing a
# comparison refers to answers while holding a pair. Uploaded answers have no call.
WRITTEN = ["text", "messages", *FIGURES, "names_itself", "html", "html_version"]


@dataclass
class UploadReport:
    """The result of an upload. `written` is false if a bad row prevented all rows from being
    written.

    `unmatched` rows name a prompt that the arena does not have; `refused` rows have other problems.
    `missing` are the ids of the active prompts that the candidate has not answered yet.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    written: bool = True
    unmatched: list[Problem] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[Problem]:
        """The problems of all rows that were not written, in the order of the rows."""
        return sorted([*self.unmatched, *self.refused], key=lambda problem: problem.row)

    def keep_out(self) -> None:
        """Record that nothing was written, because of `problems`."""
        self.written = False
        self.added = self.changed = 0


def upsert_responses(
    *,
    candidate: Candidate,
    rows: Sequence[ResponseRow],
    by: Actor,
    unread: Sequence[Problem] = (),
    atomic: bool = False,
) -> UploadReport:
    """Add answers of `candidate`, and change existing ones that nobody has seen yet.

    All rows are written in one transaction. The report names the refused rows and the unreadable
    ones (`unread`); with `atomic`, one such row keeps out all others too. Tokens, time and cost
    that a row does not give stay as they are. Raises CandidateError if the candidate accepts no
    answers.
    """
    # Checking long answers takes a while, so not while voters wait for the write lock.
    names = (candidate.name, candidate.model)
    self_identifying = {id(row): self_identifies(row.text, names=names) for row in rows}
    while True:  # each round refuses at least one answer more
        with suppress(_ShownMeanwhileError):
            return _upsert(
                candidate, rows, unread, lambda row: self_identifying[id(row)], by, atomic
            )


class _ShownMeanwhileError(Exception):
    """An answer was overwritten while somebody was looking at it."""


@retry_on_deadlock
@transaction.atomic
def _upsert(
    candidate: Candidate,
    rows: Sequence[ResponseRow],
    unread: Sequence[Problem],
    tells_who: Callable[[ResponseRow], bool],
    by: Actor,
    atomic: bool,
) -> UploadReport:
    check_is_open(candidate, by=by)
    # NO KEY: a comparison being issued refers to the candidate's row.
    locked = Candidate.objects.select_for_update(no_key=True).get(pk=candidate.pk)
    _check_takes_answers(locked)
    plan = _Plan(locked, tells_who, UploadReport(refused=list(unread)))
    for row in plan.own(rows):
        plan.take(row)
    plan.refuse_compared()
    return _carry_out(plan, by=by, atomic=atomic)


def _check_takes_answers(candidate: Candidate) -> None:
    if candidate.retired_at is not None:
        raise CandidateError(f"{candidate.own_name} is archived, so it accepts no more answers.")
    if candidate.endpoint:
        raise CandidateError(
            f"The answers of {candidate.own_name} are generated at {candidate.endpoint}. To "
            "upload answers, register a candidate without an endpoint."
        )


def _carry_out(plan: "_Plan", *, by: Actor, atomic: bool) -> UploadReport:
    report, candidate = plan.report, plan.candidate
    if atomic and report.problems:
        report.keep_out()
        report.missing = plan.missing(())
        return report
    drafts = list(plan.drafts.values())
    Response.objects.bulk_create(
        [draft for draft, _ in drafts],
        batch_size=BATCH,
        update_conflicts=True,
        unique_fields=["candidate", "prompt"],
        update_fields=WRITTEN,
    )
    if drafts:
        sync_pairs(arena=candidate.arena, touched=candidate)
        audit.record_in(
            candidate.arena,
            by,
            "uploaded answers",
            candidate.own_name,
            team=candidate.team,
            candidate=candidate.pk,
            added=report.added,
            changed=report.changed,
        )
    report.missing = plan.missing(plan.drafts)
    plan.check_not_shown()
    return report


@dataclass
class _Plan:
    """The answers to write, planned row by row against the candidate's existing answers."""

    candidate: Candidate
    tells_who: Callable[[ResponseRow], bool]
    report: UploadReport
    drafts: dict[int, tuple[Response, ResponseRow]] = field(default_factory=dict)
    retold: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        prompts = Prompt.objects.revealed().filter(arena=self.candidate.arena_id).order_by("pk")
        self.prompts = {
            name: (pk, retired is not None)
            for pk, name, retired in prompts.values_list("pk", "external_id", "retired_at")
        }
        answers = self.candidate.responses.defer("html")
        self.answers = {answer.prompt_id: answer for answer in answers}
        self._by_text: dict[str, list[str]] | None = None

    @property
    def by_text(self) -> dict[str, list[str]]:
        """The ids of the prompts with each text, read only if a row names a prompt by its text."""
        if self._by_text is None:
            self._by_text = {}
            prompts = Prompt.objects.revealed().filter(arena=self.candidate.arena_id)
            for name, text in prompts.values_list("external_id", "text").iterator():
                self._by_text.setdefault(_plain(text), []).append(name)
        return self._by_text

    def own(self, rows: Sequence[ResponseRow]) -> list[ResponseRow]:
        """Return this candidate's rows: the file may be an export with all candidates' answers.

        If no row names this candidate, the column `candidate` means something else, and all rows
        are its own.
        """
        names = {self.candidate.own_name, str(self.candidate)}
        if not any(row.candidate in names for row in rows):
            return list(rows)
        for row in rows:
            if row.candidate and row.candidate not in names:
                self._refuse(row, f"is an answer of {quoted(row.candidate)}", "candidate")
        return [row for row in rows if not row.candidate or row.candidate in names]

    def take(self, row: ResponseRow) -> None:
        """Sort one row: added, changed, unchanged, unmatched, or refused with a reason."""
        name = self._prompt_of(row)
        if name is None:
            return
        pk, is_retired = self.prompts[name]
        answer = self.answers.get(pk)
        if pk in self.rows:
            self._refuse(row, f"answers prompt {quoted(name)} again, after row {self.rows[pk]:,}")
        elif answer is None and is_retired:
            self._refuse(row, f"answers prompt {quoted(name)}, which is archived")
        elif answer is None:
            self._draft(row, pk, None)
            self.report.added += 1
        elif _differs(answer, row) or _given_figures(row).items() - _figures(answer).items():
            self._draft(row, pk, answer)
            self.report.changed += 1
        else:
            self.report.unchanged += 1
        self.rows.setdefault(pk, row.row)

    def _prompt_of(self, row: ResponseRow) -> str | None:
        """Return the id of the prompt that `row` answers; None, and a problem, if there is none."""
        if row.prompt_id in self.prompts:
            return row.prompt_id
        if row.prompt_id or row.prompt.strip() in self.prompts:
            return self._known(row, row.prompt_id or row.prompt.strip())
        ids = self.by_text.get(_plain(row.prompt), [])
        if len(ids) == 1:
            return ids[0]
        if ids:
            self._refuse(
                row,
                f"gives a text that several prompts share: {join_names(sorted(ids), 5)}",
                "prompt",
            )
            return None
        return self._known(row, row.prompt)

    def _known(self, row: ResponseRow, name: str) -> str | None:
        if name in self.prompts:
            return name
        sentence = f"There is no prompt {quoted(name)} in this arena."
        column = "prompt_id" if row.prompt_id else "prompt"
        self.report.unmatched.append(Problem(row.row, column, sentence))
        return None

    def _refuse(self, row: ResponseRow, reason: str, column: str = "prompt_id") -> None:
        self.report.refused.append(Problem(row.row, column, f"The row {reason}."))

    def _draft(self, row: ResponseRow, pk: int, answer: Response | None) -> None:
        """Draft the answer in `row`; a new text drops the old text's tokens, time and cost."""
        draft = Response(candidate=self.candidate, prompt_id=pk, text=row.text)
        draft.messages = row.messages
        if answer is not None and not _differs(answer, row):
            draft.names_itself = answer.names_itself
            figures = _figures(answer)
        else:
            draft.names_itself = self.tells_who(row)
            figures = {}
            if answer is not None:
                self.retold[answer.pk] = pk
        for name, value in (figures | _given_figures(row)).items():
            setattr(draft, name, value)
        self.drafts[pk] = draft, row

    def refuse_compared(self) -> None:
        """Refuse new texts for answers that somebody has been shown."""
        for pk in compared(list(self.retold)):
            _, row = self.drafts.pop(self.retold[pk])
            self._refuse(row, "changes an answer that has already been compared", "text")
            self.report.changed -= 1

    def check_not_shown(self) -> None:
        """Raise _ShownMeanwhileError if an overwritten text was shown since `refuse_compared`.

        Ten thousand rows take seconds to write, and voters must not wait that long for a lock.
        """
        if compared([pk for pk, prompt in self.retold.items() if prompt in self.drafts]):
            raise _ShownMeanwhileError

    def missing(self, drafted: Iterable[int]) -> list[str]:
        """Return the ids of the active prompts without an answer."""
        answered = {*self.answers, *drafted}
        prompts = self.prompts.items()
        return [name for name, (pk, retired) in prompts if not retired and pk not in answered]


def compared(ids: Sequence[int]) -> set[int]:
    """Return the ids of the answers that are in a comparison."""
    in_comparisons: set[int] = set()
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        for side in ("left_response", "right_response"):
            comparisons = Comparison.objects.filter(**{f"{side}__in": some})
            in_comparisons.update(comparisons.values_list(side, flat=True).distinct())
    return in_comparisons


def _differs(answer: Response, row: ResponseRow) -> bool:
    return bool(answer.text != row.text or answer.messages != row.messages)


def _given_figures(row: ResponseRow) -> dict[str, Any]:
    return {name: value for name in FIGURES if (value := getattr(row, name)) is not None}


def _figures(answer: Response) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in FIGURES}


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


KEPT_FOR = timedelta(days=1)
MOST_KEPT = 5  # of each person
GONE = "The file is no longer stored. Choose it again."
_UNSAFE = re.compile(r"[^\w. ()+@-]")


class UploadError(ServiceError):
    """A file that was not imported; the message is a sentence for people."""


class UnknownUploadError(UploadError):
    """A file of which somebody has to say what its columns are, if it is a table."""


class BadUploadError(UploadError):
    """Rows of the file are bad, so that nothing was imported."""

    def __init__(self, rejected: RejectedRows, *, skipped: bool) -> None:
        advice = "No valid rows are left." if skipped else "Correct them, or skip bad rows."
        super().__init__(
            f"Nothing was imported, because of {numbered(rejected.count, 'bad row')}. {advice}",
            field="skip_bad",
        )
        self.rejected = rejected


@dataclass(frozen=True)
class Upload:
    """A file, and how to read it: `columns` are the chosen ones, by field, `values` what winners
    are called, with their meanings. `roles`, if any, say what each column is read as instead, and
    that no others are read."""

    name: str
    data: bytes
    format_name: str = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    skip_bad: bool = False


def preview_upload(*, arena: Arena, upload: Upload) -> ImportPreview:
    """Return what the file would add; nothing is written. Raises UploadError."""
    with _on_disk(upload) as (path, folder):
        preview = preview_files(slug=arena.slug, paths=[path], options=_options(upload, path))
        return replace(preview, rejected=_nameless(preview.rejected, folder))


def import_upload(*, arena: Arena, upload: Upload, by: Actor, now: datetime) -> ImportReport:
    """Import the file. Raises UploadError; BadUploadError for bad rows, unless they are skipped.

    Votes of people count as votes by the team's token do: on a public leaderboard only if the arena
    says so.
    """
    with _on_disk(upload) as (path, folder):
        try:
            options = replace(_options(upload, path), by=by, by_team=True, rejects_folder=folder)
            report = import_files(slug=arena.slug, paths=[path], now=now, options=options)
        except BadRowsError as error:
            rejected = _nameless(error.rejected, folder)
            raise BadUploadError(rejected, skipped=upload.skip_bad) from None
    added: dict[str, Any] = {file.kind: 0 for file in report.files}
    for file in report.files:
        added[file.kind] += 0 if file.known else file.added
    if any(added.values()):
        audit.record_in(arena, by, "imported a file", upload.name[:200], **added)
    return replace(report, rejected=_nameless(report.rejected, folder))


def table_of_upload(*, upload: Upload) -> PreviewedFile | None:
    """Return the columns of a table that cannot be read yet, so that somebody can choose them; None
    for any other file. Raises UploadError."""
    with _on_disk(upload) as (path, _):
        return preview_of_table(path)


def _options(upload: Upload, path: Path) -> Options:
    format_name, columns = upload.format_name, upload.columns
    if upload.roles:
        format_name, columns = fields_of(path, upload.roles, format_name)
    return Options(
        format_name=format_name,
        columns=columns,
        values=upload.values,
        skip_bad=upload.skip_bad,
        most_rows=MOST_ROWS,
    )


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
            is_unknown = isinstance(error, UnknownTableError | RepeatedColumnError)
            kind = UnknownUploadError if is_unknown else UploadError
            raise kind(_without(str(error), folder), field="file") from None


def _nameless(rejected: RejectedRows, folder: Path) -> RejectedRows:
    """The rejected rows, without the folder's name."""
    rejected.rename(lambda name: _without(name, folder))
    return rejected


def _without(sentence: str, folder: Path) -> str:
    return sentence.replace(f"{folder}/", "")


def file_name(name: str) -> str:
    """Return a name without a path, so that it can be used in any folder."""
    safe = _UNSAFE.sub("_", Path(name.replace("\\", "/")).name).lstrip(".")[-100:]
    return safe or "file"


@transaction.atomic
def keep_upload(*, place: Arena | Team, name: str, data: bytes, by: Actor) -> str:
    """Keep the file for a day; return the key to it, which is good for this person and place.

    Of a person's files the newest are kept.
    """
    own = KeptUpload.objects.filter(owner=by.key)
    newest = own.order_by("-expires_at").values_list("key", flat=True)[: MOST_KEPT - 1]
    own.exclude(key__in=list(newest)).delete()
    kept = KeptUpload.objects.create(
        key=secrets.token_urlsafe(),
        place=_where(place),
        owner=by.key,
        name=name,
        data=data,
        expires_at=timezone.now() + KEPT_FOR,
    )
    return kept.key


def kept_upload(*, place: Arena | Team, key: str, by: Actor) -> tuple[str, bytes]:
    """Return the name and the bytes of a kept file. Raises UploadError."""
    kept = KeptUpload.objects.filter(
        key=key, place=_where(place), owner=by.key, expires_at__gt=timezone.now()
    ).first()
    if kept is None:
        raise UploadError(GONE, field="file")
    return kept.name, bytes(kept.data)


def _where(place: Arena | Team) -> str:
    return f"{type(place).__name__} {place.pk}"
