"""Tables that people upload or paste: prompts, and a candidate's answers to them. Pure.

Every row becomes a PromptRow or ResponseRow, or a Problem; an unusable table raises FileError.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Generic

from arena.conversations import answer_fields, prompt_fields
from arena.files.reader import (
    MOST_VALUES,
    FileError,
    Row,
    Source,
    check_width,
    csv_header,
    csv_rows,
    folded,
    holds_more_values,
    is_json,
    json_rows,
)
from arena.files.rows import PromptRow, ResponseRow, Schema, UploadRow, Values, texts_of
from arena.validation import PROMPT_LIMIT, InputError, check_length, is_variable, join_names, quoted

AT_MOST_BYTES = 20_000_000
AT_MOST_ROWS = 10_000
AT_MOST_COLUMNS = 200
VARIABLE, UNUSED = "variable", ""  # roles of columns that are not fields
_BRACES = re.compile(r"\{\{\s{0,9}[^\W\d]\w{0,99}\s{0,9}\}\}")
_RULE = re.compile(r"\s*-{3,}\s*")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a row was left out."""

    row: int
    column: str
    sentence: str


@dataclass(slots=True)
class Table(Generic[UploadRow]):
    """The rows read and their problems; `notices` are sentences for people about the file.

    `roles`: what each column of the file was read as: a field, VARIABLE, or UNUSED.
    """

    rows: list[UploadRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Columns(Generic[UploadRow]):
    """The columns of one kind of table.

    `names`: the names that files use for each column, the usual one first; a name taken by one
    column is not available to the next. `labels` name columns in sentences. `needed`: groups of
    columns, at least one of each group is required. `parse` turns the row's number, its values and
    those of further columns into a row, or raises InputError. `has_variables`: further columns are
    variables. `members`: members of JSON objects with a type that no cell can have; a column of the
    same name means something else. `exported`: columns by the names that exports use.
    """

    names: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, str]
    needed: tuple[tuple[str, ...], ...]
    parse: Callable[[int, Values, Values], UploadRow]
    has_variables: bool = False
    members: Mapping[str, type] = field(default_factory=dict)
    exported: Mapping[str, str] = field(default_factory=dict)

    def assigned(self, names: Iterable[str]) -> dict[str, str]:
        """Map each column that the file has to its folded name in the file."""
        free = {folded(name) for name in names}
        assigned = {}
        for column, known in self.names.items():
            if name := next((name for name in known if name in free), ""):
                assigned[column] = name
                free.discard(name)
        return assigned

    def suffice(self, names: Iterable[str]) -> bool:
        """Whether these columns include all needed ones."""
        assigned = self.assigned(names)
        return all(any(column in assigned for column in group) for group in self.needed)

    def has_member(self, name: str) -> bool:
        """Whether an object in a request may have this member."""
        return name in self.names or name in self.members or name in self.exported

    @property
    def accepted(self) -> str:
        """The names that each column may have, in words."""
        return "; ".join(map(_alternatives, self.names.values()))

    @property
    def wanted(self) -> str:
        """A sentence that names the columns a file must have."""
        groups = (
            [name for column in group for name in self.names[column]] for group in self.needed
        )
        return f"It needs {', and '.join(f'a column {_alternatives(names)}' for names in groups)}."


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_PROMPT: Schema[PromptRow] = Schema(PromptRow)
_RESPONSE: Schema[ResponseRow] = Schema(ResponseRow)


def _check_filled(fields: Values) -> None:
    text = fields.get("text")
    if text is None or (isinstance(text, str) and not text.strip()):
        raise InputError("is empty", "text")


def parse_prompt(number: int, fields: Values, others: Values) -> PromptRow:
    """Return the prompt of one row; `others` are its variables, by name."""
    fields |= texts_of(fields, prompt_fields)
    _check_filled(fields)
    variables = fields.pop("variables", others)
    if isinstance(variables, dict):
        variables = {
            name: str(value) if type(value) in (int, float) else value
            for name, value in (others | variables).items()
        }
    prompt = _PROMPT.take(fields, row=number, variables=variables)
    for column in ("text", "reference", "rubric"):
        check_length(getattr(prompt, column), PROMPT_LIMIT, column)
    return prompt


