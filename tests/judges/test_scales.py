"""Scales: integers or labels, from worst to best."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.core.parsing import parse_direct
from judges.core.rubric import Scale, ScaleError

GRADES = Scale.of_labels(("bad", "fair", "good"))


def test_an_integer_scale_scores_what_it_says() -> None:
    scale = Scale.integers(-1, 2)
    assert scale.labels == ("-1", "0", "1", "2")
    assert (scale.low, scale.high, scale.score_of("0")) == (-1.0, 2.0, 0.0)
    assert scale.describe() == "an integer between -1 and 2"


def test_labels_score_their_place_from_one_upward() -> None:
    assert [GRADES.score_of(label) for label in GRADES.labels] == [1.0, 2.0, 3.0]
    assert (GRADES.low, GRADES.high) == (1.0, 3.0)
    assert GRADES.describe() == "one of: bad, fair, good"


def test_a_label_that_is_not_on_the_scale_has_no_score() -> None:
    with pytest.raises(ScaleError, match="'great' is not on the scale: one of: bad, fair, good"):
        GRADES.score_of("great")


@given(st.integers(-1000, 1000), st.integers(1, 99))
def test_any_integer_scale_survives_its_json_and_rises(low: int, steps: int) -> None:
    scale = Scale.integers(low, low + steps)
    assert Scale.from_json(scale.to_json()) == scale
    scores = [scale.score_of(label) for label in scale.labels]
    assert scores == sorted(set(scores))


def test_labels_survive_their_json() -> None:
    assert Scale.from_json(GRADES.to_json()) == GRADES


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ((), "2 to 101 entries, not 0"),
        (("only",), "not 1"),
        (tuple(f"label {n}" for n in range(102)), "not 102"),
        (("good", "GOOD"), "look the same"),
        (("good", "ｇｏｏｄ"), "look the same"),
        (("good", "bad\nworse"), "not one line"),
        (("good", "bad\u2028worse"), "not one line"),
        (("good", ""), "not one line"),
        (("good", " bad"), "not one line"),
        (("good", "b\u200bad"), "not one line"),
        (("good", "***"), "not one line"),
        (("good", 3), "not one line"),
    ],
)
def test_labels_that_a_reply_could_not_name_are_refused(labels: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ScaleError, match=says):
        Scale.of_labels(labels)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        [],
        None,
        {"low": 1},
        {"low": 1, "high": 5, "labels": ["a", "b"]},
        {"low": 1, "high": "5"},
        {"low": 1.0, "high": 5},
        {"low": False, "high": True},
        {"low": 5, "high": 1},
        {"low": 1, "high": 1},
        {"low": 0, "high": 101},
        {"low": 0, "high": 10**30},
        {"low": 0, "high": 10, "step": 0},
        {"low": 0, "high": 10, "step": -1},
        {"low": 0, "high": 10, "step": 0.3},
        {"low": 0, "high": 10, "step": 0.01},
        {"low": 0, "high": 10, "step": "0.5"},
        {"low": 0, "high": float("inf"), "step": 1},
        {"low": 5, "high": 1, "step": 0.5},
        {"labels": "ab"},
        {"labels": ["a", "b"], "more": 1},
    ],
)
def test_an_invalid_scale_is_refused(facts: Any) -> None:
    with pytest.raises(ScaleError):
        Scale.from_json(facts)


def test_an_integer_scale_has_no_holes() -> None:
    with pytest.raises(ScaleError, match="every integer"):
        Scale(("1", "3"), is_integer=True)


TENTHS = Scale.from_json({"low": 0, "high": 10, "step": 0.1})
HALVES = Scale.numbers(1, 5, 0.5)


def test_a_scale_with_steps_scores_its_numbers() -> None:
    assert HALVES.labels == ("1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5", "5")
    assert [HALVES.score_of(label) for label in ("1", "4.5")] == [1.0, 4.5]
    assert HALVES.describe() == "a number between 1 and 5, in steps of 0.5"
    assert (len(TENTHS.labels), TENTHS.low, TENTHS.high) == (101, 0.0, 10.0)
    for scale in (HALVES, TENTHS):
        assert Scale.from_json(scale.to_json()) == scale


FORMS = ("{}", "**{}**", "{}.", "{}/10", "{} out of 10", "Score {}")


@pytest.mark.parametrize("form", FORMS)
def test_every_number_of_the_scale_is_read_however_it_is_decorated(form: str) -> None:
    spellings = TENTHS.spellings
    for written, label in spellings.items():
        reply = f"Reasons, 3 of them.\nVERDICT-abcdef12: {form.format(written)}"
        read = parse_direct(reply, "abcdef12", tuple(spellings))
        assert read.label is not None, reply
        assert spellings[read.label] == label


@pytest.mark.parametrize("verdict", ["4.25", "5.5", "6", "-1", "4.5 or 5", "3-4", "4,7"])
def test_what_is_not_on_the_scale_is_not_read(verdict: str) -> None:
    read = parse_direct(f"VERDICT-abcdef12: {verdict}", "abcdef12", tuple(HALVES.spellings))
    assert (read.state, read.label) == ("unreadable", None)
