"""Cleaning and checking values from people, files and programs. Pure.

A `clean_*` function returns the value as it is stored, or raises InputError. The reason follows the
name of the field: "is empty", "is a list, not text".
"""

import hashlib
import json
import math
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from unicodedata import category, normalize
from urllib.parse import urlsplit

from arena.outcomes import OUTCOMES

TEXT_LIMIT = 1_000_000  # bytes of UTF-8
PROMPT_LIMIT = 100_000  # characters, the same as for a candidate's template
NAME_LIMIT = 200
CATEGORY_LIMIT = 100
ABOUT_LIMIT = 100  # an organisation's or a licence's name
LINK_LIMIT = 500
NOTES_LIMIT = 10_000
ARENA_NAME_LIMIT = 120
QUESTION_LIMIT = 200
CRITERIA_LIMIT = 4000
GUIDE_LIMIT = 4_000
TAG_LIMIT, MAX_TAGS = 40, 12
COMMENT_LIMIT = 1_000
DESCRIPTION_LIMIT = 20_000
DETAILS_LIMIT = 100_000
DETAILS_DEPTH = 20
NUMBER_LIMIT = 10**308
VARIABLE_LIMIT = 100
MOST_VARIABLES = 100

NANO = 10**9
MOST = 1_000_000  # dollars; anything more is a typing error

JOINERS = ("\u200c", "\u200d")  # Persian, Indic scripts and some emoji are written with them
_CONTROL = re.compile("[\x00-\x1f\x7f]")
# What helps with a bad row, by the reason; '' if the reason says so, or what the value must be.
REMEDIES = (
    (r"\.$", ""),
    (r"the limit ", "shorten it"),
    (r"^is missing", "add it"),
    (r"^is empty|that is empty$", "fill it in"),
    (r"; |\bnot |\bmust ", ""),
    (r"^has no |without", "complete it"),
    (r"contains", "remove it"),
    (r"", "correct it"),
)


