"""A rule says of an answer whether it passes and why, whatever a person wrote into either."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.checks import (
    GUARD,
    KINDS,
    LISTS,
    MOST_CHECKS,
    NEGATABLE,
    Rule,
    clean_check,
    clean_checks,
)
from arena.json_schema import UncheckableError, clean_schema, find_misfit
from arena.validation import InputError

TEXTS = st.text(max_size=40)
WRITTEN = st.text(st.characters(exclude_characters="\0{", exclude_categories=["Cs"]), max_size=40)
SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}}}


def said(kind: str, expected: str, answer: str, **more: Any) -> tuple[bool | None, str]:
    negated = more.pop("negated", False)
    result = Rule.parse(kind, expected, negated).check(answer, **more)
    return result.passed, result.reason


@pytest.mark.parametrize(
    ("kind", "expected", "answer", "passed", "reason"),
    [
        ("contains", "refund", "A refund.", True, "It contains “refund”."),
        ("contains", "refund", "A Refund.", False, "It does not contain “refund”."),
        ("icontains", "Refund", "A REFUND.", True, "It contains “refund”."),
        ("contains-all", "a\nb", "b a", True, "It contains all of them."),
        ("contains-all", '["a", "b"]', "b", False, "It does not contain “a”."),
        ("contains-any", "a\nb", "b", True, "It contains “b”."),
        ("contains-any", "a\nb", "c", False, "It contains none of them."),
        ("icontains-any", "A\nB", "b", True, "It contains “b”."),
        ("icontains-all", "A\nB", "a", False, "It does not contain “b”."),
        ("starts-with", "Dear", "Dear Ada", True, "It starts with “Dear”."),
        ("starts-with", "Dear", "Hello you", False, "It starts with “Hello”."),
        ("regex", r"\d+ days", "5 days", True, "“5 days” matches."),
        ("regex", r"\d+ days", "soon", False, "Nothing in it matches."),
        ("equals", "Paris", " Paris\n", True, "It is “Paris”."),
        ("equals", "Paris", "paris", False, "It is “paris”."),
        (
            "equals",
            '{"a": 1, "b": true}',
            '{"b":true,"a":1.0}',
            True,
            'It is “{"b":true,"a":1.0}”.',
        ),
        ("equals", '{"a": 1}', '{"a": true}', False, 'It is “{"a": true}”.'),
        ("is-json", "", "[1]", True, "It is JSON."),
        ("is-json", "", "null", True, "It is JSON."),
        ("is-json", "", "so", False, "It is not JSON."),
        ("is-json", json.dumps(SCHEMA), '{"a": 1}', True, "It fits the schema."),
        (
            *("is-json", json.dumps(SCHEMA), '{"a": "x"}', False),
            "It does not fit the schema: 'x' is not of type 'number' (at $.a).",
        ),
        ("word-count", "3", "a b c", True, "It has 3 words."),
        ("word-count", "at least 2", "a", False, "It has 1 word."),
        ("length", "2-3", "abcd", False, "It has 4 characters."),
        ("length", "exactly 4", "abcd", True, "It has 4 characters."),
    ],
)
def test_an_answer_passes_or_fails_with_a_reason(
    kind: str, expected: str, answer: str, passed: bool, reason: str
) -> None:
    assert said(kind, expected, answer) == (passed, reason)
    if kind in NEGATABLE:
        assert said(kind, expected, answer, negated=True) == (not passed, reason)


def test_time_and_cost_cannot_be_told_unless_they_were_recorded() -> None:
    assert said("latency", "2", "", seconds=2.0) == (True, "It took 2 seconds.")
    assert said("latency", "2", "", seconds=2.5) == (False, "It took 2.5 seconds.")
    assert said("latency", "0.1", "", seconds=0.1)[0]
    assert said("latency", "60", "", seconds=1234.567) == (False, "It took 1,234.57 seconds.")
    assert said("latency", "2", "") == (None, "Its time is not recorded.")
    assert said("cost", "$0.01", "", cost=10_000_000) == (True, "It cost $0.01.")
    assert said("cost", "0.01", "", cost=10_000_001) == (False, "It cost $0.010000001.")
    assert said("cost", "0.01", "") == (None, "Its cost is not recorded.")
    assert said(GUARD, "", "so")[0] is None


def test_a_text_may_use_the_variables_of_the_prompt() -> None:
    values = {"who": 'Ada "A."', "prompt": "Why?"}
    assert said("contains", "Dear {{ who }}", 'Dear Ada "A."', variables=values)[0]
    assert said("contains-all", "{{who}}\nWhy", 'Ada "A." Why', variables=values)[0]
    assert said("starts-with", "{{prompt}}", "Why? So.", variables=values)[0]
    assert said("regex", "{{who}}$", 'Ada "Ax', variables={"who": "A."})[0]
    assert said("contains", "{{ whom }}", "") == (None, "The prompt has no variable “whom”.")
    bad = said("regex", "{{who}}", "", variables={"who": "("})
    assert bad == (
        None,
        "The pattern is not a valid regular expression: missing ): (.",
    )


@pytest.mark.parametrize(
    ("kind", "expected", "column", "words"),
    [
        ("like", "x", "kind", "is 'like', which is not one of contains, "),
        ([], "x", "kind", "which is not one of"),
        ("contains", "", "expected", "is empty"),
        ("contains", " \n", "expected", "is empty"),
        ("contains", 5, "expected", "is a number, not text"),
        ("contains", "x" * 20_001, "expected", "is 20,001 characters long; the limit is 20,000"),
        ("regex", "(", "expected", "is not a valid regular expression: missing ): ("),
        ("regex", "(?=a)b", "expected", "lookarounds and backreferences are not supported"),
        ("regex", r"(a)\1", "expected", "lookarounds and backreferences are not supported"),
        ("regex", "x" * 2_001, "expected", "the limit is 2,000"),
        ("regex", "((a{900}){900}){900}", "expected", "is not a valid regular expression"),
        ("contains-any", '["a", 1]', "expected", "is a list with something else than texts"),
        ("contains-any", "[]", "expected", "is empty"),
        ("is-json", "{", "expected", "is not JSON"),
        ("is-json", "[]", "expected", "is a list, not a JSON Schema"),
        ("is-json", '{"type": "text"}', "expected", "is not a JSON Schema"),
        ("is-json", '{"$ref": "http://a.example/b"}', "expected", "outside of itself"),
        ("is-json", '{"properties": {"a": {"pattern": "("}}}', "expected", "regular expression"),
        ("is-json", '{"patternProperties": {}}', "expected", "which cannot be checked here"),
        ("is-json", '{"$schema": "http://a.example"}', "expected", "use draft 7 or 2020-12"),
        ("word-count", "few", "expected", "not a limit such as “at most 120”"),
        ("length", "9 to 3", "expected", "begins above its end"),
        ("latency", "soon", "expected", "not a number such as 2.5"),
        ("latency", "0", "expected", "not a number above 0"),
        ("latency", "1000001", "expected", "up to 1,000,000"),
        ("cost", "-1", "expected", "not a number such as 2.5"),
        (GUARD, "x", "expected", "must be empty for a guard"),
    ],
)
def test_what_is_no_rule_is_refused_in_one_sentence(
    kind: Any, expected: Any, column: str, words: str
) -> None:
    with pytest.raises(InputError) as refused:
        Rule.parse(kind, expected)
    assert refused.value.column == column
    assert words in refused.value.reason
    assert "\n" not in refused.value.reason


def test_limits_cannot_be_negated() -> None:
    for kind, expected in (("latency", "2"), ("word-count", "9"), (GUARD, "")):
        with pytest.raises(InputError, match="cannot be used with"):
            Rule.parse(kind, expected, negated=True)


@pytest.mark.parametrize(
    ("kind", "expected", "negated", "name"),
    [
        ("contains", "refund", False, "Contains “refund”"),
        ("contains", "refund", True, "Does not contain “refund”"),
        ("contains-any", "a\nb", True, "Contains none of “a”, “b”"),
        ("word-count", "120", False, "At most 120 words"),
        ("word-count", "at least 1", False, "At least 1 word"),
        ("length", "20-30", False, "20 to 30 characters"),
        ("latency", "2.50", False, "At most 2.5 seconds"),
        ("cost", "$0.010", False, "At most $0.01"),
        ("is-json", "", True, "Is not JSON"),
        ("is-json", "{}", False, "Is JSON that fits the schema"),
        (GUARD, "", False, "Never lose this prompt"),
    ],
)
def test_a_rule_says_in_plain_words_what_it_asks(
    kind: str, expected: str, negated: bool, name: str
) -> None:
    assert Rule.parse(kind, expected, negated).name == name


EXPECTED = {
    "is-json": st.just(""),
    GUARD: st.just(""),
    "latency": st.integers(1, 999).map(str),
    "cost": st.decimals("0.001", 9, places=3).map(str),
    **dict.fromkeys(("word-count", "length"), st.integers(0, 999).map(str)),
}


@given(st.data(), st.sampled_from(list(KINDS)), TEXTS)
def test_rules_never_fail_and_are_what_they_were_once_stored(
    data: st.DataObject, kind: str, answer: str
) -> None:
    expected = data.draw(EXPECTED.get(kind, WRITTEN))
    negated = data.draw(st.booleans()) and kind in NEGATABLE
    try:
        rule = Rule.parse(kind, expected, negated)
    except InputError:
        return
    assert Rule.parse(rule.kind, rule.expected, rule.negated) == rule
    assert len(rule.name) <= 120
    result = rule.check(answer, seconds=1.0, cost=1)
    assert result.reason
    if kind in NEGATABLE and result.passed is not None:
        other = Rule(rule.kind, rule.expected, not rule.negated).check(answer)
        assert other.passed is not result.passed


@given(st.lists(WRITTEN.filter(str.strip), min_size=1, max_size=4, unique=True), WRITTEN)
def test_lists_of_texts_are_found_as_python_finds_them(texts: list[str], answer: str) -> None:
    expected = {
        "contains-all": all(text in answer for text in texts),
        "contains-any": any(text in answer for text in texts),
    }
    for kind, found in expected.items():
        assert Rule.parse(kind, texts).check(answer).passed is found
    assert set(expected) < set(LISTS)


@pytest.mark.parametrize(
    ("kind", "expected", "answer"),
    [
        ("regex", "(x+x+)+y", "x" * 100_000),
        ("regex", "(a|b)*a(a|b){1000}c", "ab" * 500_000),
        ("is-json", '{"pattern": "(a|b)*a(a|b){900}c"}', json.dumps("ab" * 100_000)),
        ("is-json", '{"uniqueItems": true}', json.dumps([*range(50_000), {}, 1, {}])),
        ("is-json", '{"$ref": "#"}', "1"),
        (
            "is-json",
            json.dumps(
                {
                    "$defs": {
                        **{
                            f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2}
                            for n in range(40)
                        },
                        "d40": {"type": "number"},
                    },
                    "$ref": "#/$defs/d0",
                }
            ),
            "1",
        ),
        ("contains-any", "\n".join(map(str, range(2_000))), "x" * 100_000),
    ],
)
def test_no_rule_and_no_answer_takes_long(kind: str, expected: str, answer: str) -> None:
    rule = Rule.parse(kind, expected)
    rule.check("1")
    began = time.monotonic()
    assert rule.check(answer).reason
    assert time.monotonic() - began < 10


def test_a_schema_never_reaches_python_s_patterns_or_the_web() -> None:
    """Not even where a reference leads to what is no schema."""
    hidden = clean_schema('{"$ref": "#/default", "default": {"patternProperties": {"(a+)+$": {}}}}')
    with pytest.raises(UncheckableError, match="cannot be checked here"):
        find_misfit(hidden, {"a" * 40 + "b": 1})
    away = clean_schema('{"$ref": "#/default", "default": {"$ref": "http://127.0.0.1:9/x"}}')
    with pytest.raises(UncheckableError, match="does not have"):
        find_misfit(away, 1)


def test_checks_of_a_file_are_cleaned_and_named() -> None:
    given_ = {"kind": "contains", "expected": "x", "allowed": 2}
    assert clean_checks([given_, given_]) == [
        {
            **{"kind": "contains", "expected": "x", "negated": False},
            **{"name": "Contains “x”", "allowed": 2},
        }
    ]
    assert clean_checks(None) == []
    for bad in ("x", [1], [{"kind": "x"}], [given_ | {"allowed": -1}], [{}] * (MOST_CHECKS + 1)):
        with pytest.raises(InputError):
            clean_checks(bad)
    with pytest.raises(InputError, match="whole number"):
        clean_check("contains", "x", allowed=True)
