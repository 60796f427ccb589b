"""Prompts as the test sets of other tools, written while they are read.

promptfoo's tests as JSON Lines (promptfoo.dev/docs/configuration/test-cases), and the items of a
dataset of Langfuse (langfuse.com/docs, "Datasets"). Both files come back as the same prompts. They
have references and rubrics, so they are for the arena's own team.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.db.models import Prefetch

from arena.formats.assertions import write_assertion
from arena.formats.promptfoo import read_check
from arena.formats.records import filled, written
from arena.models import AnswerCheck, Arena, Prompt
from arena.services.exports import ordered_checks
from ranking.exported_votes import one_by_one
from ranking.streamed_files import Row

PROMPTFOO = dict.fromkeys(("description", "vars", "assert", "metadata"), "object")
LANGFUSE = dict.fromkeys(("id", "input", "expectedOutput", "metadata", "status"), "object")


def promptfoo_tests(arena: Arena, actor: object) -> Iterator[Row]:
    """Yield a test for each prompt that is not archived; `actor` may read them all."""
    of_all = list(ordered_checks().filter(arena=arena, prompt=None))
    for prompt in _prompts(arena):
        if prompt.retired_at is None:
            named = {"category": prompt.category, "document": prompt.document}
            metadata = {name: value for name, value in named.items() if value}
            yield {
                "description": prompt.external_id,
                "vars": _variables(prompt),
                "assert": _assertions(prompt, of_all),
                "metadata": metadata,
            }


def langfuse_items(arena: Arena, actor: object) -> Iterator[Row]:
    """Yield an item of a dataset for each prompt; `actor` may read them all."""
    for prompt in _prompts(arena):
        yield {
            "id": prompt.external_id,
            "input": {"messages": prompt.messages} if prompt.messages else prompt.text,
            "expectedOutput": prompt.reference or None,
            "metadata": filled(
                {name: getattr(prompt, name) for name in ("category", "document", "rubric")}
            )
            or None,
            "status": "ACTIVE" if prompt.retired_at is None else "ARCHIVED",
        }


def _prompts(arena: Arena) -> Iterator[Prompt]:
    rows = arena.prompts.revealed().defer("html")
    return one_by_one(rows.prefetch_related(Prefetch("checks", ordered_checks())))


def _variables(prompt: Prompt) -> dict[str, str]:
    """The prompt's variables, and `prompt`, its text, unless the variables contain all of it."""
    variables: dict[str, str] = dict(prompt.variables)
    made = "\n".join(f"{name}: {value}" for name, value in variables.items())
    if prompt.messages:
        return variables | {"prompt": json.dumps(prompt.messages, ensure_ascii=False)}
    is_known = prompt.text in (*variables.values(), made)
    return variables if is_known else variables | {"prompt": prompt.text}


def _assertions(prompt: Prompt, of_all: list[AnswerCheck]) -> list[dict[str, Any]]:
    """The checks of the prompt and of all prompts; the rubric, with its lines that were assertions
    as such again; and what is left of the reference."""
    checks = [
        assertion
        for check in sorted([*prompt.checks.all(), *of_all], key=lambda check: check.pk)
        if (assertion := write_assertion(check.fields))
    ]
    lines = [(read_check(line), line) for line in prompt.rubric.split("\n")]
    for is_check, group in groupby(lines, lambda pair: pair[0] is not None):
        pairs = list(group)
        if is_check:
            checks += [check for check, _ in pairs if check]
        elif any(line.strip() for _, line in pairs):
            checks.append({"type": "llm-rubric", "value": "\n".join(line for _, line in pairs)})
    # What must be equal or similar is part of the reference.
    rest, place = prompt.reference, 0
    for number, check in enumerate(checks, start=1):
        value = written(check.get("value", ""))
        if check["type"] not in ("equals", "similar") or not value:
            continue
        if rest == value or rest.startswith(f"{value}\n\n"):
            rest, place = rest[len(value) + 2 :], number
        else:
            rest = rest.removesuffix(f"\n\n{value}")
    if rest.strip():
        checks.insert(place, {"type": "factuality", "value": rest})
    return checks
