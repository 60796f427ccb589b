"""Writing the rows of an import, one batch per transaction, and discarding abandoned imports.

Rows are written in the order of the file, and each batch completely or not at all, so an
interrupted import has written the beginning of the file. Conflicts are never ignored: rows are
checked first, the importer holds the arena's lock, and errors of the database are raised.
"""

import uuid
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, cast

from django.db import connection, transaction
from django.db.models import DateTimeField, Field, JSONField, Max, Model, UUIDField

from arena.files.reader import Row
from arena.files.rows import Provenance, ResponseRow, VoteRow
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    Import,
    Prompt,
    Rater,
    Response,
    Vote,
    VoteChannel,
)
from arena.outcomes import Uncounted
from arena.self_identification import self_identifies
from arena.services.checks import bring_in_checks

REMEMBERED = 100_000
HELD_BEFORE = "held for review when it was exported"
VOIDED_BEFORE = "voided before it was exported"
DELETED_AT_ONCE = 2_000
MODELS: dict[str, type[Any]] = {
    "prompts": Prompt,
    "candidates": Candidate,
    "responses": Response,
    "votes": Vote,
}
PROMPT = (
    *("external_id", "category", "document", "text", "messages", "reference", "rubric"),
    "variables",
)
ANSWER = ("text", "messages", "tokens_in", "tokens_out", "seconds", "cost")
COMPARISON = (
    *("key", "arena", "rater", "prompt", "left", "right", "left_response", "right_response"),
    *("names_itself", "source", "source_row", "draw_probability"),
)
VOTE = (
    *("arena", "comparison", "rater", "outcome", "preference", "cast_at", "void_reason"),
    *("details", "source", "source_row", "channel", "uncounted"),
)
ORIGIN = ("voided_at", "verified", "rushed", "seconds", "network")
# Fields whose values the two databases store differently.
ADAPTED = (DateTimeField, JSONField, UUIDField)
Values = tuple[Any, ...]
Key = TypeVar("Key", bound=Hashable)


class Ids(Generic[Key]):
    """Ids by name, read from the database a batch at a time and cached up to a limit."""

    def __init__(self, ask: Callable[[Collection[Key]], dict[Key, int]]) -> None:
        self.ask = ask
        self.remembered: dict[Key, int] = {}

    def of(self, names: Iterable[Key]) -> dict[Key, int]:
        """Return the ids of the existing `names`."""
        wanted = dict.fromkeys(names)
        if len(self.remembered) > REMEMBERED:
            self.remembered.clear()
        unknown = [name for name in wanted if name not in self.remembered]
        if unknown:
            self.remembered |= self.ask(unknown)
        return {name: self.remembered[name] for name in wanted if name in self.remembered}

    def made(self, names: Iterable[Key], make: Callable[[list[Key]], object]) -> dict[Key, int]:
        """Return the ids of `names`, after `make` has created the missing ones."""
        wanted = list(dict.fromkeys(names))
        ids = self.of(wanted)
        if missing := [name for name in wanted if name not in ids]:
            make(missing)
            ids |= self.of(missing)
        return ids


