"""Uploading, revising, archiving, restoring and showcasing prompts.

An upload is planned against the arena's prompts before anything is written. Duplicate texts are
judged by the final state, not row by row, because rows may swap two texts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from arena.actors import Actor
from arena.conversations import prompt_fields
from arena.errors import ServiceError, checked_fields
from arena.files.rows import PromptRow
from arena.files.tables import Problem
from arena.models import Arena, Call, Comparison, Prompt, Rater, Response, Vote
from arena.models.prompts import subject_of
from arena.services import audit
from arena.services.candidate_checks import variables_of
from arena.services.checks import bring_in_checks
from arena.services.locks import lock_arena, retry_on_deadlock
from arena.services.pairs import count_votable_prompts, reason_to_keep, sync_pairs
from arena.services.responses import UploadReport
from arena.signals import announce, answers_changed, votes_changed
from arena.validation import numbered, quoted

BATCH = 500
IN_USE = (
    "Prompt {id} already has answers or comparisons, so only its document can be changed. Archive "
    "it and add a new one."
)
# What says how votes on a prompt depend on others, and changes nothing that anybody has seen.
ALWAYS_OPEN = {"document"}
DUPLICATE = "Prompt {id} already has this text."
LEAST_IN_VOTING = 40  # prompts; with fewer, a leaderboard may not hold for similar ones
MOST_IN_SHOWCASE = 2  # of one category
NAMED = (
    "Visitors have seen who wrote the answers to prompt {id}, so it can never be voted on again."
)

SHOWCASE = ["retired_at", "showcased_at", "in_showcase"]

Key = tuple[str, tuple[tuple[str, str], ...]]


def new_variables(arena: Arena, rows: Iterable[PromptRow]) -> list[str]:
    """Return the variables in `rows` that no active prompt of the arena has, in their order."""
    names = dict.fromkeys(name for row in rows for name in row.variables)
    variables = variables_of(arena) if names else set()
    return [name for name in names if name not in variables]


class PromptError(ServiceError):
    """A prompt that cannot be changed this way."""


def prompt_key(text: str, variables: Mapping[str, str]) -> Key:
    """Return the key that must be unique in an arena: the text and the variables."""
    return text.replace("\r\n", "\n").strip(), tuple(sorted(variables.items()))


def apply_changes(prompt: Prompt, changes: Mapping[str, Any]) -> None:
    """Set the changed fields of `prompt`, without saving it."""
    for name, value in changes.items():
        setattr(prompt, name, value)
    prompt.html, prompt.html_version = None, 0


@dataclass(eq=False)
class _Draft:
    """A new or changed prompt and the numbers of its rows; `before` holds the replaced values."""

    prompt: Prompt
    rows: list[int]
    before: dict[str, Any] = field(default_factory=dict)


@dataclass
class PromptChangePlan:
    """The prompts that an upload adds and changes, and a report that names the refused rows.

    Call `take`, `refuse_in_use`, `refuse_duplicates` and `count`, in this order.
    """

    arena: Arena
    report: UploadReport
    drafts: dict[str, _Draft] = field(default_factory=dict)

    def __post_init__(self) -> None:
        prompts = self.arena.prompts.defer("html").order_by("pk")
        self.by_id = {prompt.external_id: prompt for prompt in prompts}
        self.by_text = _by_text(self.by_id.values())
        self.row_ids: set[str] = set()
        self.next_number = 1

    def take(self, rows: Sequence[PromptRow]) -> None:
        """Sort the rows: new, changed, unchanged, or refused with a reason."""
        self.row_ids = {row.external_id for row in rows}
        for row in rows:
            self._take_row(row)

    def _take_row(self, row: PromptRow) -> None:
        if row.external_id:
            prompt = self.by_id.get(row.external_id)
        elif prompt := self.by_text.get(prompt_key(row.text, row.variables)):
            row = replace(row, text=prompt.text)  # found by its text, so the text must not change
        if prompt is None:
            self._add(row)
        else:
            self._change(row, prompt)

    def _add(self, row: PromptRow) -> None:
        prompt = Prompt(
            arena=self.arena,
            external_id=row.external_id or self._free_id(),
            retired_at=timezone.now() if row.retired else None,
            **{name: getattr(row, name) for name in Prompt.CONTENT},
        )
        self.by_id[prompt.external_id] = prompt
        self.by_text.setdefault(_key(prompt), prompt)
        self.drafts[prompt.external_id] = _Draft(prompt, [row.row])

    def _change(self, row: PromptRow, prompt: Prompt) -> None:
        changes = {
            name: value
            for name in Prompt.CONTENT
            if (value := getattr(row, name)) and value != getattr(prompt, name)
        }
        if "text" in changes:
            changes["messages"] = row.messages
        draft = self.drafts.get(prompt.external_id)
        name = prompt.external_id
        column = "external_id"
        if not changes and draft:
            draft.rows.append(row.row)
        elif not changes:
            self.report.unchanged += 1
        elif draft:
            self._refuse_row(row.row, column, f"An earlier row already changes prompt {name}.")
        elif prompt.retired_at is not None and changes.keys() - ALWAYS_OPEN:
            self._refuse_row(row.row, column, f"Prompt {name} is archived.")
        else:
            self._draft_change(row, prompt, changes)

    def _draft_change(self, row: PromptRow, prompt: Prompt, changes: dict[str, Any]) -> None:
        before = {name: getattr(prompt, name) for name in changes}
        if self.by_text.get(_key(prompt)) is prompt:
            del self.by_text[_key(prompt)]
        apply_changes(prompt, changes)
        self.by_text.setdefault(_key(prompt), prompt)
        self.drafts[prompt.external_id] = _Draft(prompt, [row.row], before)

    def _free_id(self) -> str:
        """Return the next id that no prompt has and no row claims."""
        while (name := f"p{self.next_number}") in self.by_id or name in self.row_ids:
            self.next_number += 1
        return name

    def refuse_in_use(self, prompt_ids: Iterable[int]) -> None:
        """Withdraw the changes to these prompts, which are already in use."""
        drafts = {draft.prompt.pk: draft for draft in self.drafts.values() if draft.before}
        for prompt_id in prompt_ids:
            name = quoted(drafts[prompt_id].prompt.external_id)
            self._withdraw(drafts[prompt_id], "external_id", IN_USE.format(id=name))

    def refuse_duplicates(self) -> None:
        """Refuse rows that would leave two prompts with the same text.

        A prompt that keeps its text has priority over one that would take the same text, and an
        earlier row over a later one. A prompt whose change is refused keeps its old text, so a
        draft that was to take this text is refused in turn.
        """
        # Imported prompts may share a text, and stay as they are.
        holders = _by_text(
            prompt
            for name, prompt in self.by_id.items()
            if name not in self.drafts or _keeps_text(self.drafts[name])
        )
        for draft in list(self.drafts.values()):
            unsettled: _Draft | None = draft
            while unsettled is not None:
                unsettled = self._settle(unsettled, holders)

    def _settle(self, draft: _Draft, holders: dict[Key, Prompt]) -> _Draft | None:
        """Let `draft` have its text or refuse it; return the draft that therefore loses its
        text."""
        if _keeps_text(draft):
            return None
        holder = holders.setdefault(_key(draft.prompt), draft.prompt)
        if holder is draft.prompt:
            return None
        self._withdraw(draft, "text", DUPLICATE.format(id=quoted(holder.external_id)))
        if draft.prompt.pk is None:
            return None
        ousted = holders.get(_key(draft.prompt))
        holders[_key(draft.prompt)] = draft.prompt
        return self.drafts.get(ousted.external_id) if ousted else None

    def _withdraw(self, draft: _Draft, column: str, message: str) -> None:
        del self.drafts[draft.prompt.external_id]
        apply_changes(draft.prompt, draft.before)
        for row in draft.rows:
            self._refuse_row(row, column, message)

    def _refuse_row(self, row: int, column: str, message: str) -> None:
        self.report.refused.append(Problem(row, column, message))

    def checks_of(self, rows: Sequence[PromptRow]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the checks of each accepted row, with the id of its prompt, which is saved."""
        refused = {problem.row for problem in self.report.refused}
        for row in rows:
            if row.checks and row.row not in refused:
                by_text = self.by_text.get(prompt_key(row.text, row.variables))
                prompt = self.by_id[row.external_id] if row.external_id else by_text
                if prompt is not None:
                    yield prompt.pk, row.checks

    @property
    def new(self) -> list[Prompt]:
        return [draft.prompt for draft in self.drafts.values() if draft.prompt.pk is None]

    @property
    def changed(self) -> list[Prompt]:
        return [draft.prompt for draft in self.drafts.values() if draft.prompt.pk is not None]

    @property
    def fixed_once_used(self) -> list[int]:
        """The ids of the prompts whose change is refused if they are in use."""
        drafts = self.drafts.values()
        return [draft.prompt.pk for draft in drafts if draft.before.keys() - ALWAYS_OPEN]

    @property
    def regroups_votes(self) -> bool:
        return any("document" in draft.before for draft in self.drafts.values())

    def count(self) -> None:
        """Count the accepted rows in the report."""
        report, drafts = self.report, self.drafts.values()
        report.added, report.changed = len(self.new), len(self.changed)
        report.unchanged += sum(len(draft.rows) - 1 for draft in drafts)