def parse_response(number: int, fields: Values, others: Values) -> ResponseRow:
    """Return the answer of one row."""
    fields |= texts_of(fields, answer_fields)
    _check_filled(fields)
    column = "prompt" if "prompt" in fields else "prompt_id"
    response = _RESPONSE.take(fields, row=number)
    if not response.prompt_id and not response.prompt.strip():
        raise InputError("is empty, so it is not clear which prompt this answers", column)
    return response


PROMPTS: Columns[PromptRow] = Columns(
    names={
        "messages": ("messages",),
        "text": ("text", "prompt", "question", "input"),
        "external_id": ("id", "prompt_id", "external_id", "prompt"),
        "category": ("category", "tag"),
        "document": ("document", "document_id", "doc_id"),
        "reference": (
            *("reference", "expected", "reference_answer", "expected_answer"),
            *("expected_output", "expectedoutput"),
        ),
        "rubric": ("rubric",),
    },
    labels={
        "messages": "conversation",
        "text": "prompt",
        "external_id": "ID",
        "category": "category",
        "document": "document",
        "reference": "reference answer",
        "rubric": "rubric",
    },
    needed=(("text", "messages"),),
    parse=parse_prompt,
    has_variables=True,
    members={"variables": dict, "retired": bool, "showcased": bool, "checks": list},
    exported={"id": "external_id"},
)
RESPONSES: Columns[ResponseRow] = Columns(
    names={
        "prompt_id": ("prompt_id", "id", "external_id"),
        "prompt": ("prompt", "prompt_text", "question", "input"),
        "messages": ("messages",),
        "text": ("text", "answer", "response", "output"),
        "tokens_in": ("tokens_in", "input_tokens", "prompt_tokens"),
        "tokens_out": ("tokens_out", "output_tokens", "completion_tokens"),
        "seconds": ("seconds", "duration_seconds"),
        "cost": ("cost", "cost_usd"),
        "candidate": ("candidate",),
    },
    labels={
        "messages": "conversation",
        "prompt_id": "prompt’s ID",
        "prompt": "prompt",
        "text": "answer",
    },
    needed=(("prompt_id", "prompt"), ("text", "messages")),
    parse=parse_response,
)


def read_table(
    data: bytes,
    *,
    columns: Columns[UploadRow],
    at_most_rows: int = AT_MOST_ROWS,
    at_most_bytes: int = AT_MOST_BYTES,
    roles: Mapping[str, str] | None = None,
) -> Table[UploadRow]:
    """Read CSV, JSON Lines or a JSON array in any encoding that can be guessed.

    `roles`: what columns are read as, by name, instead of what their names say.
    Raises FileError for an unusable file, and nothing else.
    """
    source = Source.of(data, most=at_most_bytes)
    names: Sequence[str]
    rows: Iterable[Row]
    if is_json(source):
        names, rows = _json_sheet(source, columns, at_most_rows)
    else:
        header = csv_header(
            source,
            suffices=columns.suffice,
            wanted=columns.wanted,
            key=folded,
            most_columns=AT_MOST_COLUMNS,
        )
        names, rows = header.names, csv_rows(source, header)
    table = _Sheet(names, columns, roles or {}).read(rows, at_most_rows)
    if not table.rows and not table.problems:
        raise FileError("The file has no rows.")
    if source.notice:
        table.notices.insert(0, source.notice)
    return table


