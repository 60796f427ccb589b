"""The parameters that a team may send with its candidates' requests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.services.candidate_checks import ParametersError, clean_parameters

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"temperature": 0, "top_p": 1.0, "max_tokens": 1, "seed": -3},
        {"stop": "END"},
        {"stop": ["END", "STOP"], "response_format": {"type": "json_object"}},
        {"reasoning_effort": "low", "thinking": {"type": "enabled", "budget_tokens": 1024}},
    ],
)
def test_known_values_pass_unchanged(parameters: dict[str, Any]) -> None:
    assert clean_parameters(parameters) == parameters


@pytest.mark.parametrize(
    "name",
    [
        *("stream", "n", "best_of", "model", "messages", "base_url", "api_key", "extra_headers"),
        *("extra_body", "extra_query", "timeout", "tools", "service_tier", "user", "Temperature"),
    ],
)
def test_no_team_chooses_address_key_number_or_tools(name: str) -> None:
    with pytest.raises(ParametersError, match="is not supported") as refused:
        clean_parameters({"temperature": 1, name: 1})
    assert repr(name) in refused.value.message


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"temperature": 2.1}, "is 2.1, not a number from 0 to 2"),
        ({"temperature": "hot"}, "is 'hot', not a number"),
        ({"temperature": True}, "is True, not a number"),
        ({"temperature": float("nan")}, "cannot be stored"),
        ({"max_tokens": 0}, "a whole number from 1 to 200,000"),
        ({"max_tokens": 1.5}, "a whole number"),
        ({"seed": 2**70}, "a whole number"),
        ({"stop": ["x"] * 17}, "at most 16 texts"),
        ({"logit_bias": []}, "a list, not an object"),
        ({"stop": "a\0b"}, "NUL"),
        ({"logit_bias": {"x": "y" * 10_000}}, "the limit is 10,000"),
    ],
)
def test_a_value_that_cannot_be_is_named(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ParametersError) as refused:
        clean_parameters(parameters)
    assert words in refused.value.message


@given(JSON | st.dictionaries(st.sampled_from(["temperature", "stop", "logit_bias"]), JSON))
def test_anything_else_is_refused_with_a_reason(parameters: Any) -> None:
    sentence = "."
    try:
        assert clean_parameters(parameters) == parameters
    except ParametersError as refusal:
        sentence = refusal.message
    assert sentence.endswith(".")
