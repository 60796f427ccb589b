"""Prompts: brought in, revised, retired and brought back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.db.models import Exists, OuterRef

from arena.access import Actor
from arena.answers.subjects import subject_of
from arena.importers.base import BadRow, checked_name, checked_text, checked_variables, shown
from arena.models import Arena, Call, Comparison, Prompt, Response
from arena.services import audit
from arena.services.pairing import sync_pairs
from arena.services.refusals import Refused
from arena.services.reports import UploadReport
from arena.uploads import Problem, PromptRow, check_length

BATCH = 500
CONTENT = ("text", "category", "reference", "rubric", "variables")
FIXED = (
    "Prompt {id} has answers or comparisons already, so it cannot be changed: they were made with "
    "the prompt as it is. Retire it and add another one."
)


class PromptRefused(Refused):
    """A prompt that cannot be changed so."""


class PromptFields(TypedDict, total=False):
    """What a prompt says; what is not named stays."""

    text: str
    category: str
    reference: str
    rubric: str
    variables: dict[str, str]


# -- Bringing in -----------------------------------------------------------------------------------


@transaction.atomic
def upsert_prompts(
    *,
    arena: Arena,
    rows: Sequence[PromptRow],
    by: Actor,
    unread: Sequence[Problem] = (),
    atomic: bool = False,
) -> UploadReport:
    """Bring in prompts: new ones are added, those that are known by id or by text are changed.

    What a row leaves empty stays as it is. A row that cannot go in is named in the report, as those
    are that could not be read (`unread`); with `atomic` it keeps all others out too.
    """
    Arena.objects.select_for_update(no_key=True).get(pk=arena.pk)
    plan = _Plan(arena, UploadReport(refused=list(unread)))
    for row in rows:
        plan.take(row)
    plan.refuse_fixed()
    report = plan.report
    if atomic and report.problems:
        report.keep_out()
        return report
    Prompt.objects.bulk_create(plan.new, batch_size=BATCH)
    changed = [prompt for prompt, _ in plan.changed.values()]
    Prompt.objects.bulk_update(changed, [*CONTENT, "html", "html_version"], batch_size=BATCH)
    if report.added or report.changed:
        audit.record(
            team=arena.team,
            by=by,
            action="brought in prompts",
            subject=arena,
            arena=arena.slug,
            added=report.added,
            changed=report.changed,
        )
    return report


@dataclass
class _Plan:
    """What is to be written, worked out row by row against what the arena has."""

    arena: Arena
    report: UploadReport
    new: list[Prompt] = field(default_factory=list)
    changed: dict[int, tuple[Prompt, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        prompts = self.arena.prompts.defer("html").order_by("pk")
        self.by_id = {prompt.external_id: prompt for prompt in prompts}
        self.by_text = {_key(prompt.text, prompt.variables): prompt for prompt in prompts}
        self.next_number = 1

    def take(self, row: PromptRow) -> None:
        """Sort one row in: new, changed, unchanged, or refused with a reason."""
        same = self.by_text.get(_key(row.text, row.variables))
        known = self.by_id.get(row.external_id) if row.external_id else same
        if known is None and same is None:
            self._add(row)
        elif known is None or (same is not None and same is not known):
            assert same is not None
            self._refuse(row, "text", f"has the same text as prompt {same.external_id}")
        else:
            self._change(row, known)

    def _add(self, row: PromptRow) -> None:
        prompt = Prompt(
            arena=self.arena,
            external_id=row.external_id or self._free_id(),
            **{name: getattr(row, name) for name in CONTENT},
        )
        self.by_id[prompt.external_id] = prompt
        self.by_text[_key(prompt.text, prompt.variables)] = prompt
        self.new.append(prompt)
        self.report.added += 1

    def _change(self, row: PromptRow, prompt: Prompt) -> None:
        changes = {
            name: value
            for name in CONTENT
            if (value := getattr(row, name)) and value != getattr(prompt, name)
        }
        if not changes:
            self.report.unchanged += 1
        elif prompt.pk is None or prompt.pk in self.changed:
            self._refuse(row, "external_id", f"names prompt {prompt.external_id} a second time")
        elif prompt.retired_at is not None:
            self._refuse(row, "external_id", f"names prompt {prompt.external_id}, which is retired")
        else:
            _apply(prompt, changes)
            self.changed[prompt.pk] = prompt, row.row
            self.report.changed += 1

    def _refuse(self, row: PromptRow, column: str, reason: str) -> None:
        self.report.refused.append(Problem(row.row, column, f"The row {reason}."))

    def _free_id(self) -> str:
        while f"p{self.next_number}" in self.by_id:
            self.next_number += 1
        return f"p{self.next_number}"

    def refuse_fixed(self) -> None:
        """Take back the changes of prompts that something was made with already."""
        for pk in fixed_prompts(self.arena, list(self.changed)):
            prompt, row = self.changed.pop(pk)
            sentence = FIXED.format(id=shown(prompt.external_id))
            self.report.refused.append(Problem(row, "external_id", sentence))
            self.report.changed -= 1


def _key(text: str, variables: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return text.strip(), tuple(sorted(variables.items()))


def _apply(prompt: Prompt, changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        setattr(prompt, name, value)
    prompt.html, prompt.html_version = None, 0


def fixed_prompts(arena: Arena, ids: Sequence[int]) -> set[int]:
    """Return those of `ids` that have answers or comparisons, or are being answered."""
    fixed: set[int] = set()
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        compared = Comparison.objects.filter(prompt=OuterRef("pk"))
        answered = Response.objects.filter(prompt=OuterRef("pk"))
        found = Prompt.objects.filter(Exists(answered) | Exists(compared), pk__in=some)
        fixed.update(found.values_list("pk", flat=True))
        fixed |= _being_answered(arena, some)
    return fixed


def _being_answered(arena: Arena, ids: Sequence[int]) -> set[int]:
    """Prompts that a call to a model is about."""
    askers = [candidate.asker for candidate in arena.candidates.exclude(endpoint="").only("pk")]
    subjects = {subject_of(pk): pk for pk in ids}
    calls = Call.objects.filter(asker__in=askers, subject__in=subjects)
    return {subjects[subject] for subject in calls.values_list("subject", flat=True)}


# -- One prompt ------------------------------------------------------------------------------------


@transaction.atomic
def revise_prompt(*, prompt: Prompt, by: Actor, **changes: Unpack[PromptFields]) -> Prompt:
    """Change a prompt that nothing was made with yet. Raises PromptRefused."""
    arena = Arena.objects.select_for_update(no_key=True).get(pk=prompt.arena_id)
    found = Prompt.objects.select_for_update().get(pk=prompt.pk)
    checked = _checked(dict(changes))
    wanted = {name: value for name, value in checked.items() if getattr(found, name) != value}
    if not wanted:
        return found
    if fixed_prompts(arena, [found.pk]):
        raise PromptRefused(FIXED.format(id=shown(found.external_id)))
    _apply(found, wanted)
    _refuse_double(found)
    found.save()
    _note(found, by, "changed a prompt")
    return found


def _refuse_double(prompt: Prompt) -> None:
    others = Prompt.objects.filter(arena=prompt.arena_id, text=prompt.text).exclude(pk=prompt.pk)
    for other in others:
        if other.variables == prompt.variables:
            raise PromptRefused(
                f"Prompt {shown(other.external_id)} has the same text already.", field="text"
            )


def _checked(changes: dict[str, Any]) -> dict[str, Any]:
    checked = {}
    for name, value in changes.items():
        try:
            checked[name] = _value(name, value)
        except BadRow as bad:
            raise PromptRefused(f"The {name} {bad.reason}.", field=name) from None
    return checked


def _value(name: str, value: Any) -> Any:
    if name == "category":
        return checked_name(value, name, limit=100, required=False)
    if name == "variables":
        return checked_variables(value, name)
    text = checked_text(value, name).replace("\r\n", "\n").strip()
    if name == "text" and not text:
        raise BadRow(name, "is empty")
    check_length(text, name)
    return text


@transaction.atomic
def retire_prompt(*, prompt: Prompt, by: Actor, now: datetime) -> None:
    """Have `prompt` shown to nobody any more; its votes go on counting."""
    _set_retired(prompt, now, by, "retired a prompt")


@transaction.atomic
def bring_back_prompt(*, prompt: Prompt, by: Actor) -> None:
    """Have a retired prompt shown again."""
    _set_retired(prompt, None, by, "brought back a prompt")


def _set_retired(prompt: Prompt, at: datetime | None, by: Actor, action: str) -> None:
    # The arena first, as whoever revises a prompt does: its row is taken for the pairs, too.
    Arena.objects.select_for_update(no_key=True).get(pk=prompt.arena_id)
    found = Prompt.objects.select_for_update(no_key=True).get(pk=prompt.pk)
    if (found.retired_at is None) != (at is None):
        found.retired_at = at
        found.save(update_fields=["retired_at"])
        sync_pairs(arena=found.arena)
        _note(found, by, action)
    prompt.retired_at = found.retired_at


def _note(prompt: Prompt, by: Actor, action: str) -> None:
    audit.record(
        team=prompt.arena.team,
        by=by,
        action=action,
        subject=prompt.external_id,
        arena=prompt.arena.slug,
        prompt=prompt.pk,
    )
