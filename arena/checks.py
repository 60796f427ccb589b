"""Checks: rules that an answer passes or fails, each with a reason; no model is asked. Pure.

The kinds are named as in promptfoo (promptfoo.dev/docs/configuration/expected-outputs), where it
has them. Texts may contain variables of the prompt, as `{{ customer }}`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

from arena.json_schema import UncheckableError, clean_schema, find_misfit, same_json
from arena.patterns import PatternError, compile_pattern, find_match
from arena.shown_text import without_thought
from arena.validation import (
    MOST,
    NANO,
    InputError,
    check_length,
    clean_paragraphs,
    clean_visible_name,
    decode_json,
    json_type,
    numbered,
    quoted,
    shortened,
)

EXPECTED_LIMIT = 20_000  # characters
CHECK_NAME_LIMIT = 120
MOST_CHECKS = 100  # of all prompts of an arena, and of each prompt
MOST_ALLOWED = 10_000
MOST_SECONDS = 1_000_000
GUARD = "guard"  # a prompt that must not be lost: votes decide that, not its text
# Every kind, as people choose it.
KINDS = {
    "contains": "Contains",
    "icontains": "Contains, in capitals or not",
    "contains-all": "Contains all of",
    "contains-any": "Contains any of",
    "icontains-all": "Contains all of, in capitals or not",
    "icontains-any": "Contains any of, in capitals or not",
    "starts-with": "Starts with",
    "regex": "Matches a regular expression",
    "equals": "Equals",
    "is-json": "Is JSON",
    "word-count": "Number of words",
    "length": "Number of characters",
    "latency": "Seconds at most",
    "cost": "Dollars at most",
    GUARD: "Never lose this prompt",
}
LISTS = ("contains-all", "contains-any", "icontains-all", "icontains-any")
RANGES = {"word-count": "word", "length": "character"}
LIMITS = ("latency", "cost")
WITH_VARIABLES = ("contains", "icontains", *LISTS, "starts-with", "regex", "equals")
NEGATABLE = (*WITH_VARIABLES, "is-json")
VARIABLE = re.compile(r"\{\{\s*([^\W\d]\w*)\s*\}\}")
_RANGE = re.compile(
    r"(?:(at most|at least|exactly) )?(\d{1,7})|(\d{1,7}) ?(?:to|-|–) ?(\d{1,7})", re.IGNORECASE
)
_NUMBER = re.compile(r"\d{1,7}(?:\.\d{1,9})?")
_QUOTED = 60  # characters of an answer or a value in a reason
Range = tuple[int, int | None]  # at least, and at most


@dataclass(frozen=True)
class Result:
    """Whether an answer passes, None if that cannot be told, and a sentence that says why."""

    passed: bool | None
    reason: str


@dataclass(frozen=True)
class Rule:
    """What a check asks of an answer. `parse` makes a valid one, in its one way to be written."""

    kind: str
    expected: str = ""
    negated: bool = False

    @classmethod
    def parse(cls, kind: Any, expected: Any = "", negated: Any = False) -> "Rule":
        """Return the rule. Raises InputError with the field at fault as its column."""
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(f"is {quoted(kind)}, which is not one of {', '.join(KINDS)}", "kind")
        if negated not in (True, False):
            raise InputError(f"is {json_type(negated)}, not true or false", "negated")
        if negated and kind not in NEGATABLE:
            raise InputError(f"cannot be used with {kind}", "negated")
        try:
            return cls(kind, _clean_expected(kind, expected), bool(negated))
        except InputError as error:
            raise InputError(error.reason, "expected") from None

    @property
    def digest(self) -> str:
        """The same for rules that ask the same."""
        text = json.dumps([self.kind, self.expected, self.negated])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def name(self) -> str:
        """What it asks, in plain words."""
        return shortened(self._words, CHECK_NAME_LIMIT)

    @property
    def _words(self) -> str:
        if self.kind in RANGES:
            return f"{_range_words(self._range).capitalize()} {self._unit}"
        if self.kind == "latency":
            return f"At most {self.expected} second{'' if self.expected == '1' else 's'}"
        if self.kind == "cost":
            return f"At most ${self.expected}"
        if self.kind == "is-json":
            fitting = " that fits the schema" if self.expected else ""
            return f"Is {'not ' if self.negated else ''}JSON{fitting}"
        if self.kind == GUARD:
            return KINDS[GUARD]
        verb, not_verb = _VERBS[self.kind]
        texts = json.loads(self.expected) if self.kind in LISTS else [self.expected]
        return f"{not_verb if self.negated else verb} {', '.join(map(_quote, texts))}"

    @property
    def _range(self) -> Range:
        return parse_range(self.expected)

    @property
    def _unit(self) -> str:
        low, high = self._range
        noun = RANGES[self.kind]
        return noun if (low if high is None else high) == 1 else f"{noun}s"

    def check(
        self,
        answer: str,
        seconds: float | None = None,
        cost: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Result:
        """Return whether `answer` passes, its thought left out. `cost` is in nano-dollars; None is
        not recorded.

        `variables` are the prompt's, with `prompt` for its text.
        """
        if self.kind == GUARD:
            return Result(None, "Votes decide whether this prompt is lost.")
        if self.kind in LIMITS:
            return self._check_limit(seconds if self.kind == "latency" else cost)
        try:
            holds, reason = self._find(without_thought(answer), variables or {})
        except (UncheckableError, PatternError) as error:
            return Result(None, str(error))
        return Result(holds != self.negated, reason)

    def _check_limit(self, spent: float | None) -> Result:
        is_time = self.kind == "latency"
        if spent is None:
            return Result(None, f"Its {'time' if is_time else 'cost'} is not recorded.")
        most = Decimal(self.expected)
        if is_time:
            reason = f"It took {round(spent, 2):,g} seconds."
            return Result(Decimal(str(spent)) <= most, reason)
        dollars = Decimal(spent) / NANO
        return Result(dollars <= most, f"It cost ${dollars.normalize():f}.")

    def _find(self, answer: str, variables: Mapping[str, str]) -> tuple[bool, str]:
        """Return whether what the kind says holds, and what was found."""
        if self.kind in RANGES:
            count = len(answer.split()) if self.kind == "word-count" else len(answer)
            low, high = self._range
            reason = f"It has {numbered(count, RANGES[self.kind])}."
            return low <= count and (high is None or count <= high), reason
        if self.kind == "is-json":
            return _find_json(answer, self.expected)
        return _FINDERS[self.kind](answer, self._filled(variables))

    def _filled(self, variables: Mapping[str, str]) -> str:
        """The expected text, with the values of the prompt. Raises UncheckableError."""
        if "{{" not in self.expected:
            return self.expected

        def fill(match: re.Match[str]) -> str:
            if match[1] not in variables:
                raise UncheckableError(f"The prompt has no variable {_quote(match[1])}.")
            value = variables[match[1]]
            return json.dumps(value, ensure_ascii=False)[1:-1] if self.kind in LISTS else value

        return VARIABLE.sub(fill, self.expected)


_VERBS = {
    "contains": ("Contains", "Does not contain"),
    "icontains": ("Contains, in capitals or not,", "Does not contain, in capitals or not,"),
    "contains-all": ("Contains all of", "Does not contain all of"),
    "contains-any": ("Contains any of", "Contains none of"),
    "icontains-all": ("Contains, in capitals or not, all of", "Does not contain all of"),
    "icontains-any": ("Contains, in capitals or not, any of", "Contains none of"),
    "starts-with": ("Starts with", "Does not start with"),
    "regex": ("Matches", "Does not match"),
    "equals": ("Equals", "Does not equal"),
}


def clean_checks(value: Any) -> list[dict[str, Any]]:
    """Return the checks of a prompt in a file, each with all of its fields. Raises InputError."""
    if value in (None, ""):
        return []
    if not isinstance(value, list):
        raise InputError(f"is {json_type(value)}, not a list of checks")
    if len(value) > MOST_CHECKS:
        raise InputError(f"has {len(value):,} checks; the limit is {MOST_CHECKS}")
    made: dict[str, dict[str, Any]] = {}
    for given in value:
        if not isinstance(given, dict):
            raise InputError(f"has {json_type(given)} that is no check, which is an object")
        try:
            rule, fields = clean_check(
                **{name: given.get(name) for name in FIELDS if name in given}
            )
        except InputError as error:
            raise InputError(f"has a check whose {error.column} {error.reason}") from None
        made.setdefault(rule.digest, fields)
    return [*made.values()]


FIELDS = ("kind", "expected", "negated", "name", "allowed")


def clean_check(
    kind: Any = "", expected: Any = "", negated: Any = False, name: Any = "", allowed: Any = 0
) -> tuple[Rule, dict[str, Any]]:
    """Return a check's rule, and all of its fields. Raises InputError with the column."""
    rule = Rule.parse(kind, expected, negated)
    try:
        name = clean_visible_name(name, limit=CHECK_NAME_LIMIT) if name else rule.name
    except InputError as error:
        raise InputError(error.reason, "name") from None
    if isinstance(allowed, bool) or not isinstance(allowed, int):
        raise InputError(f"is {json_type(allowed)}, not a whole number", "allowed")
    if not 0 <= allowed <= MOST_ALLOWED:
        raise InputError(f"is {allowed}, not a number from 0 to {MOST_ALLOWED:,}", "allowed")
    fields = dict(zip(FIELDS, (rule.kind, rule.expected, rule.negated, name, allowed), strict=True))
    return rule, fields


