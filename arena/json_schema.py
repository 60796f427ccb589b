"""JSON Schemas that people write, applied to what models answer: neither can hang a process. Pure.

The package `jsonschema` searches patterns with Python's backtracking engine, fetches references
from the web and takes as long as a schema asks for. Here patterns are searched in linear time,
references stay within the schema, and the work is counted.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any

from arena.patterns import PatternError, compile_pattern, find_match, steps_of
from arena.validation import InputError, decode_json, json_type, quoted, shortened

MOST_STEPS = 200_000  # about a second
REASON_LENGTH = 200
# What `jsonschema` would answer with Python's own regular expressions, or without our count.
REFUSED = (
    *("patternProperties", "unevaluatedProperties", "unevaluatedItems"),
    *("$dynamicRef", "$recursiveRef"),
)
_MAPS = ("properties", "$defs", "definitions", "dependentSchemas", "dependencies")
_DATA = ("enum", "const", "default", "examples")
_left: ContextVar[list[int]] = ContextVar("steps left")
Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class UncheckableError(Exception):
    """It cannot be told whether a value fits; the message is a sentence for people."""


@lru_cache(maxsize=64)
def clean_schema(text: str) -> str:
    """Return the schema in a text as compact JSON. Raises InputError."""
    schema = decode_json(text)
    if not isinstance(schema, dict):
        raise InputError(f"is {json_type(schema)}, not a JSON Schema, which is an object")
    for keyword, value in _keywords(schema):
        if keyword in REFUSED:
            raise InputError(f"has a schema with {keyword}, which cannot be checked here")
        if keyword == "$ref" and not (isinstance(value, str) and value.startswith("#")):
            raise InputError(f"has a schema that refers to {quoted(value)}, outside of itself")
        if keyword == "pattern" and isinstance(value, str):
            _check_pattern(value)
    _check_schema(schema)
    return json.dumps(schema, ensure_ascii=False)


def _check_pattern(pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except PatternError as error:
        raise InputError(
            f"has a schema with the pattern {quoted(pattern)}, which {error}"
        ) from None


def _check_schema(schema: Mapping[str, Any]) -> None:
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415  (30 MB that few processes need)

    try:
        # Without formats, among which are patterns.
        _validators()[_draft(schema)].check_schema(schema, format_checker=None)
    except SchemaError as error:
        words = shortened(error.message, REASON_LENGTH)
        raise InputError(f"is not a JSON Schema: {words} (at {error.json_path})") from None
    except RecursionError:
        raise InputError("is nested too deeply") from None


def find_misfit(schema: str, value: Any) -> str:
    """Return how `value` differs from a clean schema; '' if it fits. Raises UncheckableError."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    _left.set([MOST_STEPS])
    try:
        error = next(_validator(schema).iter_errors(value), None)
    except RecursionError:
        raise UncheckableError("The schema or the answer is nested too deeply.") from None
    except Unresolvable:
        raise UncheckableError("The schema refers to a part that it does not have.") from None
    return (
        "" if error is None else f"{shortened(error.message, REASON_LENGTH)} (at {error.json_path})"
    )


@lru_cache(maxsize=64)
def _validator(text: str) -> Any:
    from referencing import Registry  # noqa: PLC0415

    schema = json.loads(text)
    return _validators()[_draft(schema)](schema, registry=Registry())  # one that fetches nothing


def _draft(schema: Mapping[str, Any]) -> str:
    named = schema.get("$schema", "2020-12")
    for draft in ("draft-07", "2020-12"):
        if isinstance(named, str) and draft in named:
            return draft
    raise InputError(f"has a schema of {quoted(named)}; use draft 7 or 2020-12")


@cache
def _validators() -> dict[str, Any]:
    from jsonschema.validators import (  # noqa: PLC0415
        Draft7Validator,
        Draft202012Validator,
        extend,
    )

    made = {}
    for draft, base in (("draft-07", Draft7Validator), ("2020-12", Draft202012Validator)):
        keywords: dict[str, Keyword] = {
            **base.VALIDATORS,
            **dict.fromkeys(REFUSED, _refuse),
            "pattern": _pattern,
            "uniqueItems": _unique_items,
        }
        counted = {name: _counted(function) for name, function in keywords.items()}
        made[draft] = extend(base, counted)
    return made


def _counted(function: Keyword) -> Keyword:
    """The keyword's function, which pays for the sizes of what it looks through."""

    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        _pay(1 + sum(len(part) for part in (value, instance) if isinstance(part, dict | list)))
        if "patternProperties" in schema:  # which `additionalProperties` would search
            _refuse()
        return function(validator, value, instance, schema)

    return apply


def _pay(steps: int) -> None:
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        raise UncheckableError("It takes too long to check the answer against the schema.")


def _refuse(*_: Any) -> None:
    raise UncheckableError("The schema uses a keyword that cannot be checked here.")


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415

    if validator.is_type(instance, "string"):
        try:
            _pay(steps_of(pattern, instance) // 250)
            found = find_match(pattern, instance)
        except PatternError as error:
            raise UncheckableError(f"A pattern of the schema {error}.") from None
        if found is None:
            yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415

    if wanted and validator.is_type(instance, "array"):
        texts = [_canonical(item) for item in instance]
        _pay(sum(map(len, texts)) // 100)
        if len(set(texts)) < len(texts):
            yield ValidationError(f"{instance!r} has non-unique elements")


def same_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. Raises UncheckableError."""
    try:
        return _canonical(one) == _canonical(other)
    except RecursionError:
        raise UncheckableError("The answer is nested too deeply.") from None


def _canonical(value: Any) -> str:
    return json.dumps(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:
    """The value with 1 in place of 1.0, which are equal in JSON Schema."""
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every keyword of a schema and of the schemas in it, with its value."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        for keyword, value in part.items() if isinstance(part, dict) else ():
            yield keyword, value
            if keyword in _MAPS and isinstance(value, dict):
                waiting += value.values()
            elif keyword not in _DATA:
                waiting.append(value)
