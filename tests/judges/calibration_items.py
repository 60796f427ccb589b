"""Labelled items for the tests of calibration."""

from typing import Any

from hypothesis import strategies as st

from judges.core.calibration.items import PAIR_STATES, SCORE_STATES, PairItem, ScoreItem

OUTCOMES = ["left", "right", "tie"]


def pair(key: Any, labels: str = "l", verdict: str | None = "left", **facts: Any) -> PairItem:
    """An item whose labels are letters: l, r, t(ie) and b(oth bad), one per person."""
    spelt = {"l": "left", "r": "right", "t": "tie", "b": "both_bad"}
    told = tuple((f"person-{i}", spelt[letter]) for i, letter in enumerate(labels))
    plain = {
        "cluster": str(key),
        "category": "all",
        "state": "voted" if verdict else "abstained",
        "forward": verdict,
        "reverse": verdict,
        "length_left": 20,
        "length_right": 10,
    }
    return PairItem(key=str(key), labels=told, verdict=verdict, **plain | facts)


def score(key: Any, labels: Any, given: float | None, **facts: Any) -> ScoreItem:
    """A response with a score per person."""
    told = tuple((f"person-{i}", float(value)) for i, value in enumerate(labels))
    plain = {
        "cluster": str(key),
        "category": "all",
        "state": "refused" if given is None else "done",
        "length": 100,
    }
    return ScoreItem(key=str(key), labels=told, score=given, **plain | facts)


@st.composite
def pairs(draw: Any, max_size: int = 25) -> list[PairItem]:
    reading = st.sampled_from([*OUTCOMES, None])
    items = []
    for key in range(draw(st.integers(0, max_size))):
        verdict = draw(reading)
        items.append(
            pair(
                key,
                draw(st.text("lrtb", max_size=4)),
                verdict,
                cluster=draw(st.sampled_from("abcdefg")),
                category=draw(st.sampled_from(["code", "essay"])),
                state="voted" if verdict else draw(st.sampled_from(PAIR_STATES[1:])),
                forward=draw(reading),
                reverse=draw(reading),
                length_left=draw(st.integers(0, 3)),
                length_right=draw(st.integers(0, 3)),
                repeats=tuple(draw(st.lists(reading, max_size=2))),
                own_family=draw(st.sampled_from([None, "left", "right"])),
            )
        )
    return items


@st.composite
def scores(draw: Any, max_size: int = 25) -> list[ScoreItem]:
    value = st.integers(1, 5).map(float)
    items = []
    for key in range(draw(st.integers(0, max_size))):
        given = draw(st.none() | value)
        items.append(
            score(
                key,
                draw(st.lists(value, max_size=3)),
                given,
                cluster=draw(st.sampled_from("abcdefg")),
                state="done" if given is not None else draw(st.sampled_from(SCORE_STATES[1:])),
                length=draw(st.integers(0, 5)),
                repeats=tuple(draw(st.lists(st.none() | value, max_size=2))),
            )
        )
    return items
