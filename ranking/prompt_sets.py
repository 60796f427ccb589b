"""An arena's prompts as the test sets of other tools, written while they are read.

promptfoo reads tests as JSON Lines (promptfoo.dev/docs/configuration/test-cases), Langfuse the
items of a dataset (langfuse.com/docs, "Datasets"). Both files come back as the same prompts. They
have references and rubrics, so they are for the arena's own team.
"""

import json
from collections.abc import Iterator
from typing import Any

from arena.models import Arena, Prompt
from ranking.exports import Export, Row, one_by_one

PROMPTFOO = dict.fromkeys(("description", "vars", "assert", "metadata"), "object")
LANGFUSE = dict.fromkeys(("id", "input", "expectedOutput", "metadata", "status"), "object")


def promptfoo_tests(arena: Arena, actor: object) -> Iterator[Row]:
    """Yield a test for each prompt that is not archived; `actor` may read them all."""
    for prompt in _prompts(arena):
        if prompt.retired_at is None:
            metadata = {"category": prompt.category} if prompt.category else {}
            yield {
                "description": prompt.external_id,
                "vars": _variables(prompt),
                "assert": _assertions(prompt),
                "metadata": metadata,
            }


def langfuse_items(arena: Arena, actor: object) -> Iterator[Row]:
    """Yield an item of a dataset for each prompt; `actor` may read them all."""
    for prompt in _prompts(arena):
        yield {
            "id": prompt.external_id,
            "input": {"messages": prompt.messages} if prompt.messages else prompt.text,
            "expectedOutput": prompt.reference or None,
            "metadata": {"category": prompt.category, "rubric": prompt.rubric},
            "status": "ACTIVE" if prompt.retired_at is None else "ARCHIVED",
        }


def _prompts(arena: Arena) -> Iterator[Prompt]:
    return one_by_one(arena.prompts.revealed().defer("html"))


def _variables(prompt: Prompt) -> dict[str, str]:
    """The prompt's variables, and `prompt` where its text is none of them, or made of them."""
    variables: dict[str, str] = dict(prompt.variables)
    made = "\n".join(f"{name}: {value}" for name, value in variables.items())
    if prompt.messages:
        return variables | {"prompt": json.dumps(prompt.messages, ensure_ascii=False)}
    is_known = prompt.text in (*variables.values(), made)
    return variables if is_known else variables | {"prompt": prompt.text}


def _assertions(prompt: Prompt) -> list[dict[str, Any]]:
    kinds = {"factuality": prompt.reference, "llm-rubric": prompt.rubric}
    return [{"type": kind, "value": value} for kind, value in kinds.items() if value.strip()]


EXPORTS = {
    "promptfoo-tests": Export(PROMPTFOO, promptfoo_tests, ("jsonl",)),
    "langfuse-items": Export(LANGFUSE, langfuse_items, ("jsonl", "csv")),
}
