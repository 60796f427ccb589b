"""Prompts: brought in, revised, retired and brought back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from django.db import transaction
from django.db.models import Exists, OuterRef

from arena.access import Actor
from arena.answers.subjects import subject_of
from arena.importers.base import BadRow, checked_name, checked_text, checked_variables, shown
from arena.models import Arena, Call, Comparison, Prompt, Response
from arena.services import audit
from arena.services.deadlocks import hold_arena
from arena.services.pairing import sync_pairs
from arena.services.prompt_plan import CONTENT, DOUBLE, FIXED, Plan, apply, key_of
from arena.services.refusals import Refused
from arena.services.reports import UploadReport
from arena.uploads import Problem, PromptRow, check_length

BATCH = 500


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
    hold_arena(arena.pk)
    plan = Plan(arena, UploadReport(refused=list(unread)))
    plan.take(rows)
    plan.refuse_fixed(fixed_prompts(arena, [prompt.pk for prompt in plan.changed]))
    plan.refuse_doubles()
    plan.count()
    report = plan.report
    if atomic and report.problems:
        report.keep_out()
        return report
    Prompt.objects.bulk_create(plan.new, batch_size=BATCH)
    fields = [*CONTENT, "html", "html_version"]
    Prompt.objects.bulk_update(plan.changed, fields, batch_size=BATCH)
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
def add_prompt(*, prompt: Prompt, by: Actor) -> None:
    """Write a prompt that an operator has filled in, checked; its text may be unknown."""
    prompt.save(force_insert=True)
    sync_pairs(arena=prompt.arena)
    _note(prompt, by, "added a prompt")


@transaction.atomic
def revise_prompt(*, prompt: Prompt, by: Actor, **changes: Unpack[PromptFields]) -> Prompt:
    """Change a prompt that nothing was made with yet. Raises PromptRefused."""
    arena = hold_arena(prompt.arena_id)
    found = Prompt.objects.select_for_update().get(pk=prompt.pk)
    checked = checked_changes(changes)
    wanted = {name: value for name, value in checked.items() if getattr(found, name) != value}
    if not wanted:
        return found
    if fixed_prompts(arena, [found.pk]):
        raise PromptRefused(FIXED.format(id=shown(found.external_id)))
    was = key_of(found.text, found.variables)
    apply(found, wanted)
    if key_of(found.text, found.variables) != was:
        _refuse_double(found)
    found.save()
    _note(found, by, "changed a prompt")
    return found


@transaction.atomic
def check_is_no_double(*, prompt: Prompt) -> None:
    """Raise PromptRefused where another prompt says what `prompt`, unsaved, does.

    To be called in the transaction that saves it: until the end of that no other brings prompts.
    """
    hold_arena(prompt.arena_id)
    _refuse_double(prompt)


def _refuse_double(prompt: Prompt) -> None:
    wanted = key_of(prompt.text, prompt.variables)
    others = Prompt.objects.filter(arena=prompt.arena_id).exclude(pk=prompt.pk)
    said = others.order_by("pk").values_list("external_id", "text", "variables")
    for name, text, variables in said.iterator():
        if key_of(text, variables) == wanted:
            raise PromptRefused(DOUBLE.format(id=shown(name)), field="text")


def checked_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a prompt is to say, as it is kept. Raises PromptRefused."""
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
    hold_arena(prompt.arena_id)
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