def _clean_expected(kind: str, expected: Any) -> str:
    if kind in LISTS and isinstance(expected, list):
        expected = json.dumps(expected)
    text = clean_paragraphs(expected, limit=EXPECTED_LIMIT, strip=kind not in WITH_VARIABLES)
    if kind == GUARD:
        if text:
            raise InputError("must be empty for a guard")
        return ""
    if not text.strip() and kind != "is-json":
        raise InputError("is empty")
    clean = _CLEANERS.get(kind)
    if clean:
        text = clean(text)
        check_length(text, EXPECTED_LIMIT)
    return text


def _clean_list(text: str) -> str:
    """Return the texts as a JSON list; they may be written as one, or one in a line."""
    given: Any = None
    if text.strip().startswith("["):
        try:
            given = decode_json(text)
        except InputError:
            given = None
    if given is None:
        given = [line.strip() for line in text.splitlines()]
    if not all(isinstance(item, str) for item in given):
        raise InputError("is a list with something else than texts")
    texts = list(dict.fromkeys(item for item in given if item.strip()))
    if not texts:
        raise InputError("is empty")
    return json.dumps(texts, ensure_ascii=False)


def _clean_pattern(text: str) -> str:
    if not VARIABLE.search(text):
        try:
            compile_pattern(text)
        except PatternError as error:
            raise InputError(str(error)) from None
    return text


