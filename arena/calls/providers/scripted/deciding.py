"""How the scripted judge decides: a score per answer, and a mood."""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from arena.calls.providers.scripted.asked import Asked

FLIPS = 0.08
UNREADABLE_SHARE = 0.02
REFUSALS = 0.01
TIE_WITHIN = 0.06
NOISE = 0.5
SOFTNESS = 0.1  # difference of scores that makes one verdict e times as likely as another
WORD = re.compile(r"\w{4,}")
REFUSED, UNREADABLE, DECIDED = "refused", "unreadable", "decided"


@dataclass(frozen=True)
class Decided:
    """A verdict as it is to be written, and the probability of each that might have been.

    `order` is that of a list of answers: groups of letters, the best first, ties within a group.
    """

    verdict: str
    reason: str
    state: str = DECIDED
    chances: dict[str, float] = field(default_factory=dict)
    order: tuple[tuple[str, ...], ...] = ()


def decide(seed: str, asked: Asked) -> Decided:
    """Return what the judge `seed` makes of the answers it is shown."""
    scores = [_quality(seed, asked, answer) for answer in asked.answers]
    mood = fraction(seed, "mood", asked.prompt, *asked.answers)
    first_is_best = mood > 1 - FLIPS
    if asked.kind == "pairwise":
        decided = _of_two(scores, asked.form == "prometheus", first_is_best)
    elif asked.kind == "direct":
        decided = _on_a_scale(scores[0], asked.labels)
    else:
        decided = _in_order(scores, first_is_best)
    if mood < REFUSALS:
        return replace(decided, state=REFUSED)
    if mood < REFUSALS + UNREADABLE_SHARE and not asked.is_repair:
        return replace(decided, state=UNREADABLE)
    return decided


def _of_two(scores: Sequence[float], no_ties: bool, first_is_best: bool) -> Decided:
    first, second = scores
    reason = f"Scripted, not a real model. Answer A scores {first:.2f}, B {second:.2f}."
    merits = {"A": first - second, "B": second - first}
    if not no_ties:
        merits["TIE"] = TIE_WITHIN
    if first_is_best:
        reason = f"{reason} The first answer makes the first impression."
        merits["A"] = max(merits.values()) + TIE_WITHIN
    return _likeliest(merits, reason)


def _on_a_scale(score: float, labels: Sequence[str]) -> Decided:
    """Divide the range of scores evenly among the labels."""
    place = score / (1 + NOISE) * len(labels) - 0.5
    merits = {label: -abs(place - i) * SOFTNESS for i, label in enumerate(labels)}
    return _likeliest(merits, f"Scripted, not a real model. The answer scores {score:.2f}.")


def _in_order(scores: Sequence[float], first_is_best: bool) -> Decided:
    letters = {chr(ord("A") + i): score for i, score in enumerate(scores)}
    named = ", ".join(f"{letter} {score:.2f}" for letter, score in letters.items())
    if first_is_best:
        letters["A"] = max(scores) + 2 * TIE_WITHIN
    groups: list[list[str]] = []
    for letter in sorted(letters, key=lambda one: -letters[one]):
        if groups and letters[groups[-1][0]] - letters[letter] < TIE_WITHIN:
            groups[-1].append(letter)
        else:
            groups.append([letter])
    return Decided(
        verdict=" > ".join(" = ".join(group) for group in groups),
        reason=f"Scripted, not a real model. The answers score: {named}.",
        order=tuple(map(tuple, groups)),
    )


def _likeliest(merits: dict[str, float], reason: str) -> Decided:
    best = max(merits, key=lambda label: merits[label])
    weights = {name: math.exp((merit - merits[best]) / SOFTNESS) for name, merit in merits.items()}
    total = sum(weights.values())
    return Decided(best, reason, chances={name: one / total for name, one in weights.items()})


def _quality(seed: str, asked: Asked, answer: str) -> float:
    """Share of the longer words wanted that the answer takes up, plus noise: 0 to 1 + NOISE.

    How much noise there is belongs to the judge: some are more careful than others.
    """
    wanted = set(WORD.findall(f"{asked.prompt}\n{asked.beside}".lower()))
    found = wanted & set(WORD.findall(answer.lower()))
    noise = NOISE * (1 + fraction(seed, "carelessness")) / 2
    return len(found) / max(1, len(wanted)) + noise * fraction(
        seed, "quality", asked.prompt, answer
    )


def fraction(*parts: str) -> float:
    """Return a number in [0, 1) decided by `parts` alone."""
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
