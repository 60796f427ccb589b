"""The checks of an arena: adding and deleting them, and checking answers when that is asked."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q

from arena.actors import Actor
from arena.checks import GUARD, MOST_CHECKS, VARIABLE, Result, Rule, clean_check
from arena.errors import ServiceError
from arena.models import AnswerCheck, Arena, Candidate, Import, Prompt, Response
from arena.services import audit
from arena.services.locks import lock_arena
from arena.validation import InputError, quoted

MOST_SECONDS = 5.0  # for all checks at once, because patterns and schemas may be slow
LATE = Result(None, "There was no time left to check this answer.")
LABELS = {"expected": "expected value", "allowed": "number that may fail"}
BATCH = 500


class CheckError(ServiceError):
    """A check that cannot be added."""


@transaction.atomic
def add_check(
    *, arena: Arena, by: Actor, kind: str, prompt: Prompt | None = None, **fields: Any
) -> AnswerCheck:
    """Add a check of the answers to `prompt`, or to every prompt. Raises CheckError.

    `fields` are `expected`, `negated`, `name` and `allowed`.
    """
    locked = lock_arena(arena.pk)
    try:
        rule, clean = clean_check(kind=kind, **fields)
    except InputError as error:
        column = error.column or ""
        message = f"The {LABELS.get(column, column)} {error.reason}."
        raise CheckError(message, field=column) from None
    if kind == GUARD and prompt is None:
        raise CheckError("Choose the prompt that must never be lost.", field="prompt")
    there = locked.checks.filter(prompt=prompt)
    if there.filter(digest=rule.digest).exists():
        raise CheckError("This check already exists.", field="expected")
    if there.count() >= MOST_CHECKS:
        of = f"Prompt {quoted(prompt.external_id)}" if prompt else "The arena"
        raise CheckError(f"{of} already has {MOST_CHECKS} checks. Delete one first.")
    added = AnswerCheck.objects.create(
        arena=locked, prompt=prompt, digest=rule.digest, created_by=by.user, **clean
    )
    audit.record_in(locked, by, "added a check", added, **_scope(added))
    return added


@transaction.atomic
def delete_check(*, check: AnswerCheck, by: Actor) -> None:
    """Delete a check; whoever is second finds nothing to do."""
    deleted, _ = AnswerCheck.objects.filter(pk=check.pk).delete()
    if deleted:
        audit.record_in(check.arena, by, "deleted a check", check, **_scope(check))


def _scope(check: AnswerCheck) -> dict[str, Any]:
    return {"prompt": check.prompt_id} if check.prompt_id else {}


def bring_in_checks(
    *,
    arena: Arena,
    checks: Iterable[tuple[int | None, Sequence[Mapping[str, Any]]]],
    source: Import | None = None,
) -> int:
    """Add clean checks of a file to prompts, by their ids, unless they are there already; None
    stands for all prompts. Return how many were added.
    """
    wanted = {
        (prompt, rule.digest): fields
        for prompt, of_prompt in checks
        for rule, fields in (clean_check(**given) for given in of_prompt)
        if prompt is not None or rule.kind != GUARD
    }
    there: dict[int | None, set[str]] = {}
    is_there = Q(prompt=None) | Q(prompt__in={prompt for prompt, _ in wanted if prompt})
    for known, digest in arena.checks.filter(is_there).values_list("prompt", "digest"):
        there.setdefault(known, set()).add(digest)
    new = []
    for (prompt, digest), fields in wanted.items():
        digests = there.setdefault(prompt, set())
        if digest not in digests and len(digests) < MOST_CHECKS:
            digests.add(digest)
            new.append(
                AnswerCheck(arena=arena, prompt_id=prompt, digest=digest, source=source, **fields)
            )
    AnswerCheck.objects.bulk_create(new, batch_size=BATCH)
    return len(new)


@dataclass(frozen=True)
class CheckedAnswer:
    """What a check says of the answer to one prompt."""

    prompt: int
    external_id: str
    reason: str


@dataclass(frozen=True)
class CheckTally:
    """What a check says of one candidate's answers: a result for each prompt, by its id.

    Prompts without an answer are left out.
    """

    candidate: Candidate
    results: dict[int, Result]
    names: Mapping[int, str]

    @property
    def passed(self) -> int:
        return sum(result.passed is True for result in self.results.values())

    @property
    def failed(self) -> list[CheckedAnswer]:
        return self._answers(False)

    @property
    def unknown(self) -> list[CheckedAnswer]:
        return self._answers(None)

    def _answers(self, passed: bool | None) -> list[CheckedAnswer]:
        return [
            CheckedAnswer(prompt, self.names[prompt], result.reason)
            for prompt, result in self.results.items()
            if result.passed is passed
        ]


@dataclass(frozen=True)
class CheckReport:
    """A check with what it says of each candidate, in the order in which they were given."""

    check: AnswerCheck
    tallies: list[CheckTally]

    def is_kept_by(self, tally: CheckTally) -> bool:
        """Whether no more answers fail than the check allows."""
        return len(tally.failed) <= self.check.allowed

    @property
    def fails(self) -> int:
        """How many answers fail, of all candidates."""
        return sum(len(tally.failed) for tally in self.tallies)

    @property
    def fixed(self) -> list[CheckedAnswer]:
        """Of prompts on which the first candidate fails and the second passes: the first's."""
        return self._changed(*self.tallies[:2])

    @property
    def broken(self) -> list[CheckedAnswer]:
        """Of prompts on which the first candidate passes and the second fails: the second's."""
        return self._changed(*self.tallies[1::-1])

    def _changed(self, *tallies: CheckTally) -> list[CheckedAnswer]:
        if len(tallies) < 2:
            return []
        failing, passing = tallies
        passed = {prompt for prompt, result in passing.results.items() if result.passed}
        return [answer for answer in failing.failed if answer.prompt in passed]


