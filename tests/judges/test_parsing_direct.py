"""Reading a direct assessment: one label of the scale on the last line, or none at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.core.parsing import parse_direct

NONCE = "0f1e2d3c4b5a6978"
V = f"VERDICT-{NONCE}"
FIVE = ("1", "2", "3", "4", "5")
HUNDRED = tuple(map(str, range(101)))
BELOW_ZERO = ("-2", "-1", "0", "1", "2")
WORDS = ("bad", "Good", "Good enough", "n/a")


@pytest.mark.parametrize(
    ("reply", "labels", "label"),
    [
        (f"Because.\n{V}: 4", FIVE, "4"),
        (f"Because.\n**{V}: 4**", FIVE, "4"),
        (f"Because.\n{V}: [[4]].", FIVE, "4"),
        (f"Because.\n<{V}: 4>", FIVE, "4"),
        (f"Because.\n{V}: <4>", FIVE, "4"),
        (f"Because.\n> | `{V}` | : “4” |", FIVE, "4"),
        (f"Because.\n{V}： ４", FIVE, "4"),
        (f"Correctness 2, style 2.\n{V}: 4\n```\n---\n", FIVE, "4"),
        (f"I will write {V}: 4.\n{V}: 4", FIVE, "4"),
        (f"{V}: 10", HUNDRED, "10"),
        (f"{V}: 100", HUNDRED, "100"),
        (f"{V}: -1", BELOW_ZERO, "-1"),
        (f"{V}: −1", BELOW_ZERO, "-1"),
        (f"{V}: good", WORDS, "Good"),
        (f"{V}: GOOD ENOUGH.", WORDS, "Good enough"),
        (f"{V}: N/A", WORDS, "n/a"),
        (f"{V}: 4/5", FIVE, "4"),
        (f"{V}: 4 out of 5", FIVE, "4"),
        (f"{V}: Level 4", FIVE, "4"),
        (f"{V}: four (4)", FIVE, "4"),
        (f"{V}: 4 de 5", FIVE, "4"),
        (f"{V}: 4分", FIVE, "4"),
        (f"<score>{V}: 4</score>", FIVE, "4"),
        (f"{V}: I rate this answer 4.", FIVE, "4"),
        (f"{V}: 4 – good, but one inaccuracy about the date.", FIVE, "4"),
        (f"{V}: 4\n\nThe answer correctly explains all 3 laws.", FIVE, "4"),
        (f"{V}: 4\n\nA strong answer. With a source it would have been perfect.", FIVE, "4"),
        (f"{V}: Score: **4** ⭐", FIVE, "4"),
        (f"{V}: 4 points", FIVE, "4"),
        (f"{V}: 4.0", FIVE, "4"),
        (f"{V}: score of 4", FIVE, "4"),
        (f"{V}: 4 of 5 (good)", FIVE, "4"),
        (f"{V}: 4 – mostly correct", FIVE, "4"),
        (f"{V}: 4\n\nIt lacks an example, which keeps it from a 5.", FIVE, "4"),
        (f"{V}: 4\n\nIt could have been more specific.", FIVE, "4"),
        (f"{V}: 5\n\nExcellent answer, nothing is missing.", FIVE, "5"),
        (f"{V}: good, I hope this helps", WORDS, "Good"),
        (f"{V}: Good (2 of 4)", WORDS, "Good"),
        (f"{V}: Good (level 2)", WORDS, "Good"),
        (f"{V}: 4 (on the scale from 1 to 5)", FIVE, "4"),
        (f"{V}: 4\n\nThe answer covers 3 of the 4 requested aspects.", FIVE, "4"),
        (f"{V}: 4\n\nConfidence: 80%", FIVE, "4"),
        (f"{V}: a 4\n\nNo other answers were considered.", FIVE, "4"),
    ],
)
def test_a_label_is_read_and_spelled_as_the_scale_spells_it(
    reply: str, labels: tuple[str, ...], label: str
) -> None:
    read = parse_direct(reply, NONCE, labels)
    assert (read.state, read.label) == ("done", label)
    assert (read.outcome, read.order) == (None, None)


@pytest.mark.parametrize(
    ("value", "labels"),
    [
        ("", FIVE),
        ("0", FIVE),
        ("6", FIVE),
        ("45", FIVE),
        ("4.5", FIVE),
        ("4,5", FIVE),
        ("4-5", FIVE),
        ("4 or 5", FIVE),
        ("between 4 and 5", FIVE),
        ("4/10", FIVE),
        ("4/50", FIVE),
        ("4 to 7", FIVE),
        ("4.7", FIVE),
        ("4+", FIVE),
        ("4%", FIVE),
        ("4 and a half", FIVE),
        ("4 errors", FIVE),
        ("4 at best", FIVE),
        ("4 is too high", FIVE),
        ("4, minus a point for length", FIVE),
        ("4 以下", FIVE),
        ("4 because 2 of the facts are wrong", FIVE),
        ("<4", FIVE),
        (">4", FIVE),
        ("~4", FIVE),
        ("~~4~~", FIVE),
        ("-1", FIVE),
        ("four", FIVE),
        ("A", FIVE),
        ("4.5", HUNDRED),  # never 45, 4 or 5
        (".5", HUNDRED),
        ("1|2", HUNDRED),  # never 12
        ("1*2", HUNDRED),
        ("4²", HUNDRED),  # never 42
        ("1\x002", HUNDRED),
        ("1<2>", HUNDRED),
        ("2.", ()),
        ("goo", WORDS),
        ("good or bad", WORDS),
        ("good (level 3)", WORDS),
        ("4\n\nThe score should be 3.", FIVE),
        ("4\n\nFinal score: 5/5", FIVE),
        ("Good\n\nI mean bad.", WORDS),
        ("not good", WORDS),
    ],
)
def test_everything_else_is_unreadable(value: str, labels: tuple[str, ...]) -> None:
    read = parse_direct(f"Because.\n{V}: {value}", NONCE, labels)
    assert (read.state, read.label) == ("unreadable", None)
    assert read.note


def test_labels_alike_when_folded_are_never_guessed() -> None:
    assert parse_direct(f"{V}: 1", NONCE, ("①", "1")).state == "unreadable"


def test_repeated_instruction_lines_are_different_verdicts() -> None:
    repeated = "\n".join(f"{V}: {label}" for label in FIVE)
    assert "different" in parse_direct(repeated, NONCE, FIVE).note
    assert parse_direct(f"{repeated}\n{V}: 5", NONCE, FIVE).state == "unreadable"


def test_verdict_at_the_end_of_a_cut_reply_is_not_trusted() -> None:
    """It may have been the 1 of a 10."""
    read = parse_direct(f"Because.\n{V}: 1", NONCE, HUNDRED, cut_off=True)
    assert (read.state, read.label) == ("unreadable", None)
    assert "cut off" in read.note


PIECES = st.sampled_from([V, f"{V}: 4", f"{V}: 5", "\n", ": ", "4", "5", ".", "-", "²", "**", "<"])
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=5)).map("".join)


@settings(deadline=None)
@given(TEXTS, st.lists(st.text(max_size=4), max_size=5), st.booleans())
def test_no_text_raises_and_a_label_is_always_one_of_the_scale(
    text: str, labels: list[str], cut_off: bool
) -> None:
    for scale in (FIVE, tuple(labels)):
        read = parse_direct(text, NONCE, scale, cut_off=cut_off)
        assert (read.state == "done") == (read.label is not None)
        assert read.label is None or read.label in scale


@settings(deadline=None)
@given(TEXTS)
def test_a_verdict_before_it_changes_no_verdict(text: str) -> None:
    read = parse_direct(text, NONCE, FIVE)
    if read.label is not None:
        other = "1" if read.label != "1" else "2"
        assert parse_direct(f"{V}: {other}\n{text}", NONCE, FIVE).label in (read.label, None)


@settings(deadline=None)
@given(st.integers(-50, 150), st.sampled_from(["", "**", "`", '"', "[", "("]), st.text(max_size=30))
def test_a_score_reads_back_as_itself(score: int, mark: str, reasoning: str) -> None:
    labels = tuple(map(str, range(-50, 151)))
    reply = f"{reasoning.replace(NONCE, '')}.\n{mark}{V}: {score}{mark}"
    assert parse_direct(reply, NONCE, labels).label == str(score)
