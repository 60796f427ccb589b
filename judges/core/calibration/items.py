"""What is calibrated on: an item with people's labels and what the judge made of it."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

SIDES = ("left", "right")
OUTCOMES = (*SIDES, "tie")
LABELS = (*OUTCOMES, "both_bad")
UNSETTLED = ("abstained", "unreadable", "refused", "too_long", "failed")
PAIR_STATES = ("voted", *UNSETTLED)
SCORE_STATES = ("done", *UNSETTLED)


@dataclass(frozen=True)
class PairItem:
    """Two responses with fixed sides, labelled by people and judged in both orders.

    ``key``: unique among the items; ``cluster``: the prompt; ``category``: of the prompt
    ``labels``: (rater, outcome) of people; an outcome is left, right, tie or both_bad
    ``verdict``: the judge's settled outcome, None unless ``state`` is "voted"
    ``forward``, ``reverse``: what it said with left shown first, and with right shown first, both
        told in the item's own left and right; None where there was no reading
    ``length_left``, ``length_right``: of the responses, in characters
    ``repeats``: what further runs of the same judge settled on
    ``own_family``: the side whose response the judge's own model family wrote

    Raises ValueError with a sentence that names the item.
    """

    key: str
    cluster: str
    category: str
    labels: tuple[tuple[str, str], ...]
    verdict: str | None
    state: str
    forward: str | None
    reverse: str | None
    length_left: int
    length_right: int
    repeats: tuple[str | None, ...] = ()
    own_family: str | None = None

    def __post_init__(self) -> None:
        _check_state(self.key, self.state, PAIR_STATES, self.verdict is not None)
        _check_raters(self.key, self.labels)
        _check_known(self.key, "label", [outcome for _, outcome in self.labels], LABELS)
        told = (self.verdict, self.forward, self.reverse, *self.repeats)
        _check_known(self.key, "verdict", [said for said in told if said is not None], OUTCOMES)
        if self.own_family not in (None, *SIDES):
            raise ValueError(f"Item {self.key}: own_family is left, right or None.")
        if min(self.length_left, self.length_right) < 0:
            raise ValueError(f"Item {self.key}: a length must not be negative.")

    @cached_property
    def people(self) -> tuple[str, ...]:
        """People's outcomes three ways: both_bad prefers neither side, so it counts as a tie."""
        return tuple("tie" if said == "both_bad" else said for _, said in self.labels)

    @cached_property
    def longer(self) -> str:
        """What "the longer answer wins" says; a tie where both are equally long."""
        if self.length_left == self.length_right:
            return "tie"
        return "left" if self.length_left > self.length_right else "right"


@dataclass(frozen=True)
class ScoreItem:
    """One response, scored by people and by the judge.

    ``labels``: (rater, score) of people; ``score``: the judge's, None unless ``state`` is "done"
    ``length``: of the response, in characters; ``repeats``: scores of further runs of the judge
    ``key``, ``cluster``, ``category``: as for `PairItem`

    Raises ValueError with a sentence that names the item.
    """

    key: str
    cluster: str
    category: str
    labels: tuple[tuple[str, float], ...]
    score: float | None
    state: str
    length: int
    repeats: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        _check_state(self.key, self.state, SCORE_STATES, self.score is not None)
        _check_raters(self.key, self.labels)
        told = (*self.people, self.score, *self.repeats)
        if not all(math.isfinite(score) for score in told if score is not None):
            raise ValueError(f"Item {self.key}: a score must be a finite number.")
        if self.length < 0:
            raise ValueError(f"Item {self.key}: a length must not be negative.")

    @cached_property
    def people(self) -> tuple[float, ...]:
        """People's scores."""
        return tuple(score for _, score in self.labels)


def decisive(outcomes: Iterable[str | None]) -> list[str]:
    """The outcomes that prefer a side."""
    return [outcome for outcome in outcomes if outcome in SIDES]


def majority(outcomes: Sequence[str]) -> tuple[str, ...]:
    """The one outcome that more people chose than any other; empty where none leads alone."""
    leading = Counter(outcomes).most_common(2)
    if not leading or (len(leading) == 2 and leading[0][1] == leading[1][1]):
        return ()
    return (leading[0][0],)


def check_keys(keys: Iterable[str]) -> None:
    """Refuse two items of one key: one of them would be counted twice."""
    repeated = [key for key, times in Counter(keys).items() if times > 1]
    if repeated:
        raise ValueError(f"Item {repeated[0]} occurs more than once.")


def _check_state(key: str, state: str, known: Sequence[str], settled: bool) -> None:
    if state not in known:
        raise ValueError(f"Item {key}: the state {state!r} is none of {', '.join(known)}.")
    if settled != (state == known[0]):
        raise ValueError(f"Item {key}: there is a verdict where, and only where, it is {known[0]}.")


def _check_raters(key: str, labels: Sequence[tuple[str, object]]) -> None:
    if len({rater for rater, _ in labels}) < len(labels):
        raise ValueError(f"Item {key}: one rater labelled it more than once.")


def _check_known(key: str, name: str, outcomes: Iterable[str], known: Sequence[str]) -> None:
    for outcome in outcomes:
        if outcome not in known:
            raise ValueError(f"Item {key}: the {name} {outcome!r} is none of {', '.join(known)}.")
