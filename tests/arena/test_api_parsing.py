"""Bodies of requests: each is JSON that can be stored, or refused with a sentence."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.exceptions import ParseError

from arena.api.core.bodies import BULK_BODY, DEEPEST, parsed
from arena.api.core.errors import TooLarge
from arena.api.core.serializers import Dollars
from arena.files.reader import holds_more_values
from arena.files.tables import AT_MOST_ROWS
from arena.validation import MOST_VARIABLES

STORABLE = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NUMBERS = st.integers(-(10**290), 10**290) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | STORABLE,
    lambda inner: st.lists(inner) | st.dictionaries(STORABLE, inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_can_be_kept_is_read_as_it_was_meant(value: Any) -> None:
    assert parsed(json.dumps(value).encode()) == value


@given(st.binary() | st.text().map(str.encode) | VALUES.map(lambda v: repr(v).encode()))
def test_nothing_but_a_refusal_is_raised(body: bytes) -> None:
    try:
        value = parsed(body)
    except ParseError:
        return
    json.dumps(value).encode()


@given(STORABLE, st.sampled_from(["\\u0000", "\\ud800", "\\udfff"]), STORABLE)
def test_a_text_that_cannot_be_kept_is_refused_as_a_name_too(
    before: str, bad: str, after: str
) -> None:
    text = json.dumps(before)[:-1] + bad + json.dumps(after)[1:]
    for body in (text, f"[{text}]", f'{{"a": {text}}}', f"{{{text}: 1}}"):
        with pytest.raises(ParseError):
            parsed(body.encode())


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_has_an_end(opening: str) -> None:
    closing = {"[": "]", '{"a":': "}"}[opening]

    def nested(levels: int) -> bytes:
        return (opening * levels + "1" + closing * levels).encode()

    parsed(nested(DEEPEST - 1))
    for levels in (DEEPEST, 900, 100_000):
        with pytest.raises(ParseError):
            parsed(nested(levels))


def values_in(value: Any) -> int:
    """Count as `holds_more_values` does: lists, objects, and commas before all but the first."""
    if not isinstance(value, list | dict):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(len(inner) - 1, 0) + sum(map(values_in, inner))


@given(VALUES, st.booleans())
def test_values_are_counted_and_what_stands_in_texts_is_not(value: Any, indented: bool) -> None:
    count, indent = values_in(value), 1 if indented else None
    text = json.dumps(value, indent=indent, ensure_ascii=indented)
    assert not holds_more_values(text.encode(), count + 1)
    assert count < 2 or holds_more_values(text.encode(), count - 2)


@given(st.text('"\\[{,\n\ra'))
def test_broken_json_is_counted_too(text: str) -> None:
    assert not holds_more_values(text.encode(), len(text))
    holds_more_values(text.encode(), 0)


@pytest.mark.parametrize("piece", [b"{},", b"[],", b"1,", b'{"":1},', b'"",'])
def test_very_many_values_are_refused_before_they_take_memory(piece: bytes) -> None:
    with pytest.raises(TooLarge, match="more than 1,500,000 values"):
        parsed(b'{"prompts":[' + piece * 1_500_001)


def test_texts_may_hold_as_many_commas_and_braces_as_they_like() -> None:
    rows = [{"text": 'f(a, b)["c"] = {"d": [1, 2]}\\' * 1_000}] * 500
    assert parsed(json.dumps(rows).encode()) == rows


def test_as_many_rows_as_are_taken_may_have_as_many_variables() -> None:
    variables = ",".join(f'"v{n}":"x"' for n in range(MOST_VARIABLES))
    row = f'{{"external_id":"p","text":"Q?","category":"c","variables":{{{variables}}}}}'
    assert not holds_more_values(f"[{','.join([row] * AT_MOST_ROWS)}]".encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", [b"{},", b'"" ', b'"a\n', b'"', b"\\", b'"\\a', b'\\"', b"a", b"1,", b'["']
)
def test_counting_the_values_of_the_largest_body_takes_a_moment(piece: bytes) -> None:
    body = piece * (BULK_BODY // len(piece))
    started = time.process_time()
    holds_more_values(body)
    assert time.process_time() - started < 5


@given(st.floats(0, 1_000_000))
def test_dollars_come_back_to_the_nano_dollar(amount: float) -> None:
    nano = Dollars().to_internal_value(amount)

    assert isinstance(nano, int)
    assert math.isclose(Dollars().to_representation(nano), amount, abs_tol=1e-9)
