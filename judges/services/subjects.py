"""What a call is about, as the ledger names it: answers in the order in which they are shown.

12,15         two answers of an arena, 12 first        12      one answer, to be scored
9,12,15       a list                                   note:7  the grading note of prompt 7
item:3:12     a labelled item, its first answer first  item:3:1, item:3:note

Where the arena has criteria of its own, `@` and a mark of them follow: what was said under other
words is another answer.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Subject:
    """A subject taken apart. `shown` are ids of responses, or 1 and 2 for those of an item."""

    shown: tuple[int, ...] = ()
    prompt: int | None = None
    item: int | None = None

    @property
    def is_note(self) -> bool:
        return not self.shown


def mark_of(criteria: str) -> str:
    """Return what tells an arena's criteria from others in a subject; '' where it has none."""
    return f"@{hashlib.sha256(criteria.encode()).hexdigest()[:12]}" if criteria else ""


def of_responses(shown: Sequence[int], mark: str = "") -> str:
    return ",".join(str(response) for response in shown) + mark


def of_note(prompt: int, mark: str = "") -> str:
    return f"note:{prompt}{mark}"


def of_item(item: int, shown: Sequence[int]) -> str:
    return f"item:{item}:" + "".join(str(answer) for answer in shown)


def of_item_note(item: int) -> str:
    return f"item:{item}:note"


def key_of_pair(first: int, second: int) -> str:
    """Name two responses whatever their order."""
    return f"{min(first, second)},{max(first, second)}"


def key_of_item(item: int) -> str:
    return f"item:{item}"


def read_subject(subject: str) -> Subject:
    """Take a subject apart; raises ValueError for one that this module did not write."""
    kind, _, rest = subject.partition("@")[0].partition(":")
    if kind == "note":
        return Subject(prompt=int(rest))
    if kind == "item":
        item, _, shown = rest.partition(":")
        return Subject(item=int(item), shown=() if shown == "note" else tuple(map(int, shown)))
    return Subject(shown=tuple(int(part) for part in kind.split(",")))
