"""The schemas of rows in exports, imports, label files and uploads. Pure.

A schema checks the values passed to it; rows constructed directly are not checked.
"""

import json
import math
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    PlainValidator,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic import Field as Limits
from pydantic_core import ErrorDetails

from arena.checks import clean_checks
from arena.conversations import Message, clean_messages, clean_turns
from arena.outcomes import COUNTED, LEFT, OUTCOMES, RIGHT, Uncounted
from arena.validation import (
    CATEGORY_LIMIT,
    MOST,
    NAME_LIMIT,
    NANO,
    InputError,
    clean_details,
    clean_flag,
    clean_link,
    clean_parameters,
    clean_text,
    clean_time,
    clean_variables,
    clean_visible_text,
    json_type,
    quoted,
    visible_name,
)

R = TypeVar("R")
Values = dict[str, Any]

# pydantic's own core checks names almost for free, which matters for millions of votes.
ONE_LINE = "^[^\x00-\x1f\x7f]*$"
OUTCOME = f"(?i)^({'|'.join(OUTCOMES)})$"
NameOrNone = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=NAME_LIMIT, pattern=ONE_LINE)
]
CandidateOrNone = Annotated[NameOrNone, AfterValidator(visible_name)]
CandidateName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=NAME_LIMIT, pattern=ONE_LINE),
    AfterValidator(visible_name),
]
Category = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=CATEGORY_LIMIT, pattern=ONE_LINE)
]
Outcome = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True, pattern=OUTCOME)]
Text = Annotated[str, AfterValidator(clean_text)]
About = Annotated[str, PlainValidator(clean_visible_text)]
Time = Annotated[datetime | None, PlainValidator(clean_time)]
Variables = Annotated[dict[str, str], PlainValidator(clean_variables)]
Parameters = Annotated[dict[str, Any], PlainValidator(clean_parameters)]
Messages = Annotated[list[Message] | None, PlainValidator(clean_messages)]
Turns = Annotated[list[Message] | None, PlainValidator(clean_turns)]
Flag = Annotated[bool, PlainValidator(clean_flag)]
Checks = Annotated[list[dict[str, Any]], PlainValidator(clean_checks)]
Details = Annotated[dict[str, Any], PlainValidator(clean_details)]
NUMBERS_ARE_TEXTS = ConfigDict(coerce_numbers_to_str=True)
MOST_TOKENS = 2_147_483_647
MOST_SECONDS = 1_000_000
# Accepts `1.5`, `1,5` (with a decimal comma) and `2e-05`.
_NUMBER = re.compile(r"[0-9]{1,30}([.,][0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")
_THOUSANDS = re.compile(r"[0-9]{1,3},[0-9]{3}")


