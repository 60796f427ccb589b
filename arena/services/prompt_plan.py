"""What rows of prompts come to: worked out against what the arena has, before anything is written.

Whether two prompts would end up with one text is asked of the end, not of each row on its way
there: rows may pass a text on, or swap two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from arena.importers.base import shown
from arena.models import Arena, Prompt
from arena.services.reports import UploadReport
from arena.uploads import Problem, PromptRow

CONTENT = ("text", "category", "reference", "rubric", "variables")
FIXED = (
    "Prompt {id} has answers or comparisons already, so it cannot be changed: they were made with "
    "the prompt as it is. Retire it and add another one."
)
DOUBLE = "Prompt {id} has the same text already."

Key = tuple[str, tuple[tuple[str, str], ...]]


def key_of(text: str, variables: Mapping[str, str]) -> Key:
    """Return what no two prompts of an arena may have in common."""
    return text.replace("\r\n", "\n").strip(), tuple(sorted(variables.items()))


def apply(prompt: Prompt, changes: Mapping[str, Any]) -> None:
    """Have `prompt` say what `changes` name, unsaved."""
    for name, value in changes.items():
        setattr(prompt, name, value)
    prompt.html, prompt.html_version = None, 0


@dataclass(eq=False)
class _Draft:
    """A prompt as `rows` want it; `before` is what they change of one that the arena has."""

    prompt: Prompt
    rows: list[int]
    before: dict[str, Any] = field(default_factory=dict)


@dataclass
class Plan:
    """Prompts to be added and changed. Take all rows, refuse what is fixed, refuse the doubles."""

    arena: Arena
    report: UploadReport
    drafts: dict[str, _Draft] = field(default_factory=dict)

    def __post_init__(self) -> None:
        prompts = self.arena.prompts.defer("html").order_by("pk")
        self.by_id = {prompt.external_id: prompt for prompt in prompts}
        self.by_text = _by_text(self.by_id.values())
        self.named: set[str] = set()
        self.next_number = 1

    # -- Row by row --------------------------------------------------------------------------------

    def take(self, rows: Sequence[PromptRow]) -> None:
        """Sort the rows in: new, changed, unchanged, or refused with a reason."""
        self.named = {row.external_id for row in rows}
        for row in rows:
            self._take(row)

    def _take(self, row: PromptRow) -> None:
        if row.external_id:
            known = self.by_id.get(row.external_id)
        elif known := self.by_text.get(key_of(row.text, row.variables)):
            row = replace(row, text=known.text)  # known by it, so it is no change of it
        if known is None:
            self._add(row)
        else:
            self._change(row, known)

    def _add(self, row: PromptRow) -> None:
        prompt = Prompt(
            arena=self.arena,
            external_id=row.external_id or self._free_id(),
            **{name: getattr(row, name) for name in CONTENT},
        )
        self.by_id[prompt.external_id] = prompt
        self.by_text.setdefault(_key(prompt), prompt)
        self.drafts[prompt.external_id] = _Draft(prompt, [row.row])

    def _change(self, row: PromptRow, prompt: Prompt) -> None:
        changes = {
            name: value
            for name in CONTENT
            if (value := getattr(row, name)) and value != getattr(prompt, name)
        }
        draft = self.drafts.get(prompt.external_id)
        name = prompt.external_id
        if not changes and draft:
            draft.rows.append(row.row)
        elif not changes:
            self.report.unchanged += 1
        elif draft:
            self._tell(row.row, "external_id", f"The row names prompt {name} a second time.")
        elif prompt.retired_at is not None:
            self._tell(row.row, "external_id", f"The row names prompt {name}, which is retired.")
        else:
            self._draft(row, prompt, changes)

    def _draft(self, row: PromptRow, prompt: Prompt, changes: dict[str, Any]) -> None:
        before = {name: getattr(prompt, name) for name in changes}
        if self.by_text.get(_key(prompt)) is prompt:
            del self.by_text[_key(prompt)]
        apply(prompt, changes)
        self.by_text.setdefault(_key(prompt), prompt)
        self.drafts[prompt.external_id] = _Draft(prompt, [row.row], before)

    def _free_id(self) -> str:
        """The next id that is no prompt's, and that no row means for its own."""
        while (name := f"p{self.next_number}") in self.by_id or name in self.named:
            self.next_number += 1
        return name

    # -- Taken together ----------------------------------------------------------------------------

    def refuse_fixed(self, fixed: Iterable[int]) -> None:
        """Take back the changes of prompts that something was made with already, by their ids."""
        of_pk = {draft.prompt.pk: draft for draft in self.drafts.values() if draft.before}
        for pk in fixed:
            name = shown(of_pk[pk].prompt.external_id)
            self._take_back(of_pk[pk], "external_id", FIXED.format(id=name))

    def refuse_doubles(self) -> None:
        """Refuse whatever would leave two prompts with one text.

        Who keeps a text has it before whoever wants it, and the earlier row before the later one. A
        prompt whose change is refused keeps its text after all, so that who was to have it is
        refused in turn.
        """
        holders = self._keepers()
        for draft in list(self.drafts.values()):
            refused: _Draft | None = draft
            while refused is not None:
                refused = self._settle(refused, holders)

    def _keepers(self) -> dict[Key, Prompt]:
        """The prompts whose text stays, by it. Imported ones may share a text, and go on so."""
        return _by_text(
            prompt
            for name, prompt in self.by_id.items()
            if name not in self.drafts or _keeps_text(self.drafts[name])
        )

    def _settle(self, draft: _Draft, holders: dict[Key, Prompt]) -> _Draft | None:
        """Let `draft` have its text or refuse it; return whom that leaves to be settled again."""
        if _keeps_text(draft):
            return None
        holder = holders.setdefault(_key(draft.prompt), draft.prompt)
        if holder is draft.prompt:
            return None
        self._take_back(draft, "text", DOUBLE.format(id=shown(holder.external_id)))
        if draft.prompt.pk is None:
            return None
        ousted = holders.get(_key(draft.prompt))
        holders[_key(draft.prompt)] = draft.prompt
        return self.drafts.get(ousted.external_id) if ousted else None

    def _take_back(self, draft: _Draft, column: str, sentence: str) -> None:
        del self.drafts[draft.prompt.external_id]
        apply(draft.prompt, draft.before)
        for row in draft.rows:
            self._tell(row, column, sentence)

    def _tell(self, row: int, column: str, sentence: str) -> None:
        self.report.refused.append(Problem(row, column, sentence))

    # -- What is left ------------------------------------------------------------------------------

    @property
    def new(self) -> list[Prompt]:
        """Prompts to be added."""
        return [draft.prompt for draft in self.drafts.values() if draft.prompt.pk is None]

    @property
    def changed(self) -> list[Prompt]:
        """Prompts to be changed."""
        return [draft.prompt for draft in self.drafts.values() if draft.prompt.pk is not None]

    def count(self) -> None:
        """Note in the report what became of the rows that go in."""
        report, drafts = self.report, self.drafts.values()
        report.added, report.changed = len(self.new), len(self.changed)
        report.unchanged += sum(len(draft.rows) - 1 for draft in drafts)


def _key(prompt: Prompt) -> Key:
    return key_of(prompt.text, prompt.variables)


def _by_text(prompts: Iterable[Prompt]) -> dict[Key, Prompt]:
    """The prompts by their texts; the first where several have one."""
    found: dict[Key, Prompt] = {}
    for prompt in prompts:
        found.setdefault(_key(prompt), prompt)
    return found


def _keeps_text(draft: _Draft) -> bool:
    """Is it a prompt that the arena has, under the text that it has there?"""
    if draft.prompt.pk is None:
        return False
    was = {name: getattr(draft.prompt, name) for name in ("text", "variables")} | draft.before
    return key_of(was["text"], was["variables"]) == _key(draft.prompt)
