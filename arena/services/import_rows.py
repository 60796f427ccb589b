"""Writing the rows of an import, a batch to a transaction, and taking abandoned ones back.

Rows of one file are written in its order and each batch whole, so what an interrupted import
has written is a beginning of the file. Nothing is written over a conflict in silence: rows are
checked before, the importer holds the arena's lock, and what the database still refuses is raised.
"""

import uuid
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Generic, TypeVar, cast

from django.db import transaction
from django.db.models import Max

from arena.blinding import names_itself
from arena.importers.base import CandidateRecord, PromptRecord, ResponseRecord, Row, VoteRecord
from arena.models import Arena, Candidate, Comparison, Import, Prompt, Rater, Response, Vote
from arena.services.import_insert import Values, insert

REMEMBERED = 100_000
DELETED_AT_ONCE = 2_000
MODELS: dict[str, type[Any]] = {
    "prompts": Prompt,
    "candidates": Candidate,
    "responses": Response,
    "votes": Vote,
}
COMPARISON = (
    *("key", "arena", "rater", "prompt", "left", "right", "left_response", "right_response"),
    *("names_itself", "source", "source_row"),
)
VOTE = (
    *("arena", "comparison", "rater", "outcome", "preference", "cast_at", "void_reason"),
    *("details", "source", "source_row", "tallied"),
)
Key = TypeVar("Key", bound=Hashable)


class Ids(Generic[Key]):
    """Ids by name, asked from the database a batch at a time and remembered for a while."""

    def __init__(self, ask: Callable[[Collection[Key]], dict[Key, int]]) -> None:
        self.ask = ask
        self.remembered: dict[Key, int] = {}

    def of(self, names: Iterable[Key]) -> dict[Key, int]:
        """Return the ids of those of `names` that exist."""
        wanted = dict.fromkeys(names)
        if len(self.remembered) > REMEMBERED:
            self.remembered.clear()
        unknown = [name for name in wanted if name not in self.remembered]
        if unknown:
            self.remembered |= self.ask(unknown)
        return {name: self.remembered[name] for name in wanted if name in self.remembered}

    def made(self, names: Iterable[Key], make: Callable[[list[Key]], object]) -> dict[Key, int]:
        """Return the ids of `names`, after `make` has made those that do not exist."""
        wanted = list(dict.fromkeys(names))
        found = self.of(wanted)
        if missing := [name for name in wanted if name not in found]:
            make(missing)
            found |= self.of(missing)
        return found