def _clean_equal(text: str) -> str:
    return text.strip()


def _clean_range(text: str) -> str:
    return _range_words(parse_range(text))


def parse_range(text: str) -> Range:
    """Return the limits in "at most 120" or the like. Raises InputError."""
    match = _RANGE.fullmatch(" ".join(text.split()))
    if match is None:
        raise InputError(
            f"is {quoted(text)}, not a limit such as “at most 120”, “at least 20” or “20 to 120”"
        )
    word, number, low, high = match.groups()
    if number is None:
        if int(low) > int(high):
            raise InputError(f"is {quoted(text)}, which begins above its end")
        return int(low), int(high)
    count = int(number)
    word = (word or "at most").lower()
    return (0 if word == "at most" else count), (None if word == "at least" else count)


def _range_words(limits: Range) -> str:
    low, high = limits
    if high is None:
        return f"at least {low}"
    if low == high:
        return f"exactly {low}"
    return f"{low} to {high}" if low else f"at most {high}"


def _clean_limit(text: str, most: int) -> str:
    written = text.strip().removeprefix("$").strip()
    if not _NUMBER.fullmatch(written):
        raise InputError(f"is {quoted(text)}, not a number such as 2.5")
    number = Decimal(written)
    if not 0 < number <= most:
        raise InputError(f"is {quoted(text)}, not a number above 0 and up to {most:,}")
    return f"{number.normalize():f}"


