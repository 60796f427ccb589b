"""What candidates are made of: what is sent for a prompt, and what changed between versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena.forms.prompts import shown_json
from arena.models import Arena, Candidate, Prompt
from arena.prompting import DiffLine, TemplateError, diff_of, render_messages, variables_in

PREVIEWED = 3
TEXTS = {"system_prompt": "System prompt", "user_template": "User template"}
PLAIN = {"endpoint": "Endpoint", "model": "Model", "variant": "Variant", "notes": "Notes"}
NOTHING = "nothing"


@dataclass(frozen=True)
class Sent:
    """The messages for one prompt, as (role, content); or why there are none."""

    prompt: Prompt
    messages: Sequence[tuple[str, str]] = ()
    wrong: str = ""


@dataclass(frozen=True)
class Preview:
    """What is sent for some prompts; `following` is where the next ones begin.

    `lacking` prompts have no value for a variable that the templates use.
    """

    sent: Sequence[Sent]
    following: int
    prompts: int
    lacking: int


@dataclass(frozen=True)
class TextChange:
    """How a text differs between two versions, line by line; no lines where it does not."""

    label: str
    lines: Sequence[DiffLine]


@dataclass(frozen=True)
class Changes:
    """What differs between two versions: texts, and other fields as (label, before, after)."""

    texts: Sequence[TextChange]
    fields: Sequence[tuple[str, str, str]]

    def __bool__(self) -> bool:
        return bool(self.texts or self.fields)


def preview_of(arena: Arena, made_of: Mapping[str, Any], start: int = 0) -> Preview:
    """Return what would be sent for the prompts from number `start` on."""
    prompts = arena.prompts.active().order_by("pk")
    count = prompts.count()
    start = start if start < count else 0
    some = prompts.defer("html")[start : start + PREVIEWED]
    return Preview(
        sent=[_sent(prompt, made_of) for prompt in some],
        following=start + PREVIEWED if start + PREVIEWED < count else 0,
        prompts=count,
        lacking=_lacking(arena, made_of),
    )


def _sent(prompt: Prompt, made_of: Mapping[str, Any]) -> Sent:
    try:
        messages = render_messages(
            system_prompt=made_of["system_prompt"],
            user_template=made_of["user_template"],
            prompt=prompt.text,
            variables=prompt.variables,
            prompt_id=prompt.external_id,
        )
    except TemplateError as error:
        return Sent(prompt, wrong=str(error))
    return Sent(prompt, messages)


def _lacking(arena: Arena, made_of: Mapping[str, Any]) -> int:
    """Count the active prompts that lack a variable which is used."""
    used = {name for text in TEXTS for name in variables_in(made_of[text])} - {"prompt"}
    if not used:
        return 0
    rows = arena.prompts.active().values_list("variables", flat=True)
    return sum(not used <= variables.keys() for variables in rows.iterator())


def changes_between(before: Candidate, after: Mapping[str, Any]) -> Changes:
    """Return what `after` changes in `before`."""
    texts = (
        TextChange(label, diff_of(getattr(before, name), after[name]))
        for name, label in TEXTS.items()
    )
    fields = [
        (label, getattr(before, name) or NOTHING, after[name] or NOTHING)
        for name, label in PLAIN.items()
        if getattr(before, name) != after[name]
    ]
    if before.parameters != after["parameters"]:
        was, now = shown_json(before.parameters), shown_json(after["parameters"])
        fields.append(("Parameters", was or NOTHING, now or NOTHING))
    return Changes([change for change in texts if change.lines], fields)


def made_of(candidate: Candidate) -> dict[str, Any]:
    """What a candidate is made of, by the names of its fields."""
    return {name: getattr(candidate, name) for name in (*TEXTS, *PLAIN, "parameters")}