def clean_number(value: Any, most: int) -> Decimal | None:
    """Return a number from 0 to `most`, which may be given as text; None for a blank text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"is {json_type(value)}, not a number")
    written = str(value).strip()
    if not written:
        return None
    if _THOUSANDS.fullmatch(written):
        raise InputError(f"is {quoted(written)}, where the comma is ambiguous")
    if not _NUMBER.fullmatch(written):
        raise InputError(f"is {quoted(written)}, not a number that is 0 or more")
    number = Decimal(written.replace(",", "."))
    if number > most:
        raise InputError(f"is {quoted(written)}; at most {most:,} is allowed")
    return number


def clean_tokens(value: Any) -> int | None:
    """Return a number of tokens."""
    number = clean_number(value, MOST_TOKENS)
    if number is not None and number != int(number):
        raise InputError(f"is {number}, not a whole number")
    return None if number is None else int(number)


def clean_seconds(value: Any) -> float | None:
    """Return a number of seconds."""
    number = clean_number(value, MOST_SECONDS)
    return None if number is None else float(number)


def clean_cost(value: Any) -> int | None:
    """Return an amount of dollars in nano-dollars."""
    number = clean_number(value, MOST)
    return None if number is None else round(number * NANO)


Tokens = Annotated[int | None, PlainValidator(clean_tokens)]


class Schema(Generic[R]):
    """Turns values into rows of one class; InputError names the column and the reason.

    `columns` maps the fields that a file has to its columns; by default all, under their own names.
    """

    def __init__(self, row: type[Any], columns: Mapping[str, str] | None = None) -> None:
        self.columns = columns or {field.name: field.name for field in fields(row)}
        self.required = {field.name for field in fields(row) if _is_required(field)}
        self._validate: Callable[[Values], R] = TypeAdapter(row).validator.validate_python

    def parse(self, values: Values) -> R:
        """Return the row with these values by field."""
        try:
            return self._validate(values)
        except ValidationError as error:
            raise self._input_error(error) from None

    def take(self, cells: Values, **values: Any) -> R:
        """Return the row in `cells`, which are named by column; cells of other columns stay there.

        A null in an optional column counts as missing. `values` are further values by field.
        """
        for name, column in self.columns.items():
            if column in cells:
                value = cells.pop(column)
                if value is not None or name in self.required:
                    values[name] = value
        return self.parse(values)

    def _input_error(self, error: ValidationError) -> InputError:
        """Return the first error, worded for people."""
        details = error.errors(include_url=False)[0]
        field = str(details["loc"][0])
        column = self.columns.get(field, field)
        inner = details.get("ctx", {}).get("error")
        if isinstance(inner, InputError):
            return InputError(inner.reason, column if inner.column is None else inner.column)
        return InputError(_reason(details), column)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _reason(details: ErrorDetails) -> str:
    value, context = details["input"], details.get("ctx", {})
    pattern = context.get("pattern")
    if pattern == OUTCOME:
        return f"is {quoted(value)}, which is not one of {', '.join(OUTCOMES)}"
    if pattern and "\0" in str(value):
        return "contains a NUL byte, which cannot be stored"
    reasons = {
        "missing": "is missing",
        "string_type": f"is {json_type(value)}, not text",
        "string_too_short": "is empty",
        "string_too_long": f"is {len(str(value).strip()):,} characters long; the limit is "
        f"{context.get('max_length')}",
        "string_pattern_mismatch": "contains a line break or another control character",
        "string_unicode": "is not valid Unicode text (UTF-8)",
    }
    return reasons.get(details["type"]) or f"is {quoted(value)}: {details['msg']}"


def texts_of(cells: Values, fields_of: Callable[[list[Message]], Values]) -> Values:
    """Return `text` and `messages` for a row with messages, which a cell may hold as JSON."""
    messages = cells.get("messages")
    if isinstance(messages, str):
        try:
            messages = json.loads(messages) if messages.strip() else None
        except (ValueError, RecursionError):
            raise InputError("is not a JSON list of messages", "messages") from None
    try:
        clean = clean_messages(messages)
    except InputError as error:
        raise InputError(error.reason, "messages") from None
    if clean is None:
        return {"messages": None} if "messages" in cells else {}
    fields = fields_of(clean)
    if cells.get("text") not in (None, "", fields["text"]):
        raise InputError("cannot be used with messages; give one or the other", "text")
    return fields


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One prompt; `external_id` is '' if the file gives none, and `text` is '' if unknown."""

    __pydantic_config__ = NUMBERS_ARE_TEXTS
    row: int
    text: Text
    external_id: NameOrNone = ""
    category: Category = ""
    reference: Text = ""
    rubric: Text = ""
    variables: Variables = field(default_factory=dict)
    retired: Flag = False
    showcased: Flag = False
    messages: Messages = None
    document: Category = ""
    checks: Checks = field(default_factory=list)

    @property
    def key(self) -> tuple[str, Hashable]:
        """The column that identifies the prompt, and its value: the id, else text and variables."""
        if self.external_id:
            return "external_id", self.external_id
        return "text", (self.text, *sorted(self.variables.items()))


@dataclass(frozen=True, slots=True)
class CandidateRow:
    __pydantic_config__ = NUMBERS_ARE_TEXTS
    name: CandidateName
    model: NameOrNone = ""
    variant: NameOrNone = ""
    system_prompt: Text = ""
    user_template: Text = ""
    messages: Turns = None
    notes: Text = ""
    organisation: About = ""
    licence: About = ""
    link: Annotated[str, PlainValidator(clean_link)] = ""
    parameters: Parameters = field(default_factory=dict)
    retired: Flag = False
    merged_into: NameOrNone = ""


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """One answer, to the prompt with the id `prompt_id`, or else with `prompt` as its id or text.

    `seconds` is the model's time; `cost` is in nano-dollars, from dollars in the file; None if not
    given. `candidate` is '' if the file names none.
    """

    __pydantic_config__ = NUMBERS_ARE_TEXTS
    row: int
    text: Text
    prompt_id: NameOrNone = ""
    prompt: Text = ""
    tokens_in: Tokens = None
    tokens_out: Tokens = None
    seconds: Annotated[float | None, PlainValidator(clean_seconds)] = None
    cost: Annotated[int | None, PlainValidator(clean_cost)] = None
    candidate: CandidateOrNone = ""
    messages: Messages = None

    @property
    def key(self) -> tuple[str, Hashable]:
        """The column that identifies the answer, and its value, unique per candidate and prompt."""
        column = "prompt_id" if self.prompt_id else "prompt"
        return column, (self.candidate, self.prompt_id or self.prompt)