_CLEANERS: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(LISTS, _clean_list),
    **dict.fromkeys(RANGES, _clean_range),
    "equals": _clean_equal,
    "regex": _clean_pattern,
    "is-json": lambda text: clean_schema(text) if text else "",
    "latency": lambda text: _clean_limit(text, MOST_SECONDS),
    "cost": lambda text: _clean_limit(text, MOST),
}


def _find_text(answer: str, text: str) -> tuple[bool, str]:
    found = text in answer
    return found, f"It {'contains' if found else 'does not contain'} {_quote(text)}."


def _find_all(answer: str, texts: Sequence[str]) -> tuple[bool, str]:
    lacking = [text for text in texts if text not in answer]
    listed = ", ".join(map(_quote, lacking))
    return not lacking, f"It does not contain {listed}." if lacking else "It contains all of them."


def _find_any(answer: str, texts: Sequence[str]) -> tuple[bool, str]:
    found = next((text for text in texts if text in answer), None)
    none = "It contains none of them."
    return found is not None, none if found is None else f"It contains {_quote(found)}."


def _find_start(answer: str, text: str) -> tuple[bool, str]:
    return answer.startswith(text), f"It starts with {_quote(answer[: len(text) + 1])}."


def _find_match(answer: str, pattern: str) -> tuple[bool, str]:
    try:
        found = find_match(pattern, answer)
    except PatternError as error:
        raise UncheckableError(f"The pattern {error}.") from None
    return (
        found is not None,
        "Nothing in it matches." if found is None else f"{_quote(found)} matches.",
    )


def _find_equal(answer: str, text: str) -> tuple[bool, str]:
    is_equal = answer.strip() == text
    if not is_equal and text[:1] in ("{", "["):
        expected = _decoded(text)
        given = _decoded(answer) if expected else None
        is_equal = bool(expected and given and same_json(expected[0], given[0]))
    return is_equal, f"It is {_quote(answer)}."


def _find_json(answer: str, schema: str) -> tuple[bool, str]:
    value = _decoded(answer)
    if value is None:
        return False, "It is not JSON."
    misfit = find_misfit(schema, value[0]) if schema else ""
    if misfit:
        return False, f"It does not fit the schema: {misfit}."
    return True, "It fits the schema." if schema else "It is JSON."


@lru_cache(maxsize=4)  # several checks of one answer
def _decoded(text: str) -> tuple[Any] | None:
    """The value that a text is as JSON, in a tuple of one; None if it is not JSON."""
    try:
        return (decode_json(text),)
    except InputError:
        return None


def _folded(find: Callable[[str, Any], tuple[bool, str]]) -> Callable[[str, Any], tuple[bool, str]]:
    """The same for capitals and small letters."""

    def find_folded(answer: str, wanted: Any) -> tuple[bool, str]:
        if isinstance(wanted, str):
            return find(answer.casefold(), wanted.casefold())
        return find(answer.casefold(), [text.casefold() for text in wanted])

    return find_folded


def _of_list(
    find: Callable[[str, Any], tuple[bool, str]],
) -> Callable[[str, str], tuple[bool, str]]:
    return lambda answer, expected: find(answer, cast("list[str]", json.loads(expected)))


_FINDERS: dict[str, Callable[[str, str], tuple[bool, str]]] = {
    "contains": _find_text,
    "icontains": _folded(_find_text),
    "contains-all": _of_list(_find_all),
    "contains-any": _of_list(_find_any),
    "icontains-all": _of_list(_folded(_find_all)),
    "icontains-any": _of_list(_folded(_find_any)),
    "starts-with": _find_start,
    "regex": _find_match,
    "equals": _find_equal,
}


def _quote(text: str) -> str:
    """The text in quotation marks: short, and on one line."""
    return f"“{shortened(' '.join(text.split()) or text, _QUOTED)}”"
