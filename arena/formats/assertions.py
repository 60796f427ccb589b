"""Assertions of promptfoo as checks, and back (promptfoo.dev/docs/configuration/expected-outputs).

Only those that need neither a model nor a program become checks.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from arena.checks import LISTS, VARIABLE, clean_check, parse_range
from arena.formats.base import decoded
from arena.validation import InputError

Assertion = Mapping[str, Any]
TEXTS = ("contains", "icontains", "starts-with", "regex")
_OUTSIDE = re.compile(r"(?:file|https?)://|package:")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_LENGTH = re.compile(r"output\.length (>=|<=|===) (\d{1,7})(?: && output\.length <= (\d{1,7}))?")


def read_assertion(assertion: Assertion) -> dict[str, Any] | None:
    """Return the fields of a check that asks the same; None if there is none."""
    given = assertion.get("type")
    if not isinstance(given, str) or {"transform", "contextTransform"} & assertion.keys():
        return None
    kind = given.removeprefix("not-")
    name = "length" if kind == "javascript" else kind
    try:
        expected = _READERS[kind](assertion) if kind in _READERS else None
        if expected is None or _OUTSIDE.match(expected) or _is_template(name, expected):
            return None
        rule, fields = clean_check(name, expected, given != kind)
    except InputError:
        return None
    metric = assertion.get("metric")
    try:
        return clean_check(name, expected, rule.negated, metric)[1]
    except InputError:
        return fields


def write_assertion(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the assertion that asks what a check with these fields asks; None for a guard."""
    kind, expected = fields["kind"], fields.get("expected", "")
    if kind not in _WRITERS:
        return None
    written = {"type": kind} | _WRITERS[kind](expected)
    if fields.get("negated"):
        written["type"] = f"not-{written['type']}"
    return written | ({"metric": fields["name"]} if fields.get("name") else {})


def _is_template(kind: str, expected: str) -> bool:
    """Whether a value has more of a template than variables, or where a check has none."""
    rest = expected if kind == "is-json" else VARIABLE.sub("", expected)
    return bool(_TEMPLATE.search(rest))


def _text(assertion: Assertion) -> str | None:
    value = assertion.get("value")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    return value if isinstance(value, str) else None


def _list(assertion: Assertion) -> str | None:
    value = assertion.get("value")
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list):
        return None
    texts = [_text({"value": item}) for item in value]
    return None if None in texts else json.dumps(texts)


def _equal(assertion: Assertion) -> str | None:
    value = assertion.get("value")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return _text(assertion)


def _schema(assertion: Assertion) -> str | None:
    value = assertion.get("value")
    value = decoded(value) if isinstance(value, str) else value
    if value in (None, ""):
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else None


def _word_count(assertion: Assertion) -> str | None:
    value = decoded(assertion.get("value"))
    if isinstance(value, dict):
        low, high = value.get("min"), value.get("max")
        if high is None:
            return f"at least {low}"
        return f"at most {high}" if low is None else f"{low} to {high}"
    count = _text({"value": value})
    return count and f"exactly {count}"


def _length(assertion: Assertion) -> str | None:
    """The lengths in a line of JavaScript as `write_assertion` writes it."""
    match = _LENGTH.fullmatch(str(assertion.get("value", "")).strip())
    if match is None or (match[3] and match[1] != ">="):
        return None
    if match[3]:
        return f"{match[2]} to {match[3]}"
    words = {">=": "at least", "<=": "at most", "===": "exactly"}
    return f"{words[match[1]]} {match[2]}"


def _limit(factor: int) -> Callable[[Assertion], str | None]:
    """The threshold, which is so many of a check's units."""

    def read(assertion: Assertion) -> str | None:
        threshold = assertion.get("threshold")
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            return None
        return f"{threshold / factor:.9f}"

    return read


_READERS: dict[str, Callable[[Assertion], str | None]] = {
    **dict.fromkeys(TEXTS, _text),
    **dict.fromkeys(LISTS, _list),
    "equals": _equal,
    "is-json": _schema,
    "word-count": _word_count,
    "javascript": _length,
    "latency": _limit(1000),
    "cost": _limit(1),
}


def _threshold(number: float) -> dict[str, Any]:
    return {"threshold": int(number) if number == int(number) else number}


def _write_words(expected: str) -> dict[str, Any]:
    low, high = parse_range(expected)
    if low == high:
        return {"value": low}
    if high is None:
        return {"value": {"min": low}}
    return {"value": {"min": low, "max": high} if low else {"max": high}}


def _write_length(expected: str) -> dict[str, Any]:
    low, high = parse_range(expected)
    if low == high:
        code = f"output.length === {low}"
    elif high is None:
        code = f"output.length >= {low}"
    else:
        code = f"output.length <= {high}"
        code = f"output.length >= {low} && {code}" if low else code
    return {"type": "javascript", "value": code}


_WRITERS: dict[str, Callable[[str], dict[str, Any]]] = {
    **dict.fromkeys(TEXTS, lambda text: {"value": text}),
    **dict.fromkeys(LISTS, lambda text: {"value": json.loads(text)}),
    "equals": lambda text: {"value": decoded(text)},
    "is-json": lambda text: {"value": json.loads(text)} if text else {},
    "word-count": _write_words,
    "length": _write_length,
    "latency": lambda text: _threshold(float(text) * 1000),
    "cost": lambda text: _threshold(float(text)),
}
