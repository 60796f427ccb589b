"""Cells of our CSV files that a spreadsheet would run are quoted; numbers are not."""

import pytest

from arena.validation import escape_cells

SIGNS = "=+-@＝＋－＠﹦"
UNSEEN = ("", " ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\n", " \u200d ", "\x0b")


@pytest.mark.parametrize("before", UNSEEN)
@pytest.mark.parametrize("sign", SIGNS)
def test_whatever_may_be_a_formula_is_quoted(before: str, sign: str) -> None:
    cell = f'{before}{sign}HYPERLINK("http://x")'
    assert escape_cells([cell]) == [f"'{cell}"]


@pytest.mark.parametrize("cell", ["\tx", "\rx", "-3+1", "+1 2", "-", "=1", " -3", "-３"])
def test_so_is_what_only_begins_like_a_number(cell: str) -> None:
    assert escape_cells([cell]) == [f"'{cell}"]


@pytest.mark.parametrize(
    "cell",
    ["-3", "+4", "-0.25", "1e-9", "-2.5E+3", -3, -0.5, None, True, "", " ", "a=b", "é", "3-1"],
)
def test_numbers_and_words_stay(cell: object) -> None:
    assert escape_cells([cell]) == [cell]