def _key(prompt: Prompt) -> Key:
    return prompt_key(prompt.text, prompt.variables)


def _by_text(prompts: Iterable[Prompt]) -> dict[Key, Prompt]:
    """Map keys to prompts; if several share a key, to the first."""
    by_text: dict[Key, Prompt] = {}
    for prompt in prompts:
        by_text.setdefault(_key(prompt), prompt)
    return by_text


def _keeps_text(draft: _Draft) -> bool:
    """Return whether the draft changes an existing prompt without changing its text."""
    if draft.prompt.pk is None:
        return False
    before = {name: getattr(draft.prompt, name) for name in ("text", "variables")} | draft.before
    return prompt_key(before["text"], before["variables"]) == _key(draft.prompt)


@transaction.atomic
def upsert_prompts(
    *,
    arena: Arena,
    rows: Sequence[PromptRow],
    by: Actor,
    unread: Sequence[Problem] = (),
    atomic: bool = False,
) -> UploadReport:
    """Add new prompts and change existing ones, found by id or by text.

    Fields that a row leaves empty stay as they are. The report names the refused rows and the
    unreadable ones (`unread`); with `atomic`, one such row means that nothing is written.
    """
    lock_arena(arena.pk)
    plan = PromptChangePlan(arena, UploadReport(refused=list(unread)))
    plan.take(rows)
    plan.refuse_in_use(prompts_in_use(arena, plan.fixed_once_used))
    plan.refuse_duplicates()
    plan.count()
    report = plan.report
    if atomic and report.problems:
        report.keep_out()
        return report
    Prompt.objects.bulk_create(plan.new, batch_size=BATCH)
    fields = [*Prompt.CONTENT, "html", "html_version"]
    Prompt.objects.bulk_update(plan.changed, fields, batch_size=BATCH)
    if any(row.checks for row in rows):
        count = bring_in_checks(arena=arena, checks=plan.checks_of(rows))
        if count:
            audit.record_in(arena, by, "added checks", numbered(count, "check"))
    if report.added or report.changed:
        added, changed = report.added, report.changed
        audit.record_in(arena, by, "brought in prompts", added=added, changed=changed)
    if plan.regroups_votes:
        announce(votes_changed, arena_id=arena.pk, reason="documents")
    return report


