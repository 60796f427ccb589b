"""Scales: what a direct assessment may say about one answer, from worst to best."""

import unicodedata
from dataclasses import dataclass
from typing import Any

FEWEST = 2
MOST = 100


class ScaleError(ValueError):
    """A scale on which nothing can be measured; the message says why."""


@dataclass(frozen=True)
class Scale:
    """An integer range, or labels from worst to best; `labels` are spelled as a judge writes them.

    Raises ScaleError unless there are 2 to 100 different labels, each one line of text.
    """

    labels: tuple[str, ...]
    is_integer: bool = False

    def __post_init__(self) -> None:
        _check(self.labels)
        if self.is_integer and self.labels != _numerals(int(self.labels[0]), int(self.labels[-1])):
            raise ScaleError("An integer scale has every integer of its range, in order.")

    @classmethod
    def integers(cls, low: int, high: int) -> "Scale":
        """Return the scale of all integers from `low` (worst) to `high` (best)."""
        if type(low) is not int or type(high) is not int:
            raise ScaleError(f"The ends of a scale are integers, not {low!r} and {high!r}.")
        if not FEWEST - 1 <= high - low < MOST:
            raise ScaleError(
                f"A scale from {low} to {high} does not have {FEWEST} to {MOST} entries."
            )
        return cls(_numerals(low, high), is_integer=True)

    @classmethod
    def of_labels(cls, labels: tuple[str, ...] | list[str]) -> "Scale":
        """Return the scale of these labels, worst first."""
        return cls(tuple(labels))

    @property
    def low(self) -> float:
        """The worst score."""
        return self.score_of(self.labels[0])

    @property
    def high(self) -> float:
        """The best score."""
        return self.score_of(self.labels[-1])

    def score_of(self, label: str) -> float:
        """Return a label's score: the integer itself, or its place from 1 (worst) upward.

        Raises ScaleError for a label that the scale does not have.
        """
        if label not in self.labels:
            raise ScaleError(f"{label!r} is not on the scale: {self.describe()}.")
        return float(label) if self.is_integer else 1.0 + self.labels.index(label)

    def describe(self) -> str:
        """Say in words what may be chosen."""
        if self.is_integer:
            return f"an integer between {self.labels[0]} and {self.labels[-1]}"
        return f"one of: {', '.join(self.labels)}"

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes; the same as the `scale` of a rubric.toml."""
        if self.is_integer:
            return {"low": int(self.labels[0]), "high": int(self.labels[-1])}
        return {"labels": list(self.labels)}

    @classmethod
    def from_json(cls, facts: Any) -> "Scale":
        """Read `{low, high}` or `{labels}`; raises ScaleError for anything else."""
        match facts:
            case {"low": low, "high": high} if facts.keys() == {"low", "high"}:
                return cls.integers(low, high)
            case {"labels": list(labels)} if facts.keys() == {"labels"}:
                return cls.of_labels(labels)
        raise ScaleError("A scale is {low, high}, two integers, or {labels}, a list from worst up.")


def _numerals(low: int, high: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(low, high + 1))


def _check(labels: tuple[str, ...]) -> None:
    if not FEWEST <= len(labels) <= MOST:
        raise ScaleError(f"A scale has {FEWEST} to {MOST} entries, not {len(labels)}.")
    for label in labels:
        if not isinstance(label, str) or not _is_one_line(label):
            raise ScaleError(f"The label {label!r} is not one line of text.")
    if len({_folded(label) for label in labels}) < len(labels):
        raise ScaleError("Two labels of the scale differ in nothing that a reply would show.")


def _is_one_line(label: str) -> bool:
    """Is there something to read, and nothing that a reply could lose or break at?"""
    worn = label != " ".join(label.split()) or not label.isprintable()
    return not worn and any(character.isalnum() for character in label)


def _folded(label: str) -> str:
    return unicodedata.normalize("NFKC", label).casefold()
