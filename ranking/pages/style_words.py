"""What style is worth, in words: from a coefficient to two answers that a reader can picture."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ranking.pages.findings import Findings

TWICE = 1 / 3  # (a - b) / (a + b) of two answers, one with twice as many as the other
ANY = 1.0  # and of one with some beside one without any
# What the trait is called in a sentence, who has it, beside whom, and how far these two differ.
EXAMPLES = {
    "words": ("Length makes", "An answer twice as long", "the other", TWICE),
    "headings": ("Headings make", "An answer with headings", "one without", ANY),
    "list_items": ("Lists make", "An answer with a list", "one without", ANY),
    "bold": ("Bold words make", "An answer with bold words", "one without", ANY),
}


@dataclass(frozen=True)
class Trait:
    """One feature of style, what it does in words, and the figures beneath, in Elo."""

    label: str
    says: str
    elo: float | None
    low: float | None
    high: float | None


def traits(findings: Findings) -> list[Trait]:
    """The features of a board's style column, in the order in which they were fitted.

    None where no trait differs between answers: equal style is then what the score is about.
    """
    found = [_trait(feature) for feature in findings.style.get("features") or []]
    told = findings.style_scores and any(trait.elo is not None for trait in found)
    return found if told else []


def _trait(feature: Mapping[str, Any]) -> Trait:
    label = feature["label"]
    example = EXAMPLES.get(feature["name"], (f"{label}: this makes", label, "half as much", TWICE))
    elo, low, high = (_worth(feature, end, example[-1]) for end in ("coefficient", "low", "high"))
    return Trait(label, _says(feature, example, elo, low, high), elo, low, high)


def _says(
    feature: Mapping[str, Any],
    example: tuple[str, str, str, float],
    elo: float | None,
    low: float | None,
    high: float | None,
) -> str:
    it_makes, one, other, _ = example
    if elo is None:
        return f"Cannot be told. {feature.get('reason') or ''}".strip()
    if low is not None and high is not None and low <= 0 <= high:
        return f"{it_makes} no difference that is more than chance explains."
    moves = f"{one} {'gains' if elo > 0 else 'loses'} about {abs(elo):.0f} Elo beside {other}"
    return f"{moves}{'.' if low is not None else '; how sure that is cannot be said.'}"


def _worth(feature: Mapping[str, Any], name: str, gap: float) -> float | None:
    """The coefficient is per standard deviation of the differences; in Elo, at this gap."""
    value, deviation = feature.get(name), feature.get("deviation")
    return value * gap / deviation if value is not None and deviation else None
