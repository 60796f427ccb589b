"""The rows of a file put together: each item once, with what every person said of it."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from arena.importers.base import BadRow, FileProblem, shown
from judges.labels.files import rows_of
from judges.labels.rows import LabelRow

SWAPPED = {"left": "right", "right": "left", "tie": "tie", "both_bad": "both_bad"}
MOST_SHOWN = 20
Said = str | float
ItemKey = tuple[str, str, str, str, str]


class BadLabels(Exception):
    """A file with rows that cannot be used; the message names line, column and reason of each."""


@dataclass
class LabelledItem:
    """Two responses to a prompt, or one, and `said`: rater -> outcome, or score.

    Of an item that the file shows both ways round, the first way counts, and the labels of the
    other are turned.
    """

    prompt: str
    response_1: str
    response_2: str
    reference: str
    rubric: str
    category: str
    line: int
    said: dict[str, Said] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """SHA-256 of the texts."""
        texts = [self.prompt, self.response_1, self.response_2, self.reference, self.rubric]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


@dataclass(frozen=True)
class LabelFile:
    """The labels of one file; `empty` counts the rows left out because a text in them is blank."""

    kind: str
    items: list[LabelledItem]
    empty: int = 0

    @property
    def labels(self) -> int:
        return sum(len(item.said) for item in self.items)

    @property
    def digest(self) -> str:
        """SHA-256 of what the file says, whatever its format and the order of its rows."""
        content = sorted([one.key, one.category, sorted(one.said.items())] for one in self.items)
        return hashlib.sha256(json.dumps([self.kind, content]).encode()).hexdigest()


def read_labels(path: Path) -> LabelFile:
    """Read and check a whole file.

    Raises BadLabels where a row is bad, and FileProblem where the file is.
    """
    collected = _Collected()
    problems: list[tuple[int, BadRow]] = []
    for line, row in rows_of(path):
        try:
            if isinstance(row, BadRow):
                raise row
            collected.add(line, row)
        except BadRow as bad:
            problems.append((line, bad))
    if problems:
        raise BadLabels(_in_words(path, problems))
    if not collected.items:
        raise FileProblem(f"{path}: there is no label in it.")
    return LabelFile(collected.kind, list(collected.items.values()), collected.empty)


def _in_words(path: Path, problems: list[tuple[int, BadRow]]) -> str:
    told = [
        f"{path.name}, line {line}{f', {bad.column}' if bad.column else ''}: {bad.reason}"
        for line, bad in problems[:MOST_SHOWN]
    ]
    if len(problems) > MOST_SHOWN:
        told.append(f"... and {len(problems) - MOST_SHOWN:,} more.")
    rows = "1 bad row" if len(problems) == 1 else f"{len(problems):,} bad rows"
    return "\n".join([*told, f"Nothing was read: {rows}."])


class _Collected:
    """Items so far, in the order of the file."""

    def __init__(self) -> None:
        self.kind = ""
        self.empty = 0
        self.items: dict[ItemKey, LabelledItem] = {}

    def add(self, line: int, row: LabelRow) -> None:
        """Add what a row says; raises BadRow where it contradicts an earlier one."""
        self.kind = self.kind or row.kind
        if row.kind != self.kind:
            raise BadRow(None, f"is one of {row.kind}; the rows above are of {self.kind}")
        if row.is_empty:
            self.empty += 1
            return
        item, turned = self._item(line, row)
        if row.category != item.category:
            first = f"{shown(item.category)} in line {item.line}"
            raise BadRow("category", f"is {shown(row.category)}, but the same item has {first}")
        said: Said = row.score if row.score is not None else row.outcome
        _note(item, line, row.rater, SWAPPED[row.outcome] if turned else said)

    def _item(self, line: int, row: LabelRow) -> tuple[LabelledItem, bool]:
        key = (row.prompt, row.response_1, row.response_2, row.reference, row.rubric)
        turned = (row.prompt, row.response_2, row.response_1, row.reference, row.rubric)
        if key not in self.items and turned in self.items:
            return self.items[turned], True
        if key not in self.items:
            self.items[key] = LabelledItem(*key, row.category, line)
        return self.items[key], False


def _note(item: LabelledItem, line: int, rater: str, said: Said) -> None:
    """Write down what somebody said; whoever is not named is a person of their own each time."""
    name = rater or _nobody(item.said)
    if item.said.get(name, said) != said:
        before = f"{item.said[name]} in line {item.lines[name]}"
        raise BadRow(None, f"says {said} by rater {shown(name)}, who said {before} of the same")
    item.said[name] = said
    item.lines.setdefault(name, line)


def _nobody(taken: Iterable[str]) -> str:
    name, number = "", 1
    while name in taken:
        number += 1
        name = f"unnamed {number}"
    return name
