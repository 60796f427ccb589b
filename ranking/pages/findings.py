"""What was found besides the scores, as a snapshot keeps it.

An older snapshot may lack any of it: what is not there is None, or empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ranking.models import Snapshot


@dataclass(frozen=True)
class Neighbours:
    """Two candidates that follow each other: `separated`, or how many more `votes` that takes."""

    upper: int
    lower: int
    separated: bool
    votes: int | None
    words: str


@dataclass(frozen=True)
class StyleScore:
    """What a candidate is worth among answers of one style, in Elo, and its interval."""

    score: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Findings:
    """The findings of one snapshot; candidates are named by their ids.

    `neighbours` is keyed by the upper of two, `style_scores` by the candidate; the others are the
    JSON objects that were stored.
    """

    leader: int | None = None
    neighbours: Mapping[int, Neighbours] = field(default_factory=dict)
    fragility: Mapping[str, Any] = field(default_factory=dict)
    agreement: Mapping[str, Any] = field(default_factory=dict)
    transitivity: Mapping[str, Any] = field(default_factory=dict)
    ties: Mapping[str, Any] = field(default_factory=dict)
    style: Mapping[str, Any] = field(default_factory=dict)
    combined: Mapping[str, Any] = field(default_factory=dict)
    style_scores: Mapping[int, StyleScore] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> "Findings":
        stored = snapshot.findings if snapshot else {}
        parts = ("fragility", "agreement", "transitivity", "ties", "style", "combined")
        found = {name: stored.get(name) or {} for name in parts}
        return cls(
            leader=stored.get("leader"),
            neighbours=_neighbours(stored.get("neighbours") or []),
            style_scores=_style_scores(found["style"].get("scores") or {}),
            **found,
        )


def _neighbours(stored: list[dict[str, Any]]) -> dict[int, Neighbours]:
    return {
        pair["upper"]: Neighbours(
            pair["upper"], pair["lower"], pair["separated"], pair.get("votes"), pair["words"]
        )
        for pair in stored
    }


def _style_scores(stored: Mapping[str, Mapping[str, Any]]) -> dict[int, StyleScore]:
    """JSON has no whole numbers as keys, so ids were stored as text."""
    return {
        int(pk): StyleScore(of.get("score"), of.get("low"), of.get("high"))
        for pk, of in stored.items()
    }