def prompts_in_use(arena: Arena, ids: Sequence[int]) -> set[int]:
    """Return the `ids` of prompts that have answers or comparisons, or are being answered."""
    requesters = [
        candidate.requester for candidate in arena.candidates.exclude(endpoint="").only("pk")
    ]
    in_use: set[int] = set()
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        compared = Comparison.objects.filter(prompt=OuterRef("pk"))
        answered = Response.objects.filter(prompt=OuterRef("pk"))
        prompts = Prompt.objects.filter(Exists(answered) | Exists(compared), pk__in=batch)
        in_use.update(prompts.values_list("pk", flat=True))
        subjects = {subject_of(pk): pk for pk in batch}
        calls = Call.objects.filter(requester__in=requesters, subject__in=subjects)
        in_use.update(subjects[subject] for subject in calls.values_list("subject", flat=True))
    return in_use


@transaction.atomic
def revise_prompt(*, prompt: Prompt, by: Actor, **changes: Any) -> Prompt:
    """Change a prompt that is not in use yet, or its document. Raises PromptError."""
    arena = lock_arena(prompt.arena_id)
    locked = Prompt.objects.select_for_update().get(pk=prompt.pk)
    clean = checked_fields(Prompt, changes, PromptError)
    if "messages" in clean or "text" in clean:
        clean |= _texts(locked, clean)
    differing = {name: value for name, value in clean.items() if getattr(locked, name) != value}
    if not differing:
        return locked
    if differing.keys() - ALWAYS_OPEN and prompts_in_use(arena, [locked.pk]):
        raise PromptError(IN_USE.format(id=quoted(locked.external_id)))
    key_before = _key(locked)
    apply_changes(locked, differing)
    if _key(locked) != key_before:
        _check_unique(locked)
    locked.save()
    _record(locked, by, "changed a prompt")
    if "document" in differing:
        announce(votes_changed, arena_id=arena.pk, reason="documents")
    return locked