def parse_pasted(text: str, *, at_most_rows: int = AT_MOST_ROWS) -> Table[PromptRow]:
    """Read pasted prompts: one per line, or separated by lines of `---` if there are any.

    Raises FileError for no prompts or too many. A row's number is its first line's.
    """
    lines = list(enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1))
    blocks = [[line] for line in lines]
    if any(_RULE.fullmatch(line) for _, line in lines):
        groups = groupby(lines, key=lambda line: bool(_RULE.fullmatch(line[1])))
        blocks = [list(block) for is_rule, block in groups if not is_rule]
    rows = (
        Row(first, first, 0, 0, {"text": "\n".join(line for _, line in block).strip()})
        for block in blocks
        if (first := next((number for number, line in block if line.strip()), 0))
    )
    table = _Sheet(["text"], PROMPTS).read(rows, at_most_rows)
    if not table.rows and not table.problems:
        raise FileError("The text contains no prompts.")
    return table


def _json_sheet(
    source: Source, columns: Columns[Any], at_most_rows: int
) -> tuple[list[str], list[Row]]:
    """Return all keys in use, and the rows with their keys folded."""
    with source.open() as stream:
        if holds_more_values(stream.read()):
            raise FileError(
                f"The file has more than {MOST_VALUES:,} values; split it into several."
            )
    names: dict[str, str] = {}
    rows = list(at_most(json_rows(source), at_most_rows))
    for row in rows:
        if isinstance(row.content, dict):
            check_width("The file", row.content, AT_MOST_COLUMNS)
            for name in row.content:
                names.setdefault(folded(name), name.strip())
            check_width("The file", names, AT_MOST_COLUMNS)
            values = {folded(name): value for name, value in row.content.items()}
            row.content = (
                values if len(values) == len(row.content) else InputError("names a column twice")
            )
    if rows and all(isinstance(row.content, InputError) for row in rows):
        error = rows[0].content
        assert isinstance(error, InputError)
        raise FileError(f"No row can be read: row {rows[0].number} {error.reason}.")
    if rows and not columns.suffice(names.values()):
        keys = f"the keys {join_names(map(quoted, names.values()))}" if names else "no keys"
        raise FileError(f"The objects have {keys}. {columns.wanted}")
    return list(names.values()), rows


def at_most(rows: Iterable[Row], limit: int) -> Iterator[Row]:
    """Yield the rows; raises FileError if there are more than `limit`."""
    for count, row in enumerate(rows, start=1):
        if count > limit:
            raise FileError(f"The file has more than {limit:,} rows; split it into several.")
        yield row


def refuse_repeated(
    row: int, key: tuple[str, Hashable], seen: dict[tuple[str, Hashable], int]
) -> None:
    """Raise InputError if an earlier row has the same key."""
    earlier = seen.setdefault(key, row)
    if earlier != row:
        raise InputError(f"is the same as in row {earlier:,}", key[0])


