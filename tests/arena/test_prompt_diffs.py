"""Differences between two versions of a prompt: lines and words, with bounded work."""

import random
import time
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.prompting.differences import (
    DiffLine,
    Piece,
    _alike_segments,
    _Work,
    diff_of,
    merged_diff,
)

TEXTS = st.lists(st.sampled_from(["a", "b b", "c, d", "", "  e", "the cat", "é\u2028f"])).map(
    "\n".join
)


def told(before: str, after: str, context: int = 3) -> list[str]:
    """Write a diff down: a mark for the kind of line, [...] around the changed words."""
    marks = {"same": " ", "added": "+", "removed": "-", "gap": "@"}
    return [
        marks[line.kind]
        + (str(line.left_out) if line.kind == "gap" else "")
        + "".join(f"[{piece.text}]" if piece.changed else piece.text for piece in line.pieces)
        for line in diff_of(before, after, context=context)
    ]


def test_changed_lines_stand_in_place_with_their_changed_words():
    before = "You are a helper.\nBe kind.\nAnswer in one sentence."
    after = "You are a helper.\nBe very kind.\nAnswer in two sentences."
    assert told(before, after) == [
        " You are a helper.",
        "-Be kind.",
        "-Answer in [one sentence].",
        "+Be [very ]kind.",
        "+Answer in [two sentences].",
    ]


def test_lines_added_and_removed_alone_have_no_marked_words():
    assert told("a\nb\nc", "a\nc\nd") == [" a", "-b", " c", "+d"]
    assert told("", "a\nb") == ["+a", "+b"]
    assert told("a\n", "") == ["-a", "-"]


def test_lines_with_little_in_common_differ_as_a_whole():
    assert told("alpha beta gamma delta", "one two gamma three four") == [
        "-alpha beta gamma delta",
        "+one two gamma three four",
    ]


def test_far_from_changes_lines_are_left_out_and_counted():
    lines = [str(number) for number in range(20)]
    changed = [*lines[:10], "new", *lines[10:]]
    assert told("\n".join(lines), "\n".join(changed), context=2) == [
        "@8", " 8", " 9", "+new", " 10", " 11", "@8",
    ]  # fmt: skip
    assert told("\n".join(lines), "\n".join(changed), context=0) == ["@10", "+new", "@10"]


def test_nothing_is_left_out_where_two_contexts_meet():
    assert told("a\nb\nc\nd", "x\nb\nc\ny", context=1) == ["-a", "+x", " b", " c", "-d", "+y"]


def test_when_the_work_is_spent_what_is_left_counts_as_changed():
    old, new = ["a", "same", "b"], ["c", "same", "d"]
    assert len(list(_alike_segments(old, new, _Work(100), None))) == 3
    assert list(_alike_segments(old, new, _Work(0), None)) == [(0, 3, 0, 3)]


def test_equal_texts_have_no_diff_however_their_lines_end():
    assert diff_of("a\nb", "a\r\nb") == []
    assert diff_of("", "") == []


def test_the_text_of_a_line_is_that_of_its_pieces():
    line = DiffLine("added", (Piece("a "), Piece("b", changed=True)))
    assert line.text == "a b"


@given(TEXTS, TEXTS, st.integers(0, 3))
def test_both_texts_can_be_read_off_the_diff(before, after, context):
    whole = diff_of(before, after, context=10_000)
    if whole:
        old = [line.text for line in whole if line.kind != "added"]
        new = [line.text for line in whole if line.kind != "removed"]
        assert ("\n".join(old), "\n".join(new)) == (before, after)
    short = diff_of(before, after, context=context)
    counts = [sum(line.left_out or line.kind == "same" for line in diff) for diff in (short, whole)]
    assert counts[0] == counts[1]
    assert [line for line in short if line.kind in ("added", "removed")] == [
        line for line in whole if line.kind in ("added", "removed")
    ]


@given(TEXTS, TEXTS, st.integers(0, 20))
def test_with_little_work_segments_are_coarser_and_right(before, after, work):
    old, new = before.split("\n"), after.split("\n")
    spans = list(_alike_segments(old, new, _Work(work), None))
    assert [item for i, j, _, _ in spans for item in old[i:j]] == old
    assert [item for _, _, m, n in spans for item in new[m:n]] == new


@cache
def hostile() -> dict[str, tuple[str, str]]:
    draw = random.Random(5)
    numbers = [str(draw.randrange(400)) for _ in range(50_000)]
    marks = [draw.choice("!?.,;") for _ in range(200_000)]
    words = [draw.choice(("the", "a", "of", "cat", "dog", "run", "sit")) for _ in range(60_000)]
    return {
        "lines": ("\n".join(numbers[:25_000]), "\n".join(numbers[25_000:])),
        "marks": ("".join(marks[:100_000]), "".join(marks[100_000:])),
        "words": (" ".join(words[:30_000]), " ".join(words[30_000:])),
        "reversed": ("\n".join(map(str, range(17_000))), "\n".join(map(str, range(17_000, 0, -1)))),
        "blocks": tuple(
            "\n".join(f"same{number}\n" + ones * 9 for number in range(1_400))
            for ones in ("a a a ", "b a c a ")
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "marks", "words", "reversed", "blocks"])
def test_hostile_texts_of_full_length_take_seconds(kind):
    before, after = (text[:100_000] for text in hostile()[kind])
    started = time.process_time()
    found = diff_of(before, after, context=10**6)
    assert time.process_time() - started < 6
    assert "\n".join(line.text for line in found if line.kind != "added") == before


def test_a_long_prompt_with_many_edits_keeps_its_unchanged_lines():
    before = [f"Rule {number}: answer kindly and briefly." for number in range(1_500)]
    after = [
        line.replace("kindly", "well") if number % 9 == 0 else line
        for number, line in enumerate(before)
    ]
    found = diff_of("\n".join(before), "\n".join(after))
    removed = [line for line in found if line.kind == "removed"]
    assert len(removed) == 167
    assert all(
        [piece.text for piece in line.pieces if piece.changed] == ["kindly"] for line in removed
    )


def test_two_texts_are_merged_into_one_with_whole_words_marked() -> None:
    before = "Be brief, leave out introductions and closing remarks, and drop no fact."
    after = "Be brief, leave out introductions, greet people, and drop no fact. Be kind."

    pieces = merged_diff(before, after)
    assert "".join(text for kind, text in pieces if kind != "added") == before
    assert "".join(text for kind, text in pieces if kind != "removed") == after
    assert ("removed", " and closing remarks") in pieces
    assert all(kind != "same" or text.strip() for kind, text in pieces)
    assert merged_diff("same", "same") == [("same", "same")]
    assert merged_diff("", "new") == [("added", "new")]


def test_texts_with_few_words_in_common_follow_one_another() -> None:
    pieces = merged_diff("One two three, four five six.", "Nothing of this is like the other.")

    assert [kind for kind, _ in pieces] == ["removed", "added"]
