"""The two kinds of tables that people upload: prompts, and a candidate's answers to them."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from arena.calls.amounts import MOST, NANO
from arena.importers.base import (
    BadRow,
    check_how_many,
    checked_name,
    checked_text,
    is_variable,
    kind_of,
    shown,
)
from arena.uploads.base import Columns, Given, check_length

MOST_TOKENS = 2_147_483_647
MOST_SECONDS = 1_000_000
# Cells are written as `1.5`, as `1,5` where the comma is the decimal sign, or as `2e-05`.
_NUMBER = re.compile(r"[0-9]{1,30}([.,][0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")
_BRACES = re.compile(r"\{\{\s{0,9}[^\W\d]\w{0,99}\s{0,9}\}\}")
_THOUSANDS = re.compile(r"[0-9]{1,3},[0-9]{3}")


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One prompt; `external_id` is '' where the file gives none."""

    row: int
    text: str
    external_id: str = ""
    category: str = ""
    reference: str = ""
    rubric: str = ""
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """One answer, to the prompt with the id `prompt_id`, or else with `prompt` as its id or text.

    `seconds` are what the model took; `cost` is in nano-dollars. None where the file says nothing.
    """

    row: int
    text: str
    prompt_id: str = ""
    prompt: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float | None = None
    cost: int | None = None


# -- Prompts ---------------------------------------------------------------------------------------


def parsed_prompt(given: Given) -> PromptRow:
    """Return the prompt of one row; raises BadRow."""
    for column in ("text", "reference", "rubric"):
        check_length(_text(given, column), column)
    return PromptRow(
        row=given.row,
        text=_filled(given, "text"),
        external_id=_name(given, "external_id", 200),
        category=_name(given, "category", 100),
        reference=_text(given, "reference"),
        rubric=_text(given, "rubric"),
        variables=_variables(given),
    )


def key_of_prompt(row: PromptRow) -> tuple[str, Hashable]:
    """Prompts are told apart by their ids; without one, by the text and the variables."""
    if row.external_id:
        return "external_id", row.external_id
    return "text", (row.text, *sorted(row.variables.items()))


def braces_in_texts(rows: Sequence[PromptRow]) -> list[str]:
    """Say which prompts hold what looks like a variable: only templates are filled in."""
    found = [(row, match[0]) for row in rows if (match := _BRACES.search(row.text))]
    if not found:
        return []
    row, braces = found[0]
    name = shown(row.external_id) if row.external_id else f"row {row.row:,}"
    more = f" So it is in {len(found) - 1:,} more." if len(found) > 1 else ""
    return [
        f"The text of {name} holds {braces}, which is sent as it stands: variables belong in a"
        f" candidate's template.{more}"
    ]


def _variables(given: Given) -> dict[str, str]:
    written = {name: value for name, value in given.others.items() if value is not None}
    check_how_many(written, None)
    return {name: _variable(name, value) for name, value in written.items()}


def _variable(name: str, value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return checked_text(value, name)


PROMPTS = Columns(
    synonyms={
        "text": ("text", "prompt", "question", "input"),
        "external_id": ("id", "prompt_id", "external_id", "prompt"),
        "category": ("category", "tag"),
        "reference": ("reference", "expected", "reference_answer", "expected_answer"),
        "rubric": ("rubric",),
    },
    needed=(("text",),),
    parse=parsed_prompt,
    key=key_of_prompt,
    takes_other=is_variable,
    why_not="A variable's name is one word of letters, digits and underscores, and not prompt.",
    words={
        "text": "the prompt's text",
        "external_id": "its id",
        "category": "its category",
        "reference": "its reference answer",
        "rubric": "its rubric",
    },
    remarks=braces_in_texts,
    things={
        "text": "The prompt",
        "external_id": "The id",
        "category": "The category",
        "reference": "The reference answer",
        "rubric": "The rubric",
    },
    twice={"external_id": "this id", "text": "this prompt"},
)


# -- Responses -------------------------------------------------------------------------------------


def parsed_response(given: Given) -> ResponseRow:
    """Return the answer of one row; raises BadRow."""
    prompt_id = _name(given, "prompt_id", 200)
    prompt = _text(given, "prompt")
    if not prompt_id and not prompt.strip():
        column = "prompt" if "prompt" in given.fields else "prompt_id"
        raise BadRow(column, "is empty, so nobody knows which prompt this answers")
    return ResponseRow(
        row=given.row,
        text=_filled(given, "text"),
        prompt_id=prompt_id,
        prompt=prompt,
        tokens_in=_whole(given, "tokens_in", MOST_TOKENS),
        tokens_out=_whole(given, "tokens_out", MOST_TOKENS),
        seconds=_seconds(given),
        cost=_cost(given),
    )


def key_of_response(row: ResponseRow) -> tuple[str, Hashable]:
    """A candidate answers each prompt once."""
    return ("prompt_id", row.prompt_id) if row.prompt_id else ("prompt", (row.prompt,))


RESPONSES = Columns(
    synonyms={
        "prompt_id": ("prompt_id", "id", "external_id"),
        "prompt": ("prompt", "prompt_text", "question", "input"),
        "text": ("text", "answer", "response", "output"),
        "tokens_in": ("tokens_in", "input_tokens", "prompt_tokens"),
        "tokens_out": ("tokens_out", "output_tokens", "completion_tokens"),
        "seconds": ("seconds", "duration_seconds"),
        "cost": ("cost", "cost_usd"),
    },
    needed=(("prompt_id", "prompt"), ("text",)),
    parse=parsed_response,
    key=key_of_response,
    takes_other=lambda name: False,
    why_not="Answers have no further columns.",
    things={"prompt_id": "The prompt’s id", "prompt": "The prompt", "text": "The answer"},
    twice=dict.fromkeys(("prompt_id", "prompt"), "answered this prompt"),
)


# -- Values ----------------------------------------------------------------------------------------


def _filled(given: Given, column: str) -> str:
    text = _text(given, column)
    if not text.strip():
        raise BadRow(column, "is empty")
    return text


def _text(given: Given, column: str) -> str:
    """Return a text; a prompt or an answer may be a bare number in JSON."""
    value = given.fields.get(column)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return "" if value is None else checked_text(value, column)


def _name(given: Given, column: str, limit: int) -> str:
    value = given.fields.get(column)
    return "" if value is None else checked_name(value, column, limit=limit, required=False)


def _seconds(given: Given) -> float | None:
    number = _number(given, "seconds", MOST_SECONDS)
    return None if number is None else float(number)


def _cost(given: Given) -> int | None:
    number = _number(given, "cost", MOST)
    return None if number is None else round(number * NANO)


def _whole(given: Given, column: str, most: int) -> int | None:
    number = _number(given, column, most)
    if number is not None and number != int(number):
        raise BadRow(column, f"is {number}, not a whole number")
    return None if number is None else int(number)


def _number(given: Given, column: str, most: int) -> Decimal | None:
    """Return a number from 0 to `most`; None for nothing."""
    value = given.fields.get(column)
    if isinstance(value, bool) or not isinstance(value, int | float | str | None):
        raise BadRow(column, f"is {kind_of(value)}, not a number")
    written = "" if value is None else str(value).strip()
    if not written:
        return None
    if _THOUSANDS.fullmatch(written):
        raise BadRow(column, f"is {shown(written)}, in which the comma may mean two things")
    if not _NUMBER.fullmatch(written):
        raise BadRow(column, f"is {shown(written)}, not a number of 0 or more")
    number = Decimal(written.replace(",", "."))
    if number > most:
        raise BadRow(column, f"is {shown(written)}; at most {most:,} will do")
    return number