class InputError(ValueError):
    """A value or a row that cannot be used: the reason, and the column at fault.

    `column` is '' if no single column is at fault, and None if the caller knows the column.
    """

    def __init__(self, reason: str, column: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.column = column

    @property
    def advice(self) -> str:
        """The reason why a row of a file is bad, and what helps."""
        remedy = next(remedy for form, remedy in REMEDIES if re.search(form, self.reason))
        return f"{self.reason}; {remedy}, or leave the row out" if remedy else self.reason


def quoted(value: Any) -> str:
    """Quote a value for a message: short, on one line, without control characters."""
    text = ascii(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 42 else f"{text[:38]}...{text[0]}"


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, cut at a word unless the last is very long."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 2]
    words = cut.rpartition(" ")[0]
    return f"{words if len(words) > limit // 2 else cut} …"


def shorten(name: str, limit: int) -> str:
    """Shorten a name in the middle, because variants of one model differ at the end."""
    if len(name) <= limit:
        return name
    head = (limit - 1) // 2
    return f"{name[:head].rstrip()}…{name[head + 1 - limit :].lstrip()}"


def shorten_apart(names: Sequence[str], limit: int) -> list[str]:
    """Shorten names to `limit`, or to as much more as keeps names that differ different."""
    short = [shorten(name, limit) for name in names]
    is_clear = len(set(short)) == len(set(names))
    return short if is_clear else shorten_apart(names, limit + 8)


def is_unicode(text: str) -> bool:
    """Return whether `text` can be written as UTF-8: it has no lone surrogates."""
    return text.encode("utf-8", "ignore").decode() == text


def json_type(value: Any) -> str:
    """Return the type of a JSON value in words."""
    words = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return words.get(type(value), "a number" if isinstance(value, int | float) else "text")


def numbered(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f}%"


def join_names(names: Iterable[str], most: int = 10) -> str:
    """List the first `most` names, and the number of the others."""
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def clean_text(value: Any, *, limit: int = TEXT_LIMIT) -> str:
    """Return a text that the database can store, unchanged; `limit` is in bytes of UTF-8."""
    if not isinstance(value, str):
        raise InputError(f"is {json_type(value)}, not text")
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise InputError("is not valid Unicode text (UTF-8)") from None
    if size > limit:
        raise InputError(f"is {size:,} bytes long; the limit is {limit:,}")
    if "\0" in value:
        raise InputError("contains a NUL byte, which cannot be stored")
    return value


def clean_name(value: Any, *, limit: int = NAME_LIMIT, required: bool = True) -> str:
    """Return a name or id, stripped: one line of at most `limit` characters.

    A number is converted to text.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"is {json_type(value)}, not a name")
    name = value.strip()
    if required and not name:
        raise InputError("is empty")
    if len(name) > limit:
        raise InputError(f"is {len(name):,} characters long; the limit is {limit:,}")
    clean_text(name)
    if _CONTROL.search(name):
        raise InputError("contains a line break or another control character")
    return name


def clean_visible_text(value: Any, *, limit: int = ABOUT_LIMIT) -> str:
    """Return a name that may be empty, without invisible characters."""
    return visible_name(clean_name(value, limit=limit, required=False), limit)


def clean_link(value: Any) -> str:
    """Return the cleaned address of a web page; '' if none is given."""
    link = clean_name(value, limit=LINK_LIMIT, required=False)
    try:
        parts = urlsplit(link)
        is_page = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
    except ValueError:
        is_page = False
    if link and (not is_page or any(letter.isspace() for letter in link)):
        raise InputError("is not the address of a web page, such as https://example.org/model")
    if hidden := invisible_character(link):
        raise InputError(hidden)
    return link


def clean_visible_name(value: Any, *, limit: int = NAME_LIMIT) -> str:
    """Return a name that has no invisible characters, to be shown on a page."""
    return visible_name(clean_name(value, limit=limit), limit)


def visible_name(name: str, limit: int = NAME_LIMIT) -> str:
    """Return a clean name in Unicode's composed form (NFC); refuse invisible characters."""
    if name.isascii():
        return name
    if hidden := invisible_character(name):
        raise InputError(hidden)
    name = normalize("NFC", name)
    check_length(name, limit)  # a few letters become two
    return name


def clean_paragraphs(
    value: Any, *, limit: int | None = None, required: bool = False, strip: bool = True
) -> str:
    """Return a text of several lines, with one kind of line break; `limit` is in characters."""
    text = clean_text(value).replace("\r\n", "\n")
    if strip:
        text = text.strip()
    if required and not text:
        raise InputError("is empty")
    if limit:
        check_length(text, limit)
    return text


def clean_tags(value: Any) -> str:
    """Return a list of short names, one per line, without empty lines and duplicates."""
    lines = [line.strip() for line in clean_paragraphs(value).splitlines()]
    tags = list(dict.fromkeys(clean_name(line, limit=TAG_LIMIT) for line in lines if line))
    if len(tags) > MAX_TAGS:
        raise InputError(f"has {len(tags)} lines; the limit is {MAX_TAGS}")
    return "\n".join(tags)


def check_length(text: str, limit: int, column: str | None = None) -> None:
    if len(text) > limit:
        raise InputError(f"is {len(text):,} characters long; the limit is {limit:,}", column)


def invisible_character(name: str) -> str:
    """Return a reason if `name` has an invisible or direction-changing character, else ''."""
    padded = f" {name} "
    for before, letter, after in zip(padded, padded[1:], padded[2:], strict=False):
        joins = letter in JOINERS and not (before.isascii() or after.isascii())
        if category(letter) in ("Cf", "Cc") and not joins:
            return f"contains an invisible character (U+{ord(letter):04X})"
    return ""


def without_joiners(name: str) -> str:
    return "".join(letter for letter in name if letter not in JOINERS)


def name_key(name: str) -> str:
    """Return the same key for all names that read alike, short enough for any index.

    Full-width letters, capitals and decomposed accents count as the letters they stand for.
    """
    alike = normalize("NFKC", normalize("NFKC", without_joiners(name)).casefold())
    return hashlib.sha256(alike.encode("utf-8", "surrogatepass")).hexdigest()


def clean_outcome(value: Any) -> str:
    """Return an outcome, given in any case and with surrounding spaces."""
    outcome = value.strip().lower() if isinstance(value, str) else value
    if outcome not in OUTCOMES:
        raise InputError(f"is {quoted(value)}, which is not one of {', '.join(OUTCOMES)}")
    return str(outcome)


def clean_time(value: Any) -> datetime | None:
    """Return an ISO 8601 time in UTC, which is also the default time zone; None if empty."""
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"is {quoted(value)}, not a time such as 2026-01-31T12:00:00Z") from None


def clean_preference(value: Any) -> float:
    """Return a soft verdict from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"is {json_type(value)}, not a number from 0 to 1")
    if not 0 <= value <= 1:
        raise InputError(f"is {quoted(value)}, not a number from 0 to 1")
    return float(value)


def clean_flag(value: Any) -> bool:
    """Return true or false; an empty value is false."""
    if value and value is not True:
        raise InputError(f"is {json_type(value)}, not true or false")
    return bool(value)


def is_variable(name: str) -> bool:
    """Return whether a prompt's variable can have this name; `prompt` is the prompt's own text."""
    return name.isidentifier() and name != "prompt" and len(name) <= VARIABLE_LIMIT


def clean_variables(value: Any) -> dict[str, str]:
    """Return a prompt's variables, an object of names and texts, without nulls."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"is {json_type(value)}, not an object that maps names to texts")
    given = {name: text for name, text in value.items() if text is not None}
    if len(given) > MOST_VARIABLES:
        raise InputError(
            f"has {len(given):,} variables; a prompt can have at most {MOST_VARIABLES}", ""
        )
    for name, text in given.items():
        if not is_variable(name):
            raise InputError(
                f"has {quoted(name)}, which is not one word of letters, digits and underscores "
                "other than prompt"
            )
        _check_inner(text, name)
    return given


def clean_details(details: dict[str, Any]) -> dict[str, Any]:
    """Return further fields of a row, if the database can store them."""
    for name, value in details.items():
        # Fast path: almost all values of millions of rows are short ASCII texts and numbers.
        if not (name.isascii() and "\0" not in name):
            _check_inner(name, quoted(name))
        if type(value) is not str or not value.isascii() or "\0" in value:
            _check_nested(value, name, 0)
    return details


def clean_parameters(value: Any) -> dict[str, Any]:
    """Return the parameters of an imported candidate, if the database can store them."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"is {json_type(value)}, not an object")
    if (size := len(json.dumps(value))) > DETAILS_LIMIT:
        raise InputError(f"are {size:,} bytes long; the limit is {DETAILS_LIMIT:,}")
    return clean_details(value)


def _check_nested(value: Any, column: str, depth: int) -> None:
    if isinstance(value, str):
        _check_inner(value, column)
    elif isinstance(value, int | float):
        if not abs(value) < NUMBER_LIMIT:
            raise InputError("has a number that cannot be stored", column)
    elif isinstance(value, dict | list):
        if depth >= DETAILS_DEPTH:
            raise InputError(f"is nested more than {DETAILS_DEPTH} levels deep", column)
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            _check_nested(item, column, depth + 1)


def _check_inner(text: Any, column: str) -> None:
    try:
        clean_text(text)
    except InputError as error:
        raise InputError(error.reason, column) from None


def nano_dollars(usd: Decimal) -> int:
    """Return an amount of dollars in nano-dollars; raises ValueError for an invalid amount."""
    if not usd.is_finite() or not 0 <= usd <= MOST:
        raise ValueError(f"An amount must be between $0 and ${MOST:,}.")
    return int(usd * NANO)


def in_dollars(nano: int | None) -> str:
    """Return nano-dollars as a dollar amount for a form, with as few digits as possible."""
    return "" if nano is None else f"{(Decimal(nano) / NANO).normalize():f}"


def dollars_argument(text: str) -> int:
    """Convert an amount of dollars on the command line to nano-dollars."""
    try:
        return nano_dollars(Decimal(text))
    except (InvalidOperation, ValueError):
        raise ArgumentTypeError(f"must be an amount of dollars like 5.00, not {text!r}") from None


# Spreadsheets skip what cannot be seen, and some read full-width signs as others.
_UNSEEN = r"[\s\x00-\x1f\x7f-\x9f\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]*"
_FORMULA = re.compile(rf"[\t\r]|{_UNSEEN}[=+\-@＝＋－＠﹦﹢﹣﹫−]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def escape_cells(values: Iterable[Any]) -> list[Any]:
    """Prefix an apostrophe to texts that spreadsheets would run as formulas; numbers stay."""
    return [
        f"'{value}"
        if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
        else value
        for value in values
    ]


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError(f"{literal[:20]} is not a finite number")
    return number


def _whole(literal: str) -> int:
    if len(literal) > 300:
        raise ValueError(f"a whole number of {len(literal):,} digits")
    return int(literal)


_JSON = json.JSONDecoder(parse_constant=_finite, parse_float=_finite, parse_int=_whole)
_JSON_OF_FILES = json.JSONDecoder(
    parse_constant=lambda name: None if name == "NaN" else _finite(name),
    parse_float=_finite,
    parse_int=_whole,
)
_LAST_COMMA = re.compile(r",\s*(?=[]}])")
# Texts, which may have anything, and numbers that perhaps cannot be stored.
_NUMBERS = re.compile(r'"(?:[^"\\]|\\.)*"|(-?(?:NaN|Infinity|\d[\d.]*[eE][-+]?\d+|\d{300,}[\d.]*))')


def decode_json(text: str, *, is_file: bool = False, of_file: bool = False) -> Any:
    """Return the value in `text`; raises InputError if it is not JSON or cannot be stored.

    With `of_file`, a NaN is null: pandas and others write it for a missing value. The error names
    the line of a text of several lines, and always that of a whole file.
    """
    try:
        return (_JSON_OF_FILES if is_file or of_file else _JSON).decode(text.strip())
    except json.JSONDecodeError as error:
        if comma := _LAST_COMMA.match(error.doc, error.pos):  # where Python 3.13 points at
            error = json.JSONDecodeError(error.msg, error.doc, comma.end())
        before = text[: len(text) - len(text.lstrip())].count("\n")
        is_long = is_file or "\n" in text.strip()
        line = f"line {error.lineno + before:,}, " if is_long else ""
        reason, remedy = _json_fault(error)
        place = f"{line}character {error.colno:,}"
        raise InputError(f"is not JSON: {reason}, {place}{remedy}") from None
    except RecursionError:
        raise InputError("is nested too deeply") from None
    except ValueError as error:
        line = f" (line {_line_of_number(text):,})" if is_file or "\n" in text.strip() else ""
        remedy = "; write null or a text instead" if is_file else ""
        reason = f"has a number that cannot be stored{line}: {error}{remedy}"
        raise InputError(reason) from None


def _line_of_number(text: str) -> int:
    """The line of the first number that cannot be stored, which is long, has an exponent or is no
    number."""
    for match in _NUMBERS.finditer(text):
        try:
            _JSON.decode(match[1] or "0")
        except ValueError:
            return text.count("\n", 0, match.start()) + 1
    return 1


def _json_fault(error: json.JSONDecodeError) -> tuple[str, str]:
    """Return what is wrong, and the remedy for what many tools write although it is not JSON."""
    here, before = error.doc[error.pos :].lstrip(), error.doc[: error.pos].rstrip()
    if here.startswith(("//", "/*", "#")):
        return "there is a comment", "; remove it"
    if here.startswith("'"):
        return "there is a single quote", "; texts and names need double quotes"
    if before.endswith(",") and here[:1] in ("]", "}"):
        return f"there is a comma before {here[0]}", "; remove the comma"
    return error.msg, ""