def _check_unique(prompt: Prompt) -> None:
    others = Prompt.objects.filter(arena=prompt.arena_id).exclude(pk=prompt.pk)
    rows = others.order_by("pk").values_list("external_id", "text", "variables")
    for name, text, variables in rows.iterator():
        if prompt_key(text, variables) == _key(prompt):
            raise PromptError(DUPLICATE.format(id=quoted(name)), field="text")


def _texts(prompt: Prompt, clean: Mapping[str, Any]) -> dict[str, Any]:
    """Return text and messages that belong together; a new text alone ends a conversation."""
    if messages := clean.get("messages"):
        return prompt_fields(messages)
    if clean.get("text", prompt.text) == prompt.text and "messages" not in clean:
        return {"text": prompt.text, "messages": prompt.messages}
    return {"text": clean.get("text", prompt.text), "messages": None}


def retire_prompts(*, arena: Arena, prompts: QuerySet[Prompt], by: Actor, now: datetime) -> int:
    """Archive these prompts of `arena`: raters no longer see them; their votes still count. Return
    how many were active."""
    return _set_retired(arena, prompts, now, by, "retired")


def bring_back_prompts(*, arena: Arena, prompts: QuerySet[Prompt], by: Actor) -> int:
    """Restore those of these prompts that are archived, unless they were ever showcased; return
    how many."""
    return _set_retired(arena, prompts.filter(showcased_at=None), None, by, "brought back")


def retire_prompt(*, prompt: Prompt, by: Actor, now: datetime) -> None:
    this_prompt = Prompt.objects.filter(pk=prompt.pk)
    retire_prompts(arena=prompt.arena, prompts=this_prompt, by=by, now=now)
    prompt.refresh_from_db(fields=["retired_at"])


def bring_back_prompt(*, prompt: Prompt, by: Actor) -> None:
    """Restore an archived prompt. Raises PromptError if it was ever showcased."""
    if prompt.showcased_at:
        raise PromptError(NAMED.format(id=quoted(prompt.external_id)))
    this_prompt = Prompt.objects.filter(pk=prompt.pk)
    bring_back_prompts(arena=prompt.arena, prompts=this_prompt, by=by)
    prompt.refresh_from_db(fields=["retired_at"])


@retry_on_deadlock
@transaction.atomic
def showcase_prompt(*, prompt: Prompt, by: Actor, now: datetime) -> None:
    """Show visitors who wrote which answer to a prompt, and end the voting on it for good.

    Its votes still count. Raises PromptError.
    """
    arena = lock_arena(prompt.arena_id)
    locked = Prompt.objects.select_for_update(no_key=True).get(pk=prompt.pk)
    if not locked.in_showcase:
        if reason := reason_against_showcase(arena, locked):
            raise PromptError(reason)
        locked.retired_at = locked.retired_at or now
        locked.showcased_at = locked.showcased_at or now
        locked.in_showcase = True
        locked.save(update_fields=SHOWCASE)
        # Those who have it before them could look up the names now.
        shown = Comparison.objects.filter(prompt=locked, rater__kind=Rater.Kind.PERSON)
        shown.open(now).update(expires_at=now)
        sync_pairs(arena=arena)
        _record(locked, by, "showcased a prompt")
    prompt.refresh_from_db(fields=SHOWCASE)


def reason_against_showcase(arena: Arena, prompt: Prompt) -> str:
    """Return a sentence about why the prompt cannot be in the showcase; '' if it can."""
    name = quoted(prompt.external_id)
    if prompt.is_held_out(arena):
        return f"Prompt {name} is held out: its answers are never published with names."
    if Response.objects.revealed().filter(prompt=prompt).count() < 2:
        return f"Prompt {name} has fewer than two answers."
    shown = arena.prompts.filter(in_showcase=True, category=prompt.category)
    if shown.count() >= MOST_IN_SHOWCASE:
        of = f"of the category {quoted(prompt.category)}" if prompt.category else "of no category"
        return (
            f"The showcase already has {MOST_IN_SHOWCASE} prompts {of}. Remove one of them first."
        )
    left = count_votable_prompts(arena, besides=prompt.pk)
    if left < LEAST_IN_VOTING:
        return (
            f"Only {numbered(left, 'other prompt')} can be voted on, and at least "
            f"{LEAST_IN_VOTING} must remain."
        )
    return ""