class Writer:
    """Writes the rows of one file into one arena."""

    def __init__(self, *, arena: Arena, source: Import) -> None:
        self.arena = arena
        self.source = source
        self.prompts: Ids[str] = Ids(self._prompt_ids)
        self.raters: Ids[tuple[str, str]] = Ids(self._rater_ids)
        self.candidates = {one.own_name: one for one in arena.candidates.all()}
        self.responses: dict[tuple[int, int], tuple[int, bool]] | None = None
        self.giving_away: set[int] = set()

    def rows_written(self, kind: str) -> tuple[int, int]:
        """Return how many rows of this file are there, and the number of the last one."""
        there = MODELS[kind].objects.filter(source=self.source, source_row__isnull=False)
        return there.count(), there.aggregate(last=Max("source_row"))["last"] or 0

    def write(self, rows: list[Row], kind: str) -> None:
        """Write a batch of good rows, all of one kind, in one transaction."""
        if kind == "responses":
            # Reading long answers takes a while: not while voters wait for the write lock.
            self.giving_away = self._giving_away(rows)
        write = {
            "prompts": self._prompts,
            "candidates": self._candidates,
            "responses": self._responses,
            "votes": self._votes,
        }[kind]
        with transaction.atomic():
            write(rows)

    def _giving_away(self, rows: list[Row]) -> set[int]:
        """Return the numbers of the rows whose answer says who wrote it."""
        records = [(row.number, cast(ResponseRecord, row.record)) for row in rows]
        authors = [self.candidates[record.candidate] for _, record in records]
        return {
            number
            for (number, record), author in zip(records, authors, strict=True)
            if names_itself(record.text, names=(author.name, author.model))
        }

    def _sourced(self, row: Row) -> dict[str, Any]:
        return {"source_id": self.source.pk, "source_row": row.number}

    def _prompts(self, rows: list[Row]) -> None:
        records = [(row, cast(PromptRecord, row.record)) for row in rows]
        known = self.prompts.of(record.external_id for _, record in records)
        Prompt.objects.bulk_create(
            Prompt(
                arena_id=self.arena.pk,
                external_id=record.external_id,
                category=record.category,
                text=record.text,
                reference=record.reference,
                rubric=record.rubric,
                variables=record.variables,
                retired_at=self.source.started_at if record.retired else None,
                **self._sourced(row),
            )
            for row, record in records
            if record.external_id not in known
        )

    def _candidates(self, rows: list[Row]) -> None:
        records = [(row, cast(CandidateRecord, row.record)) for row in rows]
        Candidate.objects.bulk_create(
            Candidate(
                arena_id=self.arena.pk,
                name=record.name,
                model=record.model,
                variant=record.variant,
                system_prompt=record.system_prompt,
                user_template=record.user_template,
                notes=record.notes,
                parameters=record.parameters,
                retired_at=self.source.started_at if record.retired else None,
                **self._sourced(row),
            )
            for row, record in records
            if record.name not in self.candidates
        )

    def _responses(self, rows: list[Row]) -> None:
        records = [(row, cast(ResponseRecord, row.record)) for row in rows]
        prompts = self.prompts.of(record.prompt for _, record in records)
        known = self._known_responses()
        new = [
            (row, record, self.candidates[record.candidate], prompts[record.prompt])
            for row, record in records
        ]
        Response.objects.bulk_create(
            Response(
                candidate_id=candidate.pk,
                prompt_id=prompt_id,
                text=record.text,
                names_itself=row.number in self.giving_away,
                **self._sourced(row),
            )
            for row, record, candidate, prompt_id in new
            if (candidate.pk, prompt_id) not in known
        )

    def _votes(self, rows: list[Row]) -> None:
        records = [cast(VoteRecord, row.record) for row in rows]
        self._make_candidates(records)
        prompts = self.prompts.made(
            (record.prompt for record in records if record.prompt is not None), self._make_prompts
        )
        raters = self.raters.made(
            ((record.rater_kind, record.rater) for record in records), self._make_raters
        )
        insert(Comparison, COMPARISON, (self._comparison(row, prompts, raters) for row in rows))
        compared = self._comparison_ids(rows)
        insert(
            Vote,
            VOTE,
            (
                (
                    self.arena.pk,
                    compared[row.number],
                    raters[record.rater_kind, record.rater],
                    record.outcome,
                    record.preference,
                    record.cast_at or self.source.started_at,
                    "",
                    record.details or None,
                    self.source.pk,
                    row.number,
                    True,  # counted with its import
                )
                for row, record in zip(rows, records, strict=True)
            ),
        )

    def _comparison(
        self, row: Row, prompts: dict[str, int], raters: dict[tuple[str, str], int]
    ) -> Values:
        record = cast(VoteRecord, row.record)
        left, right = self.candidates[record.left].pk, self.candidates[record.right].pk
        prompt = None if record.prompt is None else prompts[record.prompt]
        answers = self._answers(left, right, prompt)
        return (
            uuid.uuid4(),
            self.arena.pk,
            raters[record.rater_kind, record.rater],
            prompt,
            left,
            right,
            answers[0][0] if answers else None,
            answers[1][0] if answers else None,
            any(names for _, names in answers),
            self.source.pk,
            row.number,
        )

    def _comparison_ids(self, rows: list[Row]) -> dict[int, int]:
        numbers = (rows[0].number, rows[-1].number)
        made = Comparison.objects.filter(source=self.source, source_row__range=numbers)
        return {row: pk for row, pk in made.values_list("source_row", "pk") if row is not None}

    def _answers(self, left: int, right: int, prompt_id: int | None) -> list[tuple[int, bool]]:
        """Return both candidates' answers (id, names itself), or none unless there are two."""
        if prompt_id is None:
            return []
        known = self._known_responses()
        pair = [known.get((candidate, prompt_id)) for candidate in (left, right)]
        answers = [answer for answer in pair if answer is not None]
        return answers if len(answers) == 2 else []

    # -- What a row names ------------------------------------------------------------------------

    def _known_responses(self) -> dict[tuple[int, int], tuple[int, bool]]:
        """Return the answers that were in the arena when this file was begun."""
        if self.responses is None:
            rows = Response.objects.filter(prompt__arena=self.arena).values_list(
                "candidate_id", "prompt_id", "pk", "names_itself"
            )
            self.responses = {(a, b): (pk, names) for a, b, pk, names in rows.iterator()}
        return self.responses

    def _prompt_ids(self, names: Collection[str]) -> dict[str, int]:
        found = Prompt.objects.filter(arena=self.arena, external_id__in=names)
        return dict(found.values_list("external_id", "pk"))

    def _rater_ids(self, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        found = Rater.objects.filter(arena=self.arena, name__in={name for _, name in names})
        return {(kind, name): pk for kind, name, pk in found.values_list("kind", "name", "pk")}

    def _make_prompts(self, names: list[str]) -> None:
        Prompt.objects.bulk_create(
            Prompt(arena=self.arena, external_id=name, source=self.source) for name in names
        )

    def _make_raters(self, names: list[tuple[str, str]]) -> None:
        Rater.objects.bulk_create(
            Rater(arena=self.arena, kind=kind, name=name) for kind, name in names
        )

    def _make_candidates(self, records: list[VoteRecord]) -> None:
        named = dict.fromkeys(name for record in records for name in (record.left, record.right))
        made = Candidate.objects.bulk_create(
            Candidate(arena=self.arena, name=name, source=self.source)
            for name in named
            if name not in self.candidates
        )
        self.candidates |= {candidate.name: candidate for candidate in made}


def discard(arena: Arena, imports: Collection[Import]) -> None:
    """Delete every row of `imports`, which were abandoned unread, and the imports themselves."""
    for model in (Vote, Comparison, Response, Candidate, Prompt):
        rows = model.objects.filter(source__in=imports).order_by("pk")
        while ids := list(rows.values_list("pk", flat=True)[:DELETED_AT_ONCE]):
            model.objects.filter(pk__in=ids).delete()
    Rater.objects.filter(arena=arena, votes=None, comparisons=None).delete()
    Import.objects.filter(pk__in=[one.pk for one in imports]).delete()