class Writer:
    """Writes the rows of one file into one arena."""

    def __init__(self, *, arena: Arena, source: Import, by_team: bool = False) -> None:
        self.channel = VoteChannel.TOKEN if by_team else VoteChannel.FILE
        self.arena = arena
        self.source = source
        prompts = Prompt.objects.filter(arena=arena)
        self.prompts: Ids[str] = Ids(
            lambda names: dict(
                prompts.filter(external_id__in=names).values_list("external_id", "pk")
            )
        )
        self.raters: Ids[tuple[str, str]] = Ids(self._rater_ids)
        self.candidates = {candidate.own_name: candidate for candidate in arena.candidates.all()}
        self.self_identifying: set[int] = set()

    def rows_written(self, kind: str) -> tuple[int, int]:
        """Return how many rows of this file are already written, and the number of the last one."""
        there = MODELS[kind].objects.filter(source=self.source, source_row__isnull=False)
        return there.count(), there.aggregate(last=Max("source_row"))["last"] or 0

    def write(self, rows: list[Row], kind: str) -> None:
        """Write a batch of good rows, all of one kind, in one transaction."""
        if kind == "responses":
            # Checking long answers takes a while, so not while voters wait for the write lock.
            self.self_identifying = {row.number for row in rows if self._names_author(row.content)}
        write = {
            "prompts": self._write_prompts,
            "candidates": self._write_candidates,
            "responses": self._write_responses,
            "votes": self._write_votes,
        }[kind]
        with transaction.atomic():
            write(rows)

    def _names_author(self, response: ResponseRow) -> bool:
        author = self.candidates[response.candidate]
        return self_identifies(response.text, names=(author.name, author.model))

    def _shared_fields(self, row: Row, names: Sequence[str]) -> dict[str, Any]:
        """Return the source of a row, and its fields that have the same name in the model."""
        fields = {name: getattr(row.content, name) for name in names}
        if getattr(row.content, "retired", False):
            fields["retired_at"] = self.source.started_at
        return fields | {"source_id": self.source.pk, "source_row": row.number}

    def _write_prompts(self, rows: list[Row]) -> None:
        known = self.prompts.of(row.content.external_id for row in rows)
        Prompt.objects.bulk_create(
            self._prompt(row)
            for row in _without_repetitions(rows, lambda content: content.external_id)
            if row.content.external_id not in known
        )
        if with_checks := [row.content for row in rows if row.content.checks]:
            ids = self.prompts.of(prompt.external_id for prompt in with_checks)
            bring_in_checks(
                arena=self.arena,
                checks=[(ids[prompt.external_id], prompt.checks) for prompt in with_checks],
                source=self.source,
            )

    def _prompt(self, row: Row) -> Prompt:
        prompt = Prompt(arena_id=self.arena.pk, **self._shared_fields(row, PROMPT))
        if row.content.showcased and not prompt.is_held_out(self.arena):
            prompt.in_showcase = True
            prompt.showcased_at = prompt.retired_at = self.source.started_at
        return prompt

    def _write_candidates(self, rows: list[Row]) -> None:
        new = [
            row
            for row in _without_repetitions(rows, lambda content: content.name)
            if row.content.name not in self.candidates
        ]
        # Aliases last: what they are merged into may be in the same batch.
        for are_aliases in (False, True):
            Candidate.objects.bulk_create(
                self._candidate(row) for row in new if bool(row.content.merged_into) is are_aliases
            )
            for candidate in self.arena.candidates.select_related("merged_into"):
                self.candidates[candidate.own_name] = candidate

    def _candidate(self, row: Row) -> Candidate:
        fields = self._shared_fields(row, ("name", *Candidate.PUBLIC_CONTENT))
        if row.content.merged_into:
            named, now = self.candidates[row.content.merged_into], self.source.started_at
            target = named.merged_into or named  # the arena may have merged it since
            fields |= {"merged_into": target, "merged_at": now, "retired_at": now}
        return Candidate(arena_id=self.arena.pk, **fields)

    def _write_responses(self, rows: list[Row]) -> None:
        rows = _without_repetitions(rows, lambda content: (content.candidate, content.prompt_id))
        prompts = self.prompts.of(row.content.prompt_id for row in rows)
        keys = [
            (self.candidates[row.content.candidate].pk, prompts[row.content.prompt_id])
            for row in rows
        ]
        created = Response.objects.bulk_create(
            Response(
                candidate_id=candidate,
                prompt_id=prompt,
                names_itself=row.number in self.self_identifying,
                **self._shared_fields(row, ANSWER),
            )
            for row, (candidate, prompt) in zip(rows, keys, strict=True)
            if (candidate, prompt) not in self.responses
        )
        # A file of another tool may repeat an answer in a later batch.
        self.responses |= {
            (answer.candidate_id, answer.prompt_id): (answer.pk, answer.names_itself)
            for answer in created
        }

    def _write_votes(self, rows: list[Row]) -> None:
        votes = [row.content for row in rows]
        names = dict.fromkeys(name for vote in votes for name in (vote.left, vote.right))
        created = Candidate.objects.bulk_create(
            Candidate(arena=self.arena, name=name, source=self.source)
            for name in names
            if name not in self.candidates
        )
        self.candidates |= {candidate.name: candidate for candidate in created}
        documents = {vote.prompt: vote.document for vote in reversed(votes) if vote.document}
        prompts = self.prompts.made(
            (vote.prompt for vote in votes if vote.prompt),
            partial(self._create_prompts, documents),
        )
        raters = self.raters.made(
            ((vote.rater_kind, vote.rater) for vote in votes), self._create_raters
        )
        compared = [self._comparison_values(row, prompts, raters) for row in rows]
        insert(Comparison, COMPARISON, compared)
        named = COMPARISON.index("names_itself")
        numbers = (rows[0].number, rows[-1].number)
        inserted = Comparison.objects.filter(source=self.source, source_row__range=numbers)
        comparisons = dict(inserted.values_list("source_row", "pk"))
        rows_of_votes = [
            self._vote_values(
                row,
                comparisons[row.number],
                raters[row.content.rater_kind, row.content.rater],
                self_identifies=comparison[named],
            )
            for row, comparison in zip(rows, compared, strict=True)
        ]
        # Most files say nothing about their votes' origin, and fewer columns are faster.
        with_origin = any(vote.provenance for vote in votes)
        columns = (*VOTE, *ORIGIN) if with_origin else VOTE
        insert(Vote, columns, (values[: len(columns)] for values in rows_of_votes))

    def _vote_values(
        self, row: Row, comparison: int, rater: int, *, self_identifies: bool
    ) -> Values:
        """Return the values of VOTE and ORIGIN.

        A vote that counted where it was exported counts here. A hold is not exported, so a held
        vote is voided.
        """
        vote: VoteRow = row.content
        origin = vote.provenance or Provenance()
        # A team's file may claim anything, so only operators can import the origin of votes.
        if vote.provenance is None or self.channel != VoteChannel.FILE:
            why: Any = origin.uncounted or self._uncounted(vote, self_identifies=self_identifies)
            origin = replace(origin, channel=None, verified=False, uncounted=why)
        if origin.uncounted == Uncounted.HELD:
            why = Uncounted.RUSHED if origin.rushed else None
            origin = replace(
                origin,
                uncounted=why,
                voided_at=origin.voided_at or self.source.started_at,
                void_reason=origin.void_reason or HELD_BEFORE,
            )
        channel: str | None = origin.channel
        if channel is None:
            channel = self.channel if vote.rater_kind == Rater.Kind.PERSON else ""
        return (
            self.arena.pk,
            comparison,
            rater,
            vote.outcome,
            vote.preference,
            vote.cast_at or self.source.started_at,
            (origin.void_reason or VOIDED_BEFORE) if origin.voided_at else "",
            vote.details or None,
            self.source.pk,
            row.number,
            channel,
            origin.uncounted,
            origin.voided_at,
            origin.verified,
            origin.rushed,
            origin.seconds,
            origin.network,
        )

    def _uncounted(self, vote: VoteRow, *, self_identifies: bool) -> str | None:
        """Return why a vote does not count, by the rules that `db.sql.UNCOUNTED` applies to votes
        cast here."""
        arena, is_person = self.arena, vote.rater_kind == Rater.Kind.PERSON
        is_public = arena.visibility == Arena.Visibility.PUBLIC
        is_by_team = is_person and self.channel == VoteChannel.TOKEN
        if is_by_team and is_public and not arena.counts_tokens:
            return Uncounted.CHANNEL
        if self_identifies and arena.self_identifying == Arena.SelfIdentifying.DROP:
            return Uncounted.NAMED
        return None

    def _comparison_values(
        self, row: Row, prompts: dict[str, int], raters: dict[tuple[str, str], int]
    ) -> Values:
        vote = row.content
        left, right = self.candidates[vote.left].pk, self.candidates[vote.right].pk
        prompt = prompts[vote.prompt] if vote.prompt else None
        answers = [self.responses.get((candidate, prompt or 0)) for candidate in (left, right)]
        left_answer, right_answer = answers if all(answers) else (None, None)
        return (
            uuid.uuid4(),
            self.arena.pk,
            raters[vote.rater_kind, vote.rater],
            prompt,
            left,
            right,
            left_answer and left_answer[0],
            right_answer and right_answer[0],
            any(answer and answer[1] for answer in (left_answer, right_answer)),
            self.source.pk,
            row.number,
            vote.provenance and vote.provenance.draw_probability,
        )

    @cached_property
    def responses(self) -> dict[tuple[int, int], tuple[int, bool]]:
        """The arena's answers, with this file's so far: (id, whether it identifies itself)."""
        rows = Response.objects.filter(prompt__arena=self.arena).values_list(
            "candidate_id", "prompt_id", "pk", "names_itself"
        )
        return {(a, b): (pk, names) for a, b, pk, names in rows.iterator()}

    def _rater_ids(self, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        raters = Rater.objects.filter(arena=self.arena, name__in={name for _, name in names})
        return {(kind, name): pk for kind, name, pk in raters.values_list("kind", "name", "pk")}

    def _create_prompts(self, documents: Mapping[str, str], names: list[str]) -> None:
        Prompt.objects.bulk_create(
            Prompt(
                arena=self.arena,
                external_id=name,
                document=documents.get(name, ""),
                source=self.source,
            )
            for name in names
        )

    def _create_raters(self, names: list[tuple[str, str]]) -> None:
        Rater.objects.bulk_create(
            Rater(arena=self.arena, kind=kind, name=name) for kind, name in names
        )


def _without_repetitions(rows: list[Row], key: Callable[[Any], Hashable]) -> list[Row]:
    """Drop rows that repeat an earlier one, which is allowed in files of other tools."""
    return list({key(row.content): row for row in reversed(rows)}.values())[::-1]


def discard(arena: Arena, imports: Collection[Import]) -> None:
    """Delete abandoned imports that were never revealed, with all their rows."""
    # So that none of the candidates that go is what another was merged into.
    Candidate.objects.filter(source__in=imports).update(merged_into=None, merged_at=None)
    for model in (Vote, Comparison, Response, Candidate, Prompt):
        rows = model.objects.filter(source__in=imports).order_by("pk")
        while ids := list(rows.values_list("pk", flat=True)[:DELETED_AT_ONCE]):
            model.objects.filter(pk__in=ids).delete()
    Rater.objects.filter(arena=arena, votes=None, comparisons=None).delete()
    Import.objects.filter(pk__in=[source.pk for source in imports]).delete()


def insert(model: type[Model], columns: Sequence[str], rows: Iterable[Values]) -> None:
    """Insert plain values: for millions of votes, model instances would take most of the time.

    All other columns must be nullable or have a default in the database.
    """
    fields = [cast("Field[Any, Any]", model._meta.get_field(name)) for name in columns]
    quote = connection.ops.quote_name
    names = ", ".join(quote(str(field.column)) for field in fields)
    table = quote(model._meta.db_table)
    adapted = [(i, field) for i, field in enumerate(fields) if isinstance(field, ADAPTED)]
    if connection.vendor == "postgresql":
        copied = f"COPY {table} ({names}) FROM STDIN"
        with connection.cursor() as cursor, cursor.copy(copied) as copy:
            for values in rows:
                copy.write_row(_adapted_values(values, adapted))
        return
    marks = ", ".join(["%s"] * len(fields))
    statement = " ".join(["INSERT INTO", table, "(", names, ") VALUES (", marks, ")"])
    prepared: Any = (_adapted_values(values, adapted) for values in rows)
    with connection.cursor() as cursor:
        cursor.executemany(statement, prepared)


def _adapted_values(values: Values, adapted: "Sequence[tuple[int, Field[Any, Any]]]") -> list[Any]:
    row = list(values)
    for i, field in adapted:
        row[i] = field.get_db_prep_save(row[i], connection)
    return row
