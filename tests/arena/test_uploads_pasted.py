"""Prompts pasted into a box; no database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.uploads import UploadRefused, parse_pasted


def read(text: str) -> list[tuple[int, str]]:
    return [(row.row, row.text) for row in parse_pasted(text).rows]


def test_each_line_is_a_prompt():
    assert read("  Why?\r\n\r\nHow, and when?\n") == [(1, "Why?"), (3, "How, and when?")]


def test_lines_of_dashes_part_prompts_of_several_lines():
    text = "---\n\nRead this:\n\n  it is short\n--- \nWhy?\n-----\n\n---\n- not a rule --- \n"
    assert read(text) == [(3, "Read this:\n\n  it is short"), (7, "Why?"), (11, "- not a rule ---")]


def test_the_same_prompt_twice_is_a_problem():
    table = parse_pasted("Why?\nHow?\nWhy?")
    assert len(table.rows) == 2
    assert [(one.row, one.sentence) for one in table.problems] == [
        (3, "Row 1 has this prompt already.")
    ]


@pytest.mark.parametrize("text", ["", " \r\n\t", "---", "---\n\n---\n"])
def test_nothing_pasted_is_refused(text):
    with pytest.raises(UploadRefused, match="There is no prompt"):
        parse_pasted(text)


def test_too_many_prompts_are_refused():
    assert len(parse_pasted("a\nb\nc", at_most_rows=3).rows) == 3
    with pytest.raises(UploadRefused, match="more than 2 rows"):
        parse_pasted("a\nb\nc", at_most_rows=2)


@given(st.text() | st.lists(st.sampled_from(["a", "\n", "---", "\r", " ", "\0"])).map("".join))
def test_whatever_is_pasted_is_read_or_refused(text):
    try:
        table = parse_pasted(text)
    except UploadRefused:
        return
    assert table.rows or table.problems
    for row in table.rows:
        assert row.text in text.replace("\r\n", "\n").replace("\r", "\n")
