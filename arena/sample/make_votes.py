"""Writes the sample arena's ``votes.jsonl``.

These votes are made by a seeded script and are nobody's opinion. They exist so that a fresh
installation has a leaderboard to look at. Fourteen invented raters judge each answer by the quality
given below, each with their own strictness, their own idea of a tie and some noise.

``python arena/sample/make_votes.py`` writes the same file, byte for byte, everywhere: all random
numbers come from SHA-256, so neither the version of Python nor the machine matters.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

SEED = "ringside sample 1"
VOTES_PER_PAIR = 40
TARGET = Path(__file__).with_name("votes.jsonl")

CANDIDATES = ("plain", "concise", "step-by-step", "friendly", "expert")

# The quality of each answer, 0 to 10, in the order of CANDIDATES. An answer below 4 has a fault
# that a reader can name: a wrong figure, a lost fact, a missed question, code that does not work.
QUALITY: dict[str, tuple[float, ...]] = {
    "refund-angry": (5.0, 3.6, 6.2, 7.0, 5.8),
    "thread-summary": (4.2, 7.0, 4.6, 3.4, 6.4),
    "new-phone": (5.0, 3.8, 7.4, 5.2, 6.4),
    "plan-table": (3.6, 6.6, 4.8, 2.6, 7.0),
    "release-note": (3.4, 6.0, 5.8, 7.0, 5.0),
    "polite-no": (5.4, 4.8, 2.6, 3.8, 7.0),
    "shorten-notice": (5.6, 7.0, 4.8, 3.6, 5.4),
    "soften-reply": (5.2, 5.8, 4.8, 7.0, 6.0),
    "monthly-revenue": (4.0, 6.4, 6.8, 2.8, 7.2),
    "leaking-tags": (3.4, 6.4, 7.0, 5.8, 6.4),
    "compound-interest": (5.6, 5.2, 6.6, 3.0, 6.6),
    "order-regex": (3.2, 6.8, 6.4, 5.2, 6.4),
}


@dataclass(frozen=True)
class SampleRater:
    """One invented rater: a name and the habits that decide their votes."""

    name: str
    standard: float  # two answers that both seem worse than this are both bad
    tie_width: float  # two answers that seem closer than this are a tie
    activity: float  # how readily this rater accepts a comparison, 0.5 to 1.5


class Slot(NamedTuple):
    """One vote to be cast: a prompt, two candidates and the rater."""

    prompt: str
    pair: tuple[str, str]
    rater: SampleRater

    @property
    def key(self) -> str:
        """The slot's key for random numbers."""
        return f"{self.prompt}/{'/'.join(self.pair)}/{self.rater.name}"


def draw(*key: str) -> float:
    """Return a number in [0, 1) that depends on the seed and the key alone."""
    digest = sha256("|".join((SEED, *key)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def noise(*key: str) -> float:
    """Return a nearly normal number, mean 0 and variance 1: twelve uniform ones, minus six."""
    return sum(draw(*key, str(part)) for part in range(12)) - 6


def make_rater(number: int) -> SampleRater:
    """Return the rater with this number, always the same."""
    name = f"sample-rater-{number:02}"
    return SampleRater(
        name=name,
        standard=2.8 + 2.0 * draw(name, "standard"),
        tie_width=0.4 + 1.7 * draw(name, "tie"),
        activity=0.5 + draw(name, "activity"),
    )


RATERS = tuple(make_rater(number) for number in range(1, 15))


def slots_of_pair(pair: tuple[str, str]) -> list[Slot]:
    """Return VOTES_PER_PAIR slots, spread over the prompts; no rater gets a prompt twice."""
    prompts = sorted(QUALITY, key=lambda prompt: draw(*pair, prompt))
    slots: list[Slot] = []
    for index, prompt in enumerate(prompts):
        wanted = VOTES_PER_PAIR // len(prompts) + (index < VOTES_PER_PAIR % len(prompts))
        slots += [Slot(prompt, pair, rater) for rater in willing_raters(prompt, pair)[:wanted]]
    return slots


def willing_raters(prompt: str, pair: tuple[str, str]) -> list[SampleRater]:
    """Return all raters in the order in which they accept this comparison, active ones earlier."""
    return sorted(RATERS, key=lambda rater: draw(prompt, *pair, rater.name) / rater.activity)


def impression(slot: Slot, candidate: str) -> float:
    """Return how good the answer seems to the rater, whatever it is compared with."""
    quality = QUALITY[slot.prompt][CANDIDATES.index(candidate)]
    return quality + 1.6 * noise(slot.prompt, candidate, slot.rater.name)


def verdict(slot: Slot, left: str, right: str) -> str:
    """Return the outcome that follows from the rater's impressions and habits."""
    on_left, on_right = impression(slot, left), impression(slot, right)
    if max(on_left, on_right) < slot.rater.standard:
        return "both_bad"
    if abs(on_left - on_right) < slot.rater.tie_width:
        return "tie"
    return "left" if on_left > on_right else "right"


def seated(slots: Iterable[Slot]) -> Iterator[tuple[Slot, str, str]]:
    """Yield each slot of one pair with its left and right side, alternating, in random order."""
    for index, slot in enumerate(sorted(slots, key=lambda slot: draw(slot.key, "side"))):
        first, second = slot.pair
        yield (slot, first, second) if index % 2 == 0 else (slot, second, first)


def make_votes() -> list[dict[str, str]]:
    """Return all votes, in the order of casting."""
    pairs = combinations(CANDIDATES, 2)
    rows = [row for pair in pairs for row in seated(slots_of_pair(pair))]
    rows.sort(key=lambda row: draw(row[0].key, "order"))
    return [vote_row(*row) for row in rows]


def vote_row(slot: Slot, left: str, right: str) -> dict[str, str]:
    """Return one line of the file; ``a`` is the left side and ``b`` the right one."""
    return {
        "prompt": slot.prompt,
        "a": left,
        "b": right,
        "outcome": verdict(slot, left, right),
        "rater": slot.rater.name,
        "kind": "person",
    }


def as_jsonl(rows: Iterable[dict[str, str]]) -> bytes:
    """Return the rows as JSON Lines in UTF-8, with the same line ends on every system."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


if __name__ == "__main__":
    TARGET.write_bytes(as_jsonl(make_votes()))