def check_answers(
    *, arena: Arena, candidates: Sequence[Candidate], prompts: Iterable[int] | None = None
) -> list[CheckReport]:
    """Check the answers of `candidates` now, and return a report for each check that applies.

    `prompts` are ids; without them, all active prompts. Guards are left out. Nothing is stored.
    After `MOST_SECONDS` the remaining results are unknown.
    """
    checks = list(arena.checks.of_answers().order_by("pk"))
    rows = arena.prompts.revealed() if prompts is not None else arena.prompts.active()
    wanted = None if prompts is None else {*prompts}
    inputs: dict[int, dict[str, str]] = {}
    names: dict[int, str] = {}
    fields = ("pk", "external_id", "variables", *(["text"] if _use_texts(checks) else []))
    for pk, name, variables, *text in rows.values_list(*fields) if checks else ():
        if wanted is None or pk in wanted:
            names[pk], inputs[pk] = name, variables | ({"prompt": text[0]} if text else {})
    checks = [check for check in checks if check.prompt_id in names or not check.prompt_id]
    results: dict[tuple[int, int], dict[int, Result]] = {}
    _check_all(checks, candidates, inputs, results)
    return [
        CheckReport(
            check,
            [
                CheckTally(
                    candidate,
                    dict(sorted(results.get((check.pk, candidate.pk), {}).items())),
                    names,
                )
                for candidate in candidates
            ],
        )
        for check in checks
    ]


def _use_texts(checks: Sequence[AnswerCheck]) -> bool:
    """Whether a check refers to a prompt's text."""
    return any("prompt" in VARIABLE.findall(check.expected) for check in checks)


def _check_all(
    checks: Sequence[AnswerCheck],
    candidates: Sequence[Candidate],
    inputs: Mapping[int, Mapping[str, str]],
    results: dict[tuple[int, int], dict[int, Result]],
) -> None:
    """Fill in `results` by check and candidate, then by prompt."""
    rules: dict[int | None, list[tuple[int, Rule]]] = {}
    for check in checks:
        rules.setdefault(check.prompt_id, []).append((check.pk, check.rule))
    answers = Response.objects.revealed().filter(candidate__in=[c.pk for c in candidates])
    deadline = time.monotonic() + MOST_SECONDS
    columns = ("candidate_id", "prompt_id", "text", "seconds", "cost")
    for candidate, prompt, text, seconds, cost in (
        answers.values_list(*columns).iterator() if rules else ()
    ):
        if prompt not in inputs:
            continue
        for check, rule in (*rules.get(None, ()), *rules.get(prompt, ())):
            is_late = time.monotonic() > deadline
            result = LATE if is_late else rule.check(text, seconds, cost, inputs[prompt])
            results.setdefault((check, candidate), {})[prompt] = result


@dataclass(frozen=True)
class AnswersPassing:
    """How many of a candidate's answers pass all of their checks, fail one, or neither is known."""

    candidate: Candidate
    passing: int = 0
    failing: int = 0
    unknown: int = 0

    @property
    def answers(self) -> int:
        return self.passing + self.failing + self.unknown


def count_passing(reports: Sequence[CheckReport]) -> list[AnswersPassing]:
    """Return the answers that pass, for each candidate of these reports."""
    counts = []
    for tallies in zip(*(report.tallies for report in reports), strict=True):
        by_prompt: dict[int, list[bool | None]] = {}
        for tally in tallies:
            for prompt, result in tally.results.items():
                by_prompt.setdefault(prompt, []).append(result.passed)
        failing = sum(False in said for said in by_prompt.values())
        passing = sum(all(said) for said in by_prompt.values())
        unknown = len(by_prompt) - failing - passing
        counts.append(AnswersPassing(tallies[0].candidate, passing, failing, unknown))
    return counts
