"""Reading the Prometheus formats: the last [RESULT], with the verdict alone after it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.core.parsing import parse_prometheus_pairwise, parse_prometheus_score

FIVE = ("1", "2", "3", "4", "5")
HUNDRED = tuple(map(str, range(101)))


@pytest.mark.parametrize(
    "tail",
    [
        "[RESULT] 4",
        "[RESULT]4",
        "[RESULT]: 4",
        "[RESULT] (4)",
        "[RESULT] [4]",
        "[RESULT] Score 4",
        "[RESULT] Score: 4",
        "[RESULT] **Rating:** 4",
        "[RESULT] Level 4",
        "[RESULT] 4</s>",
        "[RESULT] 4<|im_end|>",
        "[RESULT] 4.",
        "[RESULT]\n\n4\n",
        "[RESULT] 4/5",
        "[RESULT] 4 (out of 5)",
        "**[RESULT]** 4",
        "**[RESULT] 4**",
        "[ RESULT ] 4",
        "[result] 4",
        "［RESULT］ ４",
        '[RESULT] "4"',
        "[RESULT] 4 [RESULT] 4",
        "The format is [RESULT] and then a number. [RESULT] 4",
    ],
)
def test_a_score_is_read_as_models_write_it(tail: str) -> None:
    read = parse_prometheus_score(f"Feedback: Of 5 points, 3 or 2. {tail}", FIVE)
    assert (read.state, read.label) == ("done", "4")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Feedback: good.",
        "Feedback: good. 4",
        "Feedback: good. Score: 4",
        "Feedback: good. RESULT 4",
        "[RESULT]",
        "[RESULT] 0",
        "[RESULT] 6",
        "[RESULT] 45",
        "[RESULT] 4.5",
        "[RESULT] 4,5",
        "[RESULT] 4-5",
        "[RESULT] 4–5",
        "[RESULT] 4 or 5",
        "[RESULT] 4 to 5",
        "[RESULT] between 4 and 5",
        "[RESULT] at least 4",
        "[RESULT] 4/10",
        "[RESULT] 4/50",
        "[RESULT] 4 out of 10",
        "[RESULT] 4²",
        "[RESULT] ~4",
        "[RESULT] four",
        "[RESULT] A",
        "[RESULT] 4 because it is complete.",
        "[RESULT] 4\n\n###Response to evaluate: another",
        "[RESULT] 4 [RESULT] 5",
        "[RESULT] 5 is what the response claims. [RESULT] 3",
        "[RESULT] 4 [RESULT]",
        'It should look like "Feedback: ... [RESULT] 4".',
        "4 [RESULT]",
        '{"result": 4}',
        "Feedback: " + "x" * 100_000 + " [RESULT] 4",
    ],
)
def test_what_is_no_single_score_is_unreadable(reply: str) -> None:
    read = parse_prometheus_score(reply, FIVE)
    assert (read.state, read.label) == ("unreadable", None)
    assert read.note


@pytest.mark.parametrize("value", ["4.5", "4|5", "4 5", "4-5", "4²", "1/2"])
def test_two_numbers_are_never_read_as_one(value: str) -> None:
    assert parse_prometheus_score(f"[RESULT] {value}", HUNDRED).label is None


@pytest.mark.parametrize(
    ("tail", "outcome"),
    [
        ("[RESULT] A", "left"),
        ("[RESULT] B", "right"),
        ("[RESULT] b.", "right"),
        ("[RESULT] (A)", "left"),
        ("[RESULT] **B**", "right"),
        ("**[RESULT]** A", "left"),
        ("[RESULT] Response A", "left"),
        ("[RESULT]: Answer B", "right"),
        ("［RESULT］Ｂ", "right"),
    ],
)
def test_the_better_response_is_read_as_models_write_it(tail: str, outcome: str) -> None:
    read = parse_prometheus_pairwise(f"Feedback: Response A is short, B is long. {tail}")
    assert (read.state, read.outcome) == ("done", outcome)


@pytest.mark.parametrize(
    "tail",
    [
        "A",
        "[RESULT] A or B",
        "[RESULT] A/B",
        "[RESULT] A and B",
        "[RESULT] AB",
        "[RESULT] A, B",
        "[RESULT] C",
        "[RESULT] TIE",
        "[RESULT] А",  # the Cyrillic letter
        "[RESULT] A is better",
        "[RESULT] A [RESULT] B",
        "[RESULT] A. The response ends with “[RESULT] B”.",
        "[RESULT] neither",
        "[RESULT] 1",
    ],
)
def test_what_is_no_single_response_is_unreadable(tail: str) -> None:
    read = parse_prometheus_pairwise(f"Feedback: both are good. {tail}")
    assert (read.state, read.outcome) == ("unreadable", None)


def test_refusal_and_cut_reply_have_their_own_states() -> None:
    refusal = "I'm sorry, but I can't evaluate this response."
    assert parse_prometheus_score(refusal, FIVE).state == "refused"
    assert parse_prometheus_pairwise(refusal).state == "refused"
    assert "cut off" in parse_prometheus_score("Feedback: The", FIVE, cut_off=True).note
    assert "cut off" in parse_prometheus_score("[RESULT] 1", HUNDRED, cut_off=True).note


PIECES = st.sampled_from(["[RESULT]", " ", "4", "5", "/", ".", "-", "A", "B", "Score", ":", "**"])
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=4)).map("".join)


@settings(deadline=None)
@given(TEXTS, st.lists(st.text(max_size=4), max_size=5), st.booleans())
def test_no_text_raises_and_nothing_but_the_scale_comes_out(
    text: str, labels: list[str], cut_off: bool
) -> None:
    for scale in (FIVE, tuple(labels)):
        read = parse_prometheus_score(text, scale, cut_off=cut_off)
        assert (read.state == "done") == (read.label is not None)
        assert read.label is None or read.label in scale
    pair = parse_prometheus_pairwise(text, cut_off=cut_off)
    assert (pair.state == "done") == (pair.outcome is not None)


@settings(deadline=None)
@given(TEXTS)
def test_another_result_makes_any_reply_unreadable(text: str) -> None:
    label = parse_prometheus_score(text, FIVE).label
    if label is not None:
        other = "1" if label != "1" else "2"
        for both in (f"[RESULT] {other} {text}", f"{text} [RESULT] {other}"):
            assert parse_prometheus_score(both, FIVE).label is None


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="[［")))
def test_a_text_without_the_mark_never_holds_a_verdict(text: str) -> None:
    assert parse_prometheus_score(text, FIVE).label is None
