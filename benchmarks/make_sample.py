"""Writes the sample arena's ``votes.jsonl`` and ``jury_votes.jsonl``.

These votes come from a seeded script and are nobody's opinion. They exist so that a fresh
installation has a leaderboard to look at. Forty invented raters judge each answer by the quality
given below, each with their own taste, their own strictness, their own idea of a tie and some
noise; some say why. A scripted jury judges half of the prompts by quality alone.

``python benchmarks/make_sample.py`` writes the same files, byte for byte, everywhere: all random
numbers come from SHA-256, so neither the version of Python nor the machine matters.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

SEED = "ringside sample 2"
VOTES_PER_PAIR = 80
VOTES_ON_SPECIMEN = 4  # of a pair, on each prompt of the showcase
RATERS_INVENTED = 40
SHARE_EXPLAINED = 0.4
JURY = "scripted-sample-jury"
FOLDER = Path(__file__).parent.parent / "arena" / "sample"
Row = dict[str, Any]

CANDIDATES = (
    *("plain", "concise", "step-by-step", "friendly", "expert"),
    *("double-checked", "mini", "guarded"),
)

# The quality of each answer, 0 to 10, in the order of CANDIDATES. An answer below 4 has a fault
# that a reader can name: a wrong figure, a lost fact, a missed question, code that does not work.
QUALITY: dict[str, tuple[float, ...]] = {
    "refund-angry": (5.0, 3.6, 6.2, 7.0, 5.8, 7.2, 2.8, 2.4),
    "thread-summary": (4.2, 7.0, 4.6, 3.4, 6.4, 7.4, 2.6, 3.2),
    "new-phone": (5.0, 3.8, 7.4, 5.2, 6.4, 7.4, 3.6, 4.0),
    "plan-table": (3.6, 6.6, 4.8, 2.6, 7.0, 6.8, 2.4, 4.4),
    "release-note": (3.4, 6.0, 5.8, 7.0, 5.0, 7.0, 3.0, 2.8),
    "polite-no": (5.4, 4.8, 2.6, 3.8, 7.0, 6.2, 4.0, 2.4),
    "shorten-notice": (5.6, 7.0, 4.8, 3.6, 5.4, 6.4, 2.8, 3.4),
    "soften-reply": (5.2, 5.8, 4.8, 7.0, 6.0, 6.8, 4.6, 2.6),
    "monthly-revenue": (4.0, 6.4, 6.8, 2.8, 7.2, 6.8, 1.8, 5.2),
    "leaking-tags": (3.4, 6.4, 7.0, 5.8, 6.4, 7.2, 1.8, 5.0),
    "compound-interest": (5.6, 5.2, 6.6, 3.0, 6.6, 6.8, 2.6, 3.8),
    "order-regex": (3.2, 6.8, 6.4, 5.2, 6.4, 6.8, 2.2, 5.0),
    "locked-account": (4.6, 6.8, 6.6, 5.8, 5.8, 6.8, 2.0, 2.4),
    "migraine-spray": (5.6, 6.2, 6.2, 1.6, 6.8, 6.4, 1.4, 3.6),
    "subject-lines": (5.2, 6.4, 5.8, 3.4, 6.8, 6.0, 2.4, 2.8),
    "meeting-minutes": (4.4, 6.6, 6.6, 2.6, 7.0, 7.2, 2.2, 3.2),
    "csv-total": (2.8, 6.8, 7.0, 5.2, 7.2, 7.0, 1.8, 4.8),
    "percent-trap": (5.8, 6.6, 6.6, 1.8, 6.8, 6.8, 1.6, 3.6),
    "team-lunch": (5.8, 6.8, 6.6, 2.2, 7.0, 6.8, 2.0, 3.2),
    "three-cities": (5.0, 6.4, 7.0, 1.8, 7.0, 6.8, 1.6, 4.2),
    "training-budget": (5.8, 6.6, 6.4, 2.2, 7.0, 6.6, 2.4, 3.4),
    "patch-window": (5.8, 6.8, 6.8, 1.8, 7.2, 6.8, 3.4, 3.4),
    "office-move": (3.4, 5.6, 6.8, 1.8, 7.2, 6.8, 2.4, 3.2),
    "trade-fair": (5.4, 6.6, 6.2, 2.0, 7.0, 6.2, 2.4, 3.8),
    "lost-parcel": (4.8, 6.6, 6.6, 7.0, 6.2, 7.2, 1.8, 2.4),
    "status-page": (6.0, 6.8, 5.6, 1.6, 6.8, 6.4, 2.0, 2.4),
    "renewal-refund": (4.2, 6.6, 6.8, 6.6, 6.0, 7.2, 2.6, 3.0),
    "reply-in-german": (3.4, 6.6, 5.6, 2.0, 6.6, 6.8, 3.0, 2.8),
    "job-advert": (5.6, 6.2, 4.4, 7.0, 6.6, 6.2, 2.4, 2.2),
    "error-text": (5.8, 7.0, 5.4, 4.2, 6.2, 6.6, 3.2, 3.4),
    "condolence-card": (4.6, 5.4, 4.8, 7.2, 6.4, 6.4, 1.2, 1.6),
    "proofread": (3.8, 7.0, 6.6, 2.4, 6.6, 7.0, 2.6, 4.4),
    "wrong-branch": (2.6, 6.8, 7.0, 1.6, 7.0, 7.0, 1.4, 5.0),
    "lookup-formula": (3.0, 6.6, 6.6, 5.6, 7.0, 7.2, 1.6, 4.6),
    "satisfaction-rise": (5.4, 6.6, 6.4, 1.6, 5.8, 7.2, 1.8, 3.8),
    "failing-clients": (3.4, 7.0, 6.8, 4.4, 6.8, 7.0, 1.6, 4.6),
    "phone-rota": (6.0, 6.4, 6.8, 1.8, 6.8, 7.0, 2.2, 4.0),
    "train-or-car": (5.6, 6.2, 6.6, 2.0, 6.8, 7.0, 1.8, 3.0),
    "chilli-for-twenty": (5.8, 6.6, 6.8, 6.8, 6.8, 6.4, 4.4, 3.4),
    "brochure-dates": (5.8, 6.6, 7.0, 1.8, 6.8, 7.0, 1.6, 3.6),
}
# The same of the prompts in the showcase, which raters no longer see.
SHOWCASE: dict[str, tuple[float, ...]] = {
    "invoice-after-cancelling": (4.8, 6.6, 5.6, 6.4, 6.4, 7.0, 1.4, 2.0),
    "shoes-by-saturday": (5.0, 6.4, 6.0, 7.0, 6.2, 7.0, 2.0, 1.6),
    "holiday-notice": (6.4, 6.4, 5.0, 5.2, 5.6, 6.2, 2.2, 2.2),
    "headline-fix": (5.2, 6.8, 5.4, 4.4, 6.6, 6.6, 2.6, 2.0),
    "mean-or-median": (5.0, 6.8, 6.6, 1.8, 7.0, 7.0, 1.2, 3.8),
    "unique-addresses": (2.6, 7.0, 6.8, 5.6, 7.0, 7.0, 1.8, 3.0),
    "interview-slots": (6.2, 6.8, 7.0, 1.8, 6.8, 7.0, 1.4, 3.2),
    "tins-of-paint": (6.0, 6.6, 6.8, 1.6, 7.0, 7.0, 1.4, 3.6),
}
# What raters' tastes are about: short answers, warm ones, and lists, tables and steps.
TASTES: dict[str, tuple[float, ...]] = {
    "short": (0.2, 1.0, -0.4, -0.8, -0.9, -0.2, 0.8, -0.4),
    "warm": (-0.3, -0.5, 0.0, 1.0, 0.0, 0.2, -0.2, -1.0),
    "structured": (-0.5, 0.2, 1.0, -0.8, 0.8, 0.7, -0.6, -0.8),
}
# Reasons for and against a candidate's answers, the most frequent first.
STRENGTHS: dict[str, tuple[str, ...]] = {
    "plain": ("clear", "right length"),
    "concise": ("right length", "clear"),
    "step-by-step": ("clear", "complete"),
    "friendly": ("good tone", "clear"),
    "expert": ("complete", "correct"),
    "double-checked": ("correct", "complete"),
    "mini": ("right length", "clear"),
    "guarded": ("correct", "complete"),
}
FAULTS: dict[str, tuple[str, ...]] = {
    "plain": ("wrong", "wrong tone"),
    "concise": ("missing step", "wrong tone"),
    "step-by-step": ("too long", "unclear"),
    "friendly": ("wrong", "too long"),
    "expert": ("too long", "unclear"),
    "double-checked": ("too long", "wrong tone"),
    "mini": ("wrong", "missing step"),
    "guarded": ("unclear", "wrong tone"),
}


@dataclass(frozen=True)
class SampleRater:
    """One invented rater: a name and the habits that decide their votes."""

    name: str
    standard: float  # two answers that both seem worse than this are both bad
    tie_width: float  # two answers that seem closer than this are a tie
    activity: float  # how readily this rater accepts a comparison, 0.5 to 1.5
    tastes: Mapping[str, float]

    def taste_for(self, candidate: str) -> float:
        place = CANDIDATES.index(candidate)
        return sum(weight * TASTES[name][place] for name, weight in self.tastes.items())


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


def quality(prompt: str, candidate: str) -> float:
    return (QUALITY | SHOWCASE)[prompt][CANDIDATES.index(candidate)]


def make_rater(number: int) -> SampleRater:
    """Return the rater with this number, always the same."""
    name = f"sample-rater-{number:02}"
    return SampleRater(
        name=name,
        standard=2.4 + 1.4 * draw(name, "standard"),
        tie_width=0.3 + 1.2 * draw(name, "tie"),
        activity=0.5 + draw(name, "activity"),
        tastes={taste: 0.6 * noise(name, taste) for taste in TASTES},
    )


RATERS = tuple(make_rater(number) for number in range(1, RATERS_INVENTED + 1))


def slots_of_pair(pair: tuple[str, str]) -> list[Slot]:
    """Return VOTES_PER_PAIR slots, spread over the prompts; no rater gets a prompt twice."""
    prompts = sorted(QUALITY, key=lambda prompt: draw(*pair, prompt))
    slots: list[Slot] = []
    for index, prompt in enumerate(prompts):
        wanted = VOTES_PER_PAIR // len(prompts) + (index < VOTES_PER_PAIR % len(prompts))
        slots += [Slot(prompt, pair, rater) for rater in willing_raters(prompt, pair)[:wanted]]
    return slots


def slots_of_specimens(pair: tuple[str, str]) -> list[Slot]:
    """Return the slots from the time when the prompts of the showcase were still in voting."""
    raters = {prompt: willing_raters(prompt, pair)[:VOTES_ON_SPECIMEN] for prompt in SHOWCASE}
    return [Slot(prompt, pair, rater) for prompt in raters for rater in raters[prompt]]


def willing_raters(prompt: str, pair: tuple[str, str]) -> list[SampleRater]:
    """Return all raters in the order in which they are asked; active ones tend to come earlier."""
    return sorted(RATERS, key=lambda rater: draw(prompt, *pair, rater.name) / rater.activity)


def impression(slot: Slot, candidate: str) -> float:
    """Return how good the answer seems to the rater, regardless of what it is compared with."""
    chance = 1.4 * noise(slot.prompt, candidate, slot.rater.name)
    return quality(slot.prompt, candidate) + slot.rater.taste_for(candidate) + chance


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


def make_votes() -> list[Row]:
    """Return all votes, in the order of casting."""
    pairs = list(combinations(CANDIDATES, 2))
    rows = [row for pair in pairs for row in seated(slots_of_pair(pair))]
    rows += [row for pair in pairs for row in seated(slots_of_specimens(pair))]
    rows.sort(key=lambda row: draw(row[0].key, "order"))
    return [vote_row(*row) for row in rows]


def vote_row(slot: Slot, left: str, right: str) -> Row:
    """Return one line of the file; ``a`` is the left side and ``b`` the right one."""
    outcome = verdict(slot, left, right)
    row = {
        "prompt": slot.prompt,
        "a": left,
        "b": right,
        "outcome": outcome,
        "rater": slot.rater.name,
        "kind": "person",
    }
    return row | reasons(slot, {"a": left, "b": right}, outcome)


def reasons(slot: Slot, sides: Mapping[str, str], outcome: str) -> Row:
    """Return the rater's reasons for the better answer and against the other, if any."""
    if outcome == "tie" or draw(slot.key, "explained") >= SHARE_EXPLAINED:
        return {}
    better = {"left": "a", "right": "b"}.get(outcome)
    fields = {}
    for side, candidate in sides.items():
        tags = (STRENGTHS if side == better else FAULTS)[candidate]
        chance = draw(slot.key, side, "reason")
        if chance < 0.75:
            fields[f"reasons_{side}"] = [tags[0] if chance < 0.5 else tags[1]]
    return fields


def make_jury_votes() -> list[Row]:
    """Return the jury's votes on every second prompt, by quality with a little noise."""
    rows = []
    for number, (first, second) in enumerate(combinations(CANDIDATES, 2)):
        for index, prompt in enumerate(list(QUALITY)[number % 2 :: 2]):
            left, right = (first, second) if index % 2 == 0 else (second, first)
            lead = quality(prompt, left) - quality(prompt, right)
            lead += 0.8 * noise("jury", prompt, left, right)
            outcome = "tie" if abs(lead) < 0.5 else "left" if lead > 0 else "right"
            row = {"prompt": prompt, "a": left, "b": right, "outcome": outcome}
            rows.append(row | {"rater": JURY, "kind": "jury"})
    return rows


def as_jsonl(rows: Iterable[Row]) -> bytes:
    """Return the rows as JSON Lines in UTF-8, with the same line endings on every system."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


if __name__ == "__main__":
    (FOLDER / "votes.jsonl").write_bytes(as_jsonl(make_votes()))
    (FOLDER / "jury_votes.jsonl").write_bytes(as_jsonl(make_jury_votes()))