def clean_uncounted(value: str) -> str:
    if value not in list(Uncounted):
        raise InputError(f"is {quoted(value)}, which is not one of {', '.join(Uncounted)}")
    return value


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a vote in an export came from, and whether it counted; members are those of Vote.

    `channel` None: the file does not say. `network` is a number that the export made up.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")
    channel: Literal["", "browser", "signed_in", "invited", "token", "file"] | None = None
    verified: Flag = False
    rushed: Flag = False
    seconds: Annotated[float, Limits(ge=0, allow_inf_nan=False)] | None = None
    network: Annotated[NameOrNone, StringConstraints(max_length=16)] = ""
    uncounted: Annotated[str, AfterValidator(clean_uncounted)] | None = None
    voided_at: Time = None
    void_reason: Annotated[NameOrNone, StringConstraints(max_length=200)] = ""
    draw_probability: Annotated[float, Limits(gt=0, le=1)] | None = None

    @property
    def counts(self) -> bool:
        return self.uncounted is None and self.voided_at is None


@dataclass(slots=True)
class VoteRow:
    """One vote; a missing prompt, document or rater is ''.

    `document`: what the prompt comes from, for a prompt that is new. `makes_names`: create the
    vote's candidates and prompts if they are new.
    """

    __pydantic_config__ = NUMBERS_ARE_TEXTS
    left: CandidateName
    right: CandidateName
    outcome: Outcome
    prompt: NameOrNone = ""
    document: Category = ""
    preference: float | None = None
    rater: NameOrNone = ""
    rater_kind: str = "person"
    cast_at: Time = None
    details: Details = field(default_factory=dict)
    makes_names: bool = False
    provenance: Provenance | None = None


UploadRow = TypeVar("UploadRow", PromptRow, ResponseRow)
ImportRow = PromptRow | CandidateRow | ResponseRow | VoteRow
LABELS = {"1": LEFT, "2": RIGHT, "a": LEFT, "b": RIGHT} | {name: name for name in COUNTED}


def clean_label(value: Any) -> str:
    """Return the outcome: 1, A, left for the first response, 2, B, right for the second."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    label = str(value) if is_number else value
    outcome = LABELS.get(label.strip().lower()) if isinstance(label, str) else None
    if outcome is None:
        raise InputError(f"is {quoted(value)}, which is not one of {', '.join(LABELS)}")
    return outcome


def clean_score(value: Any) -> float:
    """Return a finite number, which may be given as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"is {json_type(value)}, not a number")
    try:
        score = float(value)
    except (ValueError, OverflowError):
        raise InputError(f"is {quoted(value)}, not a number") from None
    if not math.isfinite(score):
        raise InputError(f"is {quoted(value)}, not a finite number")
    return score


@dataclass(frozen=True, slots=True)
class LabelRow:
    """One person's label: an `outcome` for two responses, or a `score` for one.

    `response_2` is '' for a score, `rater` is '' if the file names none. `model_1` and `model_2`
    wrote the responses.
    """

    __pydantic_config__ = NUMBERS_ARE_TEXTS
    prompt: Text
    response_1: Text
    response_2: Text = ""
    reference: Text = ""
    rubric: Text = ""
    category: Category = ""
    model_1: NameOrNone = ""
    model_2: NameOrNone = ""
    rater: NameOrNone = ""
    outcome: Annotated[str, PlainValidator(clean_label)] = ""
    score: Annotated[float | None, PlainValidator(clean_score)] = None

    @property
    def kind(self) -> str:
        return "pairs" if self.outcome else "scores"

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to judge, because the prompt or an answer is blank."""
        texts = [self.prompt, self.response_1, *([self.response_2] if self.outcome else [])]
        return not all(text.strip() for text in texts)


_COMMON = ("reference", "rubric", "category", "rater")
_PAIR = {"prompt": "prompt", "response_1": "response_1", "response_2": "response_2"}
_SCORE = {"prompt": "prompt", "response_1": "response", "score": "score"}
PAIR_LABEL: Schema[LabelRow] = Schema(
    LabelRow,
    _PAIR | {"outcome": "label"} | {name: name for name in (*_COMMON, "model_1", "model_2")},
)
SCORE_LABEL: Schema[LabelRow] = Schema(LabelRow, _SCORE | {name: name for name in _COMMON})


def parse_label(cells: Values) -> LabelRow:
    """Return the label in one row of a label file; raises InputError."""
    if "label" in cells and "score" in cells:
        raise InputError("has both a label and a score; a file can have only one or the other")
    is_pair = "label" in cells or "response_1" in cells
    for column in (*_PAIR.values(), "label") if is_pair else _SCORE.values():
        if cells.get(column) is None:
            raise InputError("is missing", column)
    category = cells.get("category")
    if category is None or not str(category).strip():
        cells["category"] = cells.get("scenario")
    return (PAIR_LABEL if is_pair else SCORE_LABEL).take(cells)