def suggest_for_showcase(arena: Arena) -> list[Prompt]:
    """Return the prompts with the most votes that every candidate has answered, as many of each
    category as the showcase may still have; none if too few would remain in voting.
    """
    votes = Vote.objects.live().filter(arena=arena).order_by().values_list("comparison__prompt")
    n_votes = dict(votes.annotate(Count("pk")))
    active = arena.candidates.active()
    answered = Count("responses", filter=Q(responses__candidate__in=active))
    found = arena.prompts.active().filter(pk__in=n_votes).annotate(n_answers=answered)
    candidates = [
        prompt
        for prompt in found.filter(n_answers=active.count()).defer("html")
        if not prompt.is_held_out(arena)
    ]
    candidates.sort(key=lambda prompt: (-n_votes[prompt.pk], prompt.pk))
    taken = Counter(arena.prompts.filter(in_showcase=True).values_list("category", flat=True))
    suggested = []
    for prompt in candidates:
        if taken[prompt.category] < MOST_IN_SHOWCASE:
            taken[prompt.category] += 1
            suggested.append(prompt)
    if not suggested or count_votable_prompts(arena, suggested[0].pk) < LEAST_IN_VOTING:
        return []
    return sorted(suggested, key=lambda prompt: prompt.category)


@retry_on_deadlock
@transaction.atomic
def remove_from_showcase(*, prompt: Prompt, by: Actor) -> None:
    """Stop showing a prompt to visitors. It stays archived, because its names are known."""
    arena = lock_arena(prompt.arena_id)
    if Prompt.objects.filter(pk=prompt.pk, in_showcase=True).update(in_showcase=False):
        announce(answers_changed, arena_id=arena.pk)
        _record(prompt, by, "removed a prompt from the showcase")
    prompt.refresh_from_db(fields=SHOWCASE)


@retry_on_deadlock
@transaction.atomic
def use_categories_as_documents(*, arena: Arena, by: Actor) -> int:
    """Take the category of each prompt without a document as its document; return how many."""
    lock_arena(arena.pk)
    lacking = Prompt.objects.filter(arena=arena, document="").exclude(category="")
    count = lacking.update(document=F("category"))
    if count:
        audit.record_in(arena, by, "took categories as documents", numbered(count, "prompt"))
        announce(votes_changed, arena_id=arena.pk, reason="documents")
    return count


@retry_on_deadlock
@transaction.atomic
def delete_prompt(*, prompt: Prompt, by: Actor) -> None:
    """Delete a prompt and the answers to it. Raises PromptError if anybody has voted on it."""
    arena = lock_arena(prompt.arena_id)
    locked = Prompt.objects.select_for_update().filter(pk=prompt.pk).first()
    if locked is None:
        return
    if reason := reason_to_keep_prompt(locked):
        raise PromptError(reason)
    _record(locked, by, "deleted a prompt")
    locked.delete()
    sync_pairs(arena=arena)
    announce(votes_changed, arena_id=arena.pk, reason="deleted")


@transaction.atomic
def reason_to_keep_prompt(prompt: Prompt) -> str:
    """Return a sentence about why the prompt cannot be deleted; '' if it can."""
    return reason_to_keep(prompt.arena, Comparison.objects.filter(prompt=prompt), "prompt")


@retry_on_deadlock
@transaction.atomic
def _set_retired(
    arena: Arena, prompts: QuerySet[Prompt], at: datetime | None, by: Actor, verb: str
) -> int:
    # The arena is always locked first: `sync_pairs` locks its row too.
    arena = lock_arena(arena.pk)
    to_change = prompts.filter(arena=arena, retired_at__isnull=at is not None)
    locked = list(to_change.select_for_update(of=("self",), no_key=True).order_by("pk"))
    if not locked:
        return 0
    to_change.update(retired_at=at)
    sync_pairs(arena=arena)
    if len(locked) == 1:
        _record(locked[0], by, f"{verb} a prompt")
    else:
        ids, subject = [prompt.pk for prompt in locked], numbered(len(locked), "prompt")
        audit.record_in(arena, by, f"{verb} prompts", subject, prompts=ids)
    return len(locked)


def _record(prompt: Prompt, by: Actor, action: str) -> None:
    audit.record_in(prompt.arena, by, action, prompt.external_id, prompt=prompt.pk)
