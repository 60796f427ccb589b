"""The anchor of a scale: the candidate whose score is given, as in "this model has 1114". Pure.

Scores are fitted with a mean of 1000, and then all are moved by the same number. No difference, no
width of an interval and no rank depends on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MEAN = 1000.0
# What is moved of a row. Elo ratings are not: each begins at 1000 and has no mean to choose.
ON_SCALE = ("score", "low", "high", "shrunk", "shrunk_low", "shrunk_high")
WHY_UNUSABLE = {
    "gone": "it is no longer in this arena",
    "merged": "it is merged into another candidate",
    "archived": "it is archived",
    "no_votes": "it has no votes on this leaderboard",
    "unconnected": "no chain of wins and losses connects it with the others",
}


@dataclass(frozen=True)
class Anchor:
    candidate: int
    score: float


def move(row: Any, by: float) -> None:
    """Move the scores of a row, and the ends of their intervals."""
    for name in ON_SCALE:
        value = getattr(row, name)
        if value is not None:
            setattr(row, name, value + by)


def scale_sentence(settings: Mapping[str, Any], names: Mapping[int, str]) -> str:
    """Which candidate fixes the scale of a leaderboard with these settings, or why it can't; '' if
    none should."""
    anchor = settings.get("anchor")
    if not anchor or anchor["candidate"] not in names:  # it was deleted a moment ago
        return ""
    name, score = names[anchor["candidate"]], f"{anchor['score']:.10g}"
    if not anchor["reason"]:
        return f"The scale is fixed: {name} scores {score}."
    why = WHY_UNUSABLE[anchor["reason"]]
    return f"{name} should score {score}, but {why}. The mean score is {MEAN:.0f} instead."
