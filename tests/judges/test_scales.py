"""Scales: integers or labels, from worst to best."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ((), "2 to 100 entries, not 0"),
        (("only",), "not 1"),
        (tuple(f"label {n}" for n in range(101)), "not 101"),
        (("good", "GOOD"), "differ in nothing"),
        (("good", "ｇｏｏｄ"), "differ in nothing"),
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
        {"low": 0, "high": 100},
        {"low": 0, "high": 10**30},
        {"labels": "ab"},
        {"labels": ["a", "b"], "more": 1},
    ],
)
def test_what_is_no_scale_is_refused(facts: Any) -> None:
    with pytest.raises(ScaleError):
        Scale.from_json(facts)


def test_an_integer_scale_has_no_holes() -> None:
    with pytest.raises(ScaleError, match="every integer"):
        Scale(("1", "3"), is_integer=True)
