"""What a call is about can be written and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.services import subjects
from judges.services.subjects import CallTarget, read_subject

IDS = st.integers(1, 10**9)


@given(st.lists(IDS, min_size=1, max_size=8))
def test_answers_are_named_in_the_order_in_which_they_are_shown(shown: list[int]) -> None:
    written = subjects.of_responses(shown)
    assert read_subject(written) == CallTarget(shown=tuple(shown))
    assert len(written) <= 200


@given(IDS)
def test_notes_and_items_are_distinguished(number: int) -> None:
    assert read_subject(subjects.of_note(number)) == CallTarget(prompt=number)
    assert read_subject(subjects.of_item(number, (2, 1))) == CallTarget(item=number, shown=(2, 1))
    assert read_subject(subjects.of_item_note(number)) == CallTarget(item=number)
    assert read_subject(subjects.of_item_note(number)).is_note


@given(IDS, IDS)
def test_a_pair_has_one_key_whatever_its_order(first: int, second: int) -> None:
    assert subjects.key_of_pair(first, second) == subjects.key_of_pair(second, first)


@pytest.mark.parametrize("nonsense", ["", "a,b", "item:x:1", "note:"])
def test_what_this_module_did_not_write_is_refused(nonsense: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        read_subject(nonsense)
