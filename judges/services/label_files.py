"""The labels of a file, merged: each item once, with every person's label."""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from arena.files.reader import FileError, Source, unreadable
from arena.files.rows import LabelRow
from arena.formats.base import Layout
from arena.formats.labels import LAYOUTS
from arena.formats.records import Foreign, recognise
from arena.formats.refusals import unknown_layout
from arena.outcomes import mirror
from arena.validation import InputError, numbered, quoted

MOST_SHOWN = 20
FREE = ("pairs", "scores", "preferences")  # the layouts that are nobody's data set
NEEDS = (
    "Labels need prompt, response_1, response_2 and label; scores need prompt, response and score "
    "(docs/reference/judge-files.md)."
)
LabelValue = str | float
ItemKey = tuple[str, str, str, str, str]


class LabelsError(Exception):
    """A file with `count` rows that cannot be used; the message names line, column and reason of
    each."""

    def __init__(self, message: str, count: int = 0) -> None:
        super().__init__(message)
        self.count = count


@dataclass
class LabelledItem:
    """Two responses to a prompt, or one, and `labels`: rater -> outcome, or score.

    If a file has an item in both orders, the first order counts, and the labels of the other are
    mirrored.
    """

    prompt: str
    response_1: str
    response_2: str
    reference: str
    rubric: str
    category: str
    line: int
    models: tuple[str, str] = ("", "")
    labels: dict[str, LabelValue] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """SHA-256 of the texts."""
        texts = [self.prompt, self.response_1, self.response_2, self.reference, self.rubric]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


@dataclass(frozen=True)
class LabelFile:
    """The labels of one file; `empty` counts the rows left out because a text in them is blank.

    `notes`: sentences about what else was left out or overruled.
    """

    kind: str
    items: list[LabelledItem]
    empty: int = 0
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> int:
        return sum(len(item.labels) for item in self.items)

    @property
    def digest(self) -> str:
        """The SHA-256 of the file's content, regardless of its format and the order of its rows."""
        content = sorted(
            [
                item.key,
                item.category,
                sorted(item.labels.items()),
                *(item.models if any(item.models) else []),
            ]
            for item in self.items
        )
        return hashlib.sha256(json.dumps([self.kind, content]).encode()).hexdigest()


def read_labels(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    most_rows: int = sys.maxsize,
) -> LabelFile:
    """Read and check a whole file.

    `columns` maps fields to columns, and `values` what labels are called to outcomes. Raises
    LabelsError for bad rows, unless they are to be skipped, and FileError for a bad file.
    """
    collected = _Collected()
    problems: list[tuple[int, InputError]] = []
    for row in labels_in(path, columns, values).rows(path, "labels"):
        if row.number > most_rows:
            raise FileError(
                f"{path} has more than {most_rows:,} rows. Split it, or use calibrate --labels."
            )
        try:
            if isinstance(row.content, InputError):
                raise row.content
            collected.add(row.line, row.content)
        except InputError as error:
            problems.append((row.line, error))
    if problems and not skip_bad:
        raise LabelsError(_list_problems(path, problems, "Nothing was read"), len(problems))
    if not collected.items:
        raise FileError(f"{path} has no labels.")
    notes = [_list_problems(path, problems, "Skipped")] if problems else []
    notes += collected.notes()
    items = list(collected.items.values())
    return LabelFile(collected.kind, items, collected.empty, tuple(notes))


def labels_in(
    path: Path, columns: Mapping[str, str] | None = None, values: Mapping[str, str] | None = None
) -> Foreign:
    """The layout of a file of labels. Raises FileError if it has none."""
    try:
        Source.of(path.read_bytes(), str(path), guess=False)
    except OSError as error:
        raise unreadable(path, error) from None
    # Files of our own call it so.
    columns = {"winner" if name == "label" else name: c for name, c in (columns or {}).items()}
    # Who chooses all that a published data set needs has another file, with other values.
    layouts = sorted(LAYOUTS, key=lambda one: one.name not in FREE and _is_chosen(one, columns))
    layout = recognise(path, layouts, columns)
    if layout is None:
        known = {layout.name: layout for layout in LAYOUTS}
        raise FileError(f"{path} has no labels that are read. {unknown_layout(path, known, NEEDS)}")
    return Foreign(layout, columns, values)


def _is_chosen(layout: Layout, columns: Mapping[str, str] | None) -> bool:
    return all(any(name in (columns or ()) for name in group) for group in layout.needed)


def _list_problems(path: Path, problems: list[tuple[int, InputError]], effect: str) -> str:
    sentences = [
        f"{path.name}, line {line}{f', {error.column}' if error.column else ''}: {error.advice}"
        for line, error in problems[:MOST_SHOWN]
    ]
    if len(problems) > MOST_SHOWN:
        sentences.append(f"... and {len(problems) - MOST_SHOWN:,} more.")
    return "\n".join([*sentences, f"{effect}: {numbered(len(problems), 'bad row')}."])


class _Collected:
    """Items so far, in the order of the file."""

    def __init__(self) -> None:
        self.kind = ""
        self.empty = 0
        self.items: dict[ItemKey, LabelledItem] = {}
        self.recategorised: list[str] = []

    def add(self, line: int, row: LabelRow) -> None:
        """Add a row's label; raises InputError if it contradicts an earlier one."""
        self.kind = self.kind or row.kind
        if row.kind != self.kind:
            raise InputError(f"is a row of {row.kind}; the rows above it are {self.kind}")
        if row.is_empty:
            self.empty += 1
            return
        item, turned = self._find_item(line, row)
        if row.category != item.category:
            first = f"{quoted(item.category)} in line {item.line}"
            self.recategorised.append(
                f"Line {line}: the category is {quoted(row.category)}, but the same item has "
                f"{first}; the first category counts."
            )
        if not any(item.models):
            item.models = (row.model_2, row.model_1) if turned else (row.model_1, row.model_2)
        label: LabelValue = row.score if row.score is not None else row.outcome
        _add_label(item, line, row.rater, mirror(row.outcome) if turned else label)

    def notes(self) -> list[str]:
        """Return a sentence for each of the first items with two categories."""
        listed = self.recategorised[:MOST_SHOWN]
        if more := len(self.recategorised) - len(listed):
            listed.append(f"... and {more:,} more rows with another category.")
        return listed

    def _find_item(self, line: int, row: LabelRow) -> tuple[LabelledItem, bool]:
        key = (row.prompt, row.response_1, row.response_2, row.reference, row.rubric)
        turned = (row.prompt, row.response_2, row.response_1, row.reference, row.rubric)
        if key not in self.items and turned in self.items:
            return self.items[turned], True
        if key not in self.items:
            self.items[key] = LabelledItem(*key, row.category, line)
        return self.items[key], False


def _add_label(item: LabelledItem, line: int, rater: str, label: LabelValue) -> None:
    """Store a label; each label without a rater counts as another person's."""
    name, number = rater, 1
    while not rater and name in item.labels:
        number += 1
        name = f"unnamed {number}"
    if item.labels.get(name, label) != label:
        before = f"{item.labels[name]} in line {item.lines[name]}"
        raise InputError(f"says {label} by rater {quoted(name)}, who gave the same item {before}")
    item.labels[name] = label
    item.lines.setdefault(name, line)
