"""What people and judges are shown of a text: thought apart from what is said, pictures named."""

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.checks import Rule
from arena.self_identification import self_identifies
from arena.shown_text import as_read, name_pictures, parts_of, thought_in, without_thought

PIECES = [
    "<think>",
    "</think>",
    "<THINKING>",
    "</thinking>",
    "```",
    "~~~",
    "`",
    "\n",
    " ",
    "\t",
    "a",
]
PIECES += ["![c](", "<img src='", "data:image/png;base64,", "AAAA", "=", ")", "'>", "> ", "    "]
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text()


@pytest.mark.parametrize(
    ("answer", "thought", "said"),
    [
        ("<think>Hm.</think>\n\nYes.", "Hm.", "Yes."),
        (" \n\t<think>\nHm.\n</think> Yes.", "Hm.", "Yes."),
        ("<THINKING>Hm.</Thinking>Yes.", "Hm.", "Yes."),
        ("Let me see.\n</think>\n\nYes.", "Let me see.", "Yes."),
        ("Let me see.</think>Yes.", "Let me see.", "Yes."),
        ("</think>Yes.", "", "Yes."),
        ("<think>\n\n</think>\n\nYes.", "", "Yes."),
        ("One.\n<think>Hm.</think>\nTwo.", "Hm.", "One.\n\nTwo."),
        ("<think>a</think>\n<think>b</think> Yes.", "a\n\nb", "Yes."),
        ("<think>An ``` unclosed fence</think>Yes.", "An ``` unclosed fence", "Yes."),
        ("<think>The tag <think> opens it.</think>Yes.", "The tag <think> opens it.", "Yes."),
        ("```\ncode\n```\n<think>Hm.</think>\nYes.", "Hm.", "```\ncode\n```\n\nYes."),
    ],
)
def test_a_thought_is_told_from_what_is_said(answer: str, thought: str, said: str) -> None:
    assert (thought_in(answer), without_thought(answer)) == (thought, said)


@pytest.mark.parametrize(
    "answer",
    [
        "No tag at all.",
        "```html\n<think>Hm.</think>\n```\nThat is it.",
        "~~~~\n~~~\n<think>Hm.</think>\n~~~~\nThat is it.",
        "1. A list:\n\n    ```\n    </think>\n    ```\n",
        "    <p>\n    <think>Hm.</think>\n",
        "`<think>Hm.</think>` is how it looks.",
        "Write `</think>` at its end.",
        "The tags <think> and </think> are read by R1.",
        "> <think>Hm.</think>\n\nThat is a quote.",
        '<b title="<think>">x</b> </think>',
        "<thinker>Hm.</thinker> Yes.",
        "<think >Hm.</think > Yes.",
    ],
)
def test_what_is_about_the_tags_is_no_thought(answer: str) -> None:
    assert (thought_in(answer), without_thought(answer)) == ("", answer)


@pytest.mark.parametrize(
    "answer",
    [
        "<think>It goes on and",
        "<think>Hm.</think>",
        "Hm.</think>\n \n",
        "Yes.\n<think>But",
        "<think>",
    ],
)
def test_no_answer_becomes_empty_and_what_never_ends_is_no_thought(answer: str) -> None:
    assert (thought_in(answer), without_thought(answer)) == ("", answer)


@given(HOSTILE)
def test_nothing_is_lost(answer: str) -> None:
    assert "".join(part.text for part in parts_of(answer)) == answer
    assert bool(without_thought(answer).strip()) == bool(answer.strip())


@given(HOSTILE)
def test_the_thought_is_not_in_what_is_said(answer: str) -> None:
    said = "".join(part.text for part in parts_of(answer) if not part.is_thought)
    assert without_thought(answer) in (answer, said.lstrip())


@given(HOSTILE)
def test_named_pictures_stay_named(text: str) -> None:
    assert name_pictures(name_pictures(text)) == name_pictures(text)


PNG = "data:image/png;base64," + "iVBO" * 22_500


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            f"**It**:\n\n![c]({PNG})\n\n- done",
            "**It**:\n\n[image, PNG, 66 kB]\n\n- done",
        ),
        (f'![c](<{PNG}> "A title")', "[image, PNG, 66 kB]"),
        (f'<img alt="x" src="{PNG}" width=3/>', "[image, PNG, 66 kB]"),
        (f"<IMG SRC={PNG}>", "[image, PNG, 66 kB]"),
        (f"See {PNG}, please", "See [image, PNG, 66 kB], please"),
        ("data:image/svg+xml;charset=utf-8;base64,AAAA==", "[image, SVG, 3 B]"),
        ("DATA:IMAGE/X-ICON;BASE64,AAAAAAA=", "[image, ICON, 5 B]"),
        ("data:image/jpeg;base64," + "A" * 4_000_000, "[image, JPEG, 2.9 MB]"),
        (f"![c]({PNG}", "[image, PNG, 66 kB]"),
        (f"`url({PNG})`", "`url([image, PNG, 66 kB])`"),
        ("data:image/png;base64,", "data:image/png;base64,"),
        ("data:text/plain;base64,AAAA", "data:text/plain;base64,AAAA"),
        ("![c](https://example.org/a.png)", "![c](https://example.org/a.png)"),
    ],
)
def test_a_picture_is_named_by_its_format_and_size(text: str, shown: str) -> None:
    assert name_pictures(text) == shown


def test_judges_read_neither_thought_nor_base64() -> None:
    assert as_read(f"<think>{PNG}</think>![c]({PNG}) **c**") == "[image, PNG, 66 kB] **c**"


@pytest.mark.parametrize(
    "piece", [*PIECES, "<think></think>", "\n<think>", "</think>\n```\n", "<img "]
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("<think>", ""),
        ("x", "</think>x"),
        ("![", "](data:image/png;base64,"),
        ("<img ", " src=data:image/png;base64,A"),
        ("data:image/png;base64,", "!"),
    ],
)
def test_a_text_of_a_megabyte_takes_well_under_a_second(
    piece: str, before: str, after: str
) -> None:
    text = before + piece * (1_000_000 // len(piece)) + after
    started = thread_time()
    as_read(text)
    assert thread_time() - started < 0.9


def test_a_check_looks_at_the_answer_without_its_thought() -> None:
    answer = '<think>42 or 43?</think>\n{"n": 42}'
    assert Rule.parse("is-json").check(answer).passed
    assert Rule.parse("starts-with", "{").check(answer).passed
    assert not Rule.parse("contains", "43").check(answer).passed
    assert Rule.parse("word-count", "exactly 2").check(answer).passed


def test_a_name_in_a_thought_tells_nobody_unless_the_thought_is_read() -> None:
    answer = "<think>I am Claude.</think>Hello!"
    assert not self_identifies(answer)
    assert self_identifies(answer, reads_thought=True)
    assert self_identifies("<think>Hm.</think>I am Claude.")