class _Sheet(Generic[UploadRow]):
    """The columns of one file, their meaning, and the notices about them."""

    def __init__(
        self,
        names: Sequence[str],
        columns: Columns[UploadRow],
        chosen: Mapping[str, str] | None = None,
    ) -> None:
        """Raises FileError if the `chosen` roles leave out a needed field, or name one twice."""
        self.columns: Columns[UploadRow] = columns
        self.written = {folded(name): name for name in names if name}
        self.assigned = columns.assigned(names)
        self.chosen = {folded(name): role for name, role in (chosen or {}).items()}
        if self.chosen:
            self.assigned = self._assigned_as_chosen()
        free = self.written.keys() - self.assigned.values()
        self.free = [key for key in self.written if key in free]
        self.members: set[str] = set()

    def _assigned_as_chosen(self) -> dict[str, str]:
        named = {key: name for name, key in self.assigned.items()}
        assigned: dict[str, str] = {}
        for key in self.written:
            name = self.chosen.get(key, named.get(key, UNUSED))
            if name not in self.columns.names:
                continue
            if other := assigned.get(name):
                both = f"{quoted(self.written[other])} and {quoted(self.written[key])}"
                raise FileError(
                    f"The columns {both} cannot both be the {self.columns.labels[name]}. Choose "
                    "one of them."
                )
            assigned[name] = key
        for group in self.columns.needed:
            if not any(name in assigned for name in group):
                needed = " or ".join(self.columns.labels[name] for name in group)
                raise FileError(f"No column contains the {needed}. Choose one.")
        return assigned

    def read(self, rows: Iterable[Row], at_most_rows: int) -> Table[UploadRow]:
        table: Table[UploadRow] = Table()
        seen: dict[tuple[str, Hashable], int] = {}
        for row in at_most(rows, at_most_rows):
            try:
                if isinstance(row.content, InputError):
                    raise row.content
                parsed = self._parsed_row(row.number, row.content)
                refuse_repeated(row.number, parsed.key, seen)
                table.rows.append(parsed)
            except InputError as error:
                table.problems.append(self._problem_of_row(row.number, error))
        table.notices = [
            *self._columns_read_as(),
            *self._columns_not_used(),
            *_in_braces(table.rows),
        ]
        table.roles = {self.written[key]: name for name, key in self.assigned.items()} | {
            self.written[key]: VARIABLE if self._is_variable(key) else UNUSED
            for key in self.free
            if key not in self.members
        }
        return table

    def _parsed_row(self, number: int, values: Values) -> UploadRow:
        fields = {name: values[key] for name, key in self.assigned.items() if key in values}
        others = {}
        for key in self.free:
            value, type_ = values.get(key), self.columns.members.get(key)
            if type_ is not None and isinstance(value, type_):
                fields[key] = value
                self.members.add(key)
            elif value is not None and self._is_variable(key):
                others[self.written[key]] = value
        return self.columns.parse(number, fields, others)

    def _is_variable(self, key: str) -> bool:
        is_meant = self.chosen.get(key, VARIABLE) == VARIABLE
        return self.columns.has_variables and is_meant and is_variable(self.written[key])

    def _problem_of_row(self, row: int, error: InputError) -> Problem:
        """Describe what is wrong with a row, naming columns as the file does."""
        if not error.column:
            return Problem(row, "", f"The row {error.advice}.")
        column = self.written.get(self.assigned.get(error.column, ""), error.column)
        if label := self.columns.labels.get(error.column):
            return Problem(row, column, f"The {label} {error.advice} (column {quoted(column)}).")
        return Problem(row, column, f"The column {quoted(column)} {error.advice}.")

    def _columns_read_as(self) -> list[str]:
        """Say how columns were read, if the file uses unusual names or has variables."""
        variables = [key for key in self.free if key not in self.members and self._is_variable(key)]
        is_usual = all(self.columns.names[name][0] == key for name, key in self.assigned.items())
        if not self.columns.has_variables or (is_usual and not variables):
            return []
        labels = [(key, f"the {self.columns.labels[name]}") for name, key in self.assigned.items()]
        labels += [(key, "a variable") for key in variables]
        words = [f"{quoted(self.written[key])} as {label}" for key, label in labels]
        return [f"Columns were read as follows: {join_names(words, len(words))}."]

    def _columns_not_used(self) -> list[str]:
        """Name the columns that were not used."""
        unused = [
            quoted(self.written[key])
            for key in self.free
            if key not in self.members
            and not self._is_variable(key)
            and self.chosen.get(key) != UNUSED
        ]
        why = (
            "A variable's name must be one word of letters, digits and underscores, other than "
            "prompt."
            if self.columns.has_variables
            else "Answers have no other columns."
        )
        return [f"Not used: {join_names(unused)}. {why}"] if unused else []


def _in_braces(rows: Sequence[PromptRow | ResponseRow]) -> list[str]:
    """A notice about prompts that seem to contain a variable: only templates are filled in."""
    prompts = [row for row in rows if isinstance(row, PromptRow)]
    matches = [(row, match[0]) for row in prompts if (match := _BRACES.search(row.text))]
    if not matches:
        return []
    row, braces = matches[0]
    name = quoted(row.external_id) if row.external_id else f"row {row.row:,}"
    more = f" The same goes for {len(matches) - 1:,} more." if len(matches) > 1 else ""
    return [
        f"The text of {name} contains {braces}, which is sent as is: variables belong in a "
        f"candidate's template.{more}"
    ]
