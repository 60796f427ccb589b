"""Checklists: items that a judge answers with yes or no, one by one, and whose weights are added
up.

Each answer is read and stored by itself, so people can check it; the score is computed here and
never by the model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_ITEMS = 50
HOW_TO_REPLY = (
    "First write your reasoning, briefly, item by item. Then end with one line for each item, each "
    "with YES or NO after the colon, and nothing below them:\n{lines}"
)
REPAIR = (
    "Your answers to the items cannot be read from your reply. Do not judge anew: write one line "
    "for each item, each with YES or NO after the colon, and nothing else:\n{lines}"
)


class ChecklistError(ValueError):
    """Items that cannot be used; the message says why."""


@dataclass(frozen=True)
class ChecklistItem:
    """A question that is answered with yes or no. A yes adds `weight`, which may be negative."""

    text: str
    weight: float = 1.0


def read_items(raw: Sequence[Any]) -> tuple[ChecklistItem, ...]:
    """Read the `items` of a rubric.toml; raises ChecklistError with a sentence."""
    if not 1 <= len(raw) <= MOST_ITEMS:
        raise ChecklistError(f"a checklist has 1 to {MOST_ITEMS} items, not {len(raw)}.")
    items = tuple(_item(number, raw_item) for number, raw_item in enumerate(raw, start=1))
    if len({item.text.casefold() for item in items}) < len(items):
        raise ChecklistError("two items of the checklist are the same.")
    return items


def _item(number: int, raw: Any) -> ChecklistItem:
    match raw:
        case {"text": str(text), **rest} if text.strip() and rest.keys() <= {"weight"}:
            weight: Any = rest.get("weight", 1)
            if type(weight) in (int, float) and math.isfinite(weight) and weight:
                return ChecklistItem(" ".join(text.split()), float(weight))
            raise ChecklistError(f"the weight of item {number} must be a number other than 0.")
    raise ChecklistError(f"item {number} is not a table with text and weight.")


def score_of(items: Sequence[ChecklistItem], met: Sequence[bool]) -> float:
    """Add up the weights of the items that are met."""
    return math.fsum(item.weight for item, is_met in zip(items, met, strict=True) if is_met)


def describe_items(items: Sequence[ChecklistItem]) -> str:
    """Return the numbered items with their weights. Sent to models: part of the prompts."""
    return "\n".join(
        f"{number}. {item.text} ({item.weight:+g})" for number, item in enumerate(items, start=1)
    )


def item_lines(n: int, nonce: str) -> str:
    """Return the lines to be completed, one for each of `n` items."""
    return "\n".join(f"VERDICT-{nonce} {number}:" for number in range(1, n + 1))


def stored_verdict(items: Sequence[ChecklistItem], met: Sequence[bool]) -> dict[str, object]:
    """Return the verdict of a call as it is stored."""
    return {"met": list(met), "score": score_of(items, met)}
