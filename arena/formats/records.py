"""Files of other tools, recognised by their content: one layout for each kind of file.

A layout turns each record of a file (a row of a table, an object of JSON) into rows
in the native format, which are then checked like any other. One file has rows of several kinds, so
it is read once for each kind, and a record with an error is reported in the first of them.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from arena.conversations import Message, answer_fields, clean_messages, prompt_fields
from arena.files.reader import (
    LINE_LIMIT,
    FileError,
    RepeatedColumnError,
    Row,
    Source,
    TooWideError,
    csv_header,
    csv_rows,
    folded,
    is_json,
    json_document,
    json_rows,
)
from arena.files.rows import Values, VoteRow, parse_label
from arena.formats.base import (
    KINDS,
    MEMBER,
    OUTPUT,
    Layout,
    Made,
    SourceRecord,
    check_size,
    decoded,
)
from arena.formats.native import PARSERS
from arena.formats.winners import read_meaning, read_winner
from arena.validation import (
    CATEGORY_LIMIT,
    NAME_LIMIT,
    InputError,
    clean_details,
    clean_time,
    is_unicode,
    join_names,
    json_type,
    quoted,
)

SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
PAIRS = "pairs"
LISTS = ("battles", "votes", "comparisons", "judgments", "rows", "records", "entries")
MOST_SHOWN = 10  # columns
SAMPLES_SHOWN, SAMPLE_LENGTH = 3, 100  # values of a column, and characters of each
MOST_LOOKED_AT, MOST_MEANINGS = 5_000, 30
SAMPLE = 20  # records that are read to tell the layout
# Keys of documents with records.
CONTAINERS = ("results", "data", "items", "observations", "samples", "request_states", "testCases")


def content_id(*content: Any) -> str:
    """Return a prompt's id made from its content, so that the same prompt gets the same id."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


class Records:
    """The records of one file, whatever its syntax, numbered as in `files.reader`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: Any = None
        self.keys: list[str] | None = None  # of JSON Lines or an array, whatever the layout
        self.source = Source.at(path)
        self.is_json = not self.source.is_table and is_json(self.source)
        if self.is_json and self.source.first_character() == "{" and not self._has_lines():
            self.document = json_document(self.source)

    @property
    def is_table(self) -> bool:
        return self.document is None and not self.is_json

    def _has_lines(self) -> bool:
        """Whether the file is JSON Lines; one line alone can be a whole document."""
        first, second = (*islice(json_rows(self.source), 2), None, None)[:2]
        if first and second and first.end - first.start > LINE_LIMIT:
            return True  # its first line is refused as too long
        if first is None or not isinstance(first.content, dict):
            return False
        is_document = any(isinstance(first.content.get(name), list | dict) for name in CONTAINERS)
        is_document |= _as_rows(first.content) != [first.content]
        return second is not None or not is_document

    def names(self, layout: Layout) -> list[str]:
        """The names of the columns, or the keys of the first records."""
        if self.is_table:
            return list(self._header(layout).names)
        if self.keys is None or self.document is not None:
            names: dict[str, None] = {}
            for row in islice(self.rows(layout), SAMPLE):
                if isinstance(row.content, dict):
                    names |= dict.fromkeys(row.content)
            self.keys = list(names)
        return self.keys

    def rows(self, layout: Layout) -> Iterator[Row]:
        """Yield the records with their columns named as written."""
        if self.document is not None:
            elements = _inside(self.document, layout.inside)
            return (
                Row(number, number, 0, 0, _object(element))
                for number, element in enumerate(elements, start=1)
            )
        if self.is_json:
            return json_rows(self.source)
        return csv_rows(self.source, self._header(layout))

    def _header(self, layout: Layout) -> Any:
        return csv_header(
            self.source,
            suffices=lambda names: (
                layout.named <= {*names} and layout.fits(layout.assigned(list(names)))
            ),
            wanted=f"It needs the columns of {layout.wanted}.",
            key=str,
            may_repeat=layout.repeats,
        )


def _object(value: Any) -> Any:
    return value if isinstance(value, dict) else InputError(f"is {quoted(value)}, not an object")


def _inside(document: Any, places: tuple[tuple[str, ...], ...]) -> list[Any]:
    """The records of a document: the list at the first of these paths that exists, or the document
    itself."""
    for place in places:
        records = document
        for name in place:
            records = records.get(name) if isinstance(records, dict) else None
        if isinstance(records, list):
            return records
    return _as_rows(document)


def _as_rows(document: Any) -> list[Any]:
    """The records of a document: a list, one under a usual name, or columns; else itself."""
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        for name in LISTS:
            if isinstance(document.get(name), list):
                return list(document[name])
    return _rows_of_columns(document) or [document]


def _rows_of_columns(document: Any) -> list[Any]:
    """The rows of a table that was written by column, as pandas does; empty if it is none."""
    columns = list(document.values()) if isinstance(document, dict) else []
    if len(columns) < 2:
        return []
    names, data = document.get("columns"), document.get("data")
    if isinstance(names, list) and isinstance(data, list):
        return [dict(zip(names, row, strict=False)) for row in data if isinstance(row, list)]
    if all(isinstance(column, dict) and column.keys() == columns[0].keys() for column in columns):
        return [{name: document[name][key] for name in document} for key in columns[0]]
    if all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        cells = [cell for column in columns for cell in column]
        if not any(isinstance(cell, list | dict) for cell in cells):
            return [dict(zip(document, row, strict=True)) for row in zip(*columns, strict=True)]
    return []


def recognise(
    path: Path, layouts: Iterable[Layout], chosen: Mapping[str, str] | None = None
) -> Layout | None:
    """Return the first layout that fits the file, by its columns or keys, or by chosen ones.

    A tool whose codes have a meaning of its own is recognised by its own names alone.
    """
    chosen = chosen or {}
    if path.suffix.lower() not in SUFFIXES:
        return None
    layouts = list(layouts)
    try:
        records = Records(path)
        if records.is_json:  # what cannot be read is read once, not for each layout
            records.names(layouts[0])
    except FileError:
        return None
    for layout in layouts:
        try:
            is_of_tool = layout.values and layout.name != PAIRS
            others = {f: name for f, name in chosen.items() if f == "winner" or not is_of_tool}
            may_be = all(map(layout.knows, chosen)) and Foreign(layout, others).suits(records)
            if may_be and Foreign(layout, chosen).suits(records):
                return layout
        except RepeatedColumnError:
            raise
        except TooWideError:
            return None
        except FileError:
            continue
    return None


class Foreign:
    """A format for the files of one layout. `chosen` maps fields to columns that a person chose,
    `values` what winners are called to their meanings."""

    def __init__(
        self,
        layout: Layout,
        chosen: Mapping[str, str] | None = None,
        values: Mapping[str, str] | None = None,
    ) -> None:
        self.layout = layout
        self.chosen = dict(chosen or {})
        self.values = {" ".join(value.split()): said for value, said in (values or {}).items()}
        self.NAME, self.TITLE, self.FILES = layout.name, layout.title, layout.title
        # The same prompt, candidate or answer may appear in many records. Imports of plain votes
        # are known by the SHA-256 that they had when they could not.
        self.repeats = layout.name != PAIRS

    def sniff(self, path: Path) -> list[tuple[Path, str]]:
        """Return the file once for each kind of its rows, if it has this layout."""
        if path.is_dir() or path.suffix.lower() not in SUFFIXES:
            return []
        try:
            fields = self.fields(Records(path))
        except RepeatedColumnError:
            raise
        except FileError:
            if self.chosen:
                raise
            return []
        if not self.layout.fits(fields):
            return []
        return [(path, kind) for kind in KINDS if kind in self.layout.kinds(set(fields))]

    def suits(self, records: Records) -> bool:
        """Whether the file has what this layout needs."""
        return self.layout.fits(self.assigned(records.names(self._chosen_layout())))

    def fields(self, records: Records) -> dict[str, str]:
        """Map the fields to the file's columns, as chosen or by their names. Raises FileError."""
        names = records.names(self._chosen_layout())
        fields = self.assigned(names)
        for field, column in self.chosen.items():
            if not self.layout.knows(field):
                raise FileError(
                    f"{self.layout.title} have no field {quoted(field)}. Choose from: "
                    f"{', '.join([*self.layout.columns, *self.layout.several])}."
                )
            if column and column not in names:
                raise FileError(
                    f"{records.path} has no column {quoted(column)}. It has "
                    f"{join_names(map(quoted, names), MOST_SHOWN)}."
                )
            if others := [f for f in self.chosen if column and self.chosen[f] == column][1:]:
                raise FileError(
                    f"The column {quoted(column)} cannot be both {field} and {others[0]}. Choose "
                    "one of them."
                )
        _check_twins(records.path, names, {f: c for f, c in fields.items() if f not in self.chosen})
        return fields

    def assigned(self, names: list[str]) -> dict[str, str]:
        """The fields by the columns' names, then those that were chosen."""
        taken = set(self.chosen.values())
        found = self.layout.assigned(names).items()
        fields = {f: name for f, name in found if name not in taken and f not in self.chosen}
        return fields | {f: name for f, name in self.chosen.items() if name}

    def mapping(self, path: Path) -> tuple[dict[str, str], list[str]]:
        """Return the column of each field, '' for none, and the names of all columns."""
        records = Records(path)
        if isinstance(records.document, dict) or self.layout.has_variables:
            return {}, []
        fields = self.fields(records)
        names = [name for name in records.names(self._chosen_layout()) if is_unicode(name) and name]
        columns = {name: fields.get(name, "") for name in (*self.layout.columns, *fields)}
        return {name: column if column in names else "" for name, column in columns.items()}, names

    def samples(self, path: Path) -> dict[str, list[str]]:
        """Return the first values of each column, as texts."""
        found: dict[str, list[str]] = {}
        for row in islice(Records(path).rows(self._chosen_layout()), SAMPLE):
            for name, cell in row.content.items() if isinstance(row.content, dict) else ():
                values = found.setdefault(name, []) if is_unicode(name) else []
                if cell not in (None, "") and len(values) < SAMPLES_SHOWN:
                    sample = written(cell)[:SAMPLE_LENGTH]
                    values.append(sample.encode(errors="replace").decode())
        return found

    def meanings(self, path: Path) -> dict[str, str]:
        """Return what the winners' values mean: an outcome, `skip` or a preference for left; "" if
        that has to be said. Names of candidates are left out.

        Only the first MOST_LOOKED_AT rows are looked at; nothing is returned for more than
        MOST_MEANINGS values.
        """
        records = Records(path)
        fields = self.fields(records)
        if "winner" not in fields:
            return {}
        names = [name for field, name in fields.items() if field in ("model_a", "model_b")]
        answers = {field: name for field, name in fields.items() if field.startswith("answer:")}
        found = dict[str, str]()
        candidates = {field.partition(":")[2] for field in answers} | {*answers.values()}
        if len(answers) > 2:
            return {}  # of more than two, the winner is a name
        for row in islice(records.rows(self._chosen_layout()), MOST_LOOKED_AT):
            if isinstance(row.content, dict) and len(found) <= MOST_MEANINGS:
                candidates |= {read_name(row.content.get(name)) for name in names}
                cell = row.content.get(fields["winner"])
                if cell not in (None, ""):
                    found.setdefault(" ".join(read_name(cell).split()), "")
        values = {**self.layout.values, **self.values}
        for value in found:
            with suppress(InputError):
                winner = read_winner(value, "", "", values)
                soft = winner.preference
                found[value] = winner.outcome if soft is None else f"{soft:g}"
        if len(found) > MOST_MEANINGS:
            return {}
        return {value: said for value, said in found.items() if value not in candidates}

    def mapping_chosen(self, path: Path) -> dict[str, dict[str, str]]:
        """Return the chosen columns and values that make a difference."""
        usual = Foreign(self.layout)
        columns = usual.assigned(Records(path).names(self._chosen_layout())) if self.chosen else {}
        chosen = {f: name for f, name in self.chosen.items() if columns.get(f, "") != name}
        said = {v: means for v, means in self.values.items() if not self._says_anyway(v, means)}
        return ({"columns": chosen} if chosen else {}) | ({"values": said} if said else {})

    def _says_anyway(self, value: str, means: str) -> bool:
        """Whether a winner's value means this without being told."""
        with suppress(InputError):
            return read_winner(value, "", "", self.layout.values) == read_meaning(means)
        return False

    def _chosen_layout(self) -> Layout:
        """The layout that needs the chosen columns of a header in place of what they are for."""
        if not self.chosen:
            return self.layout
        chosen = {field.partition(":")[0] for field, column in self.chosen.items() if column}
        return replace(
            self.layout,
            needed=tuple(group for group in self.layout.needed if chosen.isdisjoint(group)),
            without=(),
            several=tuple(family for family in self.layout.several if family not in chosen),
            named=frozenset(filter(None, self.chosen.values())),
        )

    def preamble(self, path: Path) -> int:
        """Return the length of a CSV file's header in bytes."""
        records = Records(path)
        if records.document is not None or records.is_json:
            return 0
        return int(records._header(self._chosen_layout()).end)

    def rows(self, path: Path, kind: str) -> Iterator[Row]:
        """Yield the rows of one kind, numbered from 1; a bad record counts as a row of its first
        kind.
        """
        records = Records(path)
        rows = records.rows(self._chosen_layout())
        return self._rows_of_records(records, kind, self.fields(records), rows)

    def _rows_of_records(
        self, records: Records, kind: str, fields: Mapping[str, str], rows: Iterable[Row]
    ) -> Iterator[Row]:
        kinds = self.layout.kinds(set(fields))
        is_first = kind == next((k for k in KINDS if k in kinds), kind)
        of_file = partial(
            SourceRecord,
            path=records.path,
            document=records.document,
            is_table=records.is_table,
            seen={},
            chosen=self.chosen,
            values={**self.layout.values, **self.values},
            columns=fields,
        )
        names, unread = set[str](), tuple[str, ...]()  # of the row before
        number = 0
        for row in rows:
            if isinstance(row.content, dict) and row.content.keys() != names:
                names, unread = {*row.content}, self._unread_columns(row.content, fields)
            made: list[tuple[Any, tuple[str, ...], int]]
            try:
                made = self._made_rows(row, kind, fields, of_file)
            except InputError as error:
                column = fields.get(error.column or "", error.column)
                made = [(InputError(error.reason, column), (), 1)] if is_first else []
            for content, unused, count in made:
                for _ in range(count):
                    number += 1
                    yield Row(number, row.line, row.start, row.end, content, (*unread, *unused))

    def _unread_columns(self, names: Iterable[str], fields: Mapping[str, str]) -> tuple[str, ...]:
        """The names of a record's values that nothing reads."""
        if self.layout.has_variables:
            return ()
        others = [name for name in names if name and name not in fields.values()]
        members = [MEMBER.fullmatch(name) for name in others]
        return tuple(
            name
            for name, member in zip(others, members, strict=True)
            if not (member and member[1].lower() in self.layout.members)
        )

    def _made_rows(
        self, row: Row, kind: str, fields: Mapping[str, str], of_file: partial[SourceRecord]
    ) -> list[tuple[Any, tuple[str, ...], int]]:
        """Return the rows of one kind in a record, all of whose rows must be good, each with what
        it leaves unused, and how often it counts."""
        if isinstance(row.content, InputError):
            raise row.content
        record = of_file(cells={}, row=row.content, line=row.line)
        record.cells = self.layout.cells(row.content, fields, is_table=record.is_table)
        made = [
            (one.kind, self._parsed_made(one, row), one.unread, one.count)
            for one in self.layout.convert(record)
        ]
        return [(content, *more) for made_kind, content, *more in made if made_kind == kind]

    def _parsed_made(self, made: Made, row: Row) -> Any:
        try:
            if made.kind == "labels":
                return parse_label(dict(made.fields))
            # Texts are not a vote's details.
            if self.layout.keeps_rest:
                check_size(row)
            content = PARSERS[made.kind](dict(made.fields), Row(row.number, row.line, 0, 0, None))
        except InputError as error:
            raise InputError(
                error.reason, made.names.get(error.column or "", error.column)
            ) from None
        if isinstance(content, VoteRow):
            content.makes_names = True
            if made.details:
                content.details = clean_details({**content.details, **made.details})
        return content


def _check_twins(path: Path, names: Iterable[str], fields: Mapping[str, str]) -> None:
    """Raise RepeatedColumnError if a column is used, and another has the same name but for case,
    spaces and hyphens."""
    used = {folded(column): column for column in fields.values()}
    for name in names:
        other = used.get(folded(name), name)
        if other != name and not MEMBER.fullmatch(name) and not OUTPUT.fullmatch(name):
            raise RepeatedColumnError(
                f"{path} has the columns {quoted(other)} and {quoted(name)}, which are the same "
                "but for case, spaces and hyphens. Rename or delete one, or choose one."
            )


def written(value: Any) -> str:
    """Return a value as text: a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_messages(value: Any, name: str) -> list[Message]:
    try:
        return clean_messages(value) or []
    except InputError as error:
        raise InputError(error.reason, name) from None


def read_turns(value: Any, name: str) -> list[str]:
    """Return the turns in a cell: a list of texts, or one text; nulls at its end are not turns."""
    turns = list(value) if isinstance(value, list) else [value]
    while len(turns) > 1 and turns[-1] is None:
        turns.pop()
    turns = [""] if turns == [None] else turns
    if not turns or not all(isinstance(turn, str) for turn in turns):
        odd = next((turn for turn in turns if not isinstance(turn, str)), None)
        raise InputError(f"has a turn that is {json_type(odd)}, not text", name)
    return turns


def user_messages(turns: Iterable[str]) -> list[Message]:
    return [{"role": "user", "content": turn} for turn in turns]


def messages_between(questions: list[str], answers: list[str]) -> list[Message]:
    """Return the messages that answer the first question, with the later questions in between."""
    messages: list[Message] = []
    for number, answer in enumerate(answers):
        if number and number < len(questions):
            messages.append({"role": "user", "content": questions[number]})
        messages.append({"role": "assistant", "content": answer})
    return messages


def document_of(record: "SourceRecord") -> str | None:
    """The name of what a prompt comes from; None if the column has texts, not names."""
    value = record.get("document")
    name = "" if value is None else str(value).strip()
    return name if 0 < len(name) <= CATEGORY_LIMIT and "\n" not in name else None


def prompt_row(messages: list[Message], field: str = "prompt", **fields: Any) -> Made:
    given = prompt_fields(messages)
    given = given if given["messages"] is None else {"messages": given["messages"]}
    return Made("prompts", given | filled(fields), {"text": field, "messages": field})


def answer_row(
    candidate: str, prompt: str, answer: str | list[Message], field: str, **figures: Any
) -> Made:
    if isinstance(answer, str):
        answer = [{"role": "assistant", "content": answer}]
    given = answer_fields(answer)
    given = {"text": given["text"]} if given["messages"] is None else {"messages": answer}
    row = given | {"candidate": candidate, "prompt": prompt} | filled(figures)
    return Made("responses", row, {"text": field, "messages": field, "candidate": "model"})


def inside(value: Any, *path: str | int) -> Any:
    """The value at the end of a path of keys and places, None if there is none.

    What is on the way may be written as JSON, as in the cells of tables.
    """
    for step in path:
        value = decoded(value)
        is_there = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        )
        value = value[step] if is_there else None
    return value


def filled(fields: Mapping[str, Any]) -> Values:
    return {name: value for name, value in fields.items() if value not in (None, "")}


def candidate_row(name: str, **fields: Any) -> Made:
    return Made("candidates", {"name": name} | filled(fields), {"name": "model"})


# Times as forms and spreadsheets write them; one with dots has the day first, and one that ends in
# AM or PM the month.
_TIMES = (
    *("%Y/%m/%d %I:%M:%S %p", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d"),
    *("%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p"),
    *("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y"),
)
_ZONE = re.compile(r"(.*\S) ?(?:GMT|UTC|Z)(?:([+-]\d{1,2}):?(\d\d)?)?", re.IGNORECASE)
SECONDS_START = 1e8  # in 1973; smaller numbers are days, as spreadsheets count them
SECONDS_END = 1e11  # in the year 5138; larger numbers are milliseconds, or microseconds


def read_time(value: Any) -> str | None:
    """Return a time in ISO's form; a number is seconds, milliseconds or microseconds since 1970.

    Raises InputError.
    """
    if value is None:
        return None
    written = str(value).strip()
    try:
        number = float(written)
    except ValueError:
        return _read_clock(written)
    if number < SECONDS_START:
        raise InputError(f"is {quoted(value)}, not a time", "time")
    while number > SECONDS_END:
        number /= 1000
    try:
        return datetime.fromtimestamp(number, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        raise InputError(f"is {quoted(value)}, not a time", "time") from None


def _read_clock(written: str) -> str:
    with suppress(InputError):
        if time := clean_time(written):
            return time.isoformat()
    zoned = _ZONE.fullmatch(written)
    local, hours, minutes = zoned.groups() if zoned else (written, None, None)
    zone = timezone(timedelta(hours=int(hours or 0), minutes=int(minutes or 0)))
    for form in _TIMES:
        with suppress(ValueError):
            return datetime.strptime(local, form).replace(tzinfo=zone).isoformat()
    raise InputError(f"is {quoted(written)}, not a time", "time")


def rater_of(record: "SourceRecord") -> Values:
    """The rater, or the judge, of a vote."""
    who = "rater" if record.get("judge") is None else "judge"
    name = decoded(record.get(who))
    if isinstance(name, list) and name:  # a judge model and its prompt, as MT-Bench writes them
        return {"rater": read_name(name[0]), "kind": "judge"}
    return {} if name is None else {"rater": read_name(name)}


MOST_COUNTED = 10_000


def voted(
    record: SourceRecord,
    vote: Values,
    names: Mapping[str, str],
    details: Mapping[str, Any] | None = None,
    *,
    is_one: bool = True,
    count_in: str = "count",
) -> Iterator[Made]:
    """The vote, as often as the record counts; a time that cannot be read costs only the time.

    Of several votes of a record, each has its line as a detail.
    """
    unread: tuple[str, ...] = ()
    try:
        vote |= filled({"cast_at": read_time(record.get("time"))})
    except InputError:
        unread = (f"{record.columns.get('time', 'time')} (where the time cannot be read)",)
    count = 1
    if record.get(count_in) is not None:
        written = str(record.get(count_in)).strip().removesuffix(".0")
        count = int(written) if written.isdecimal() and len(written) < 6 else MOST_COUNTED + 1
        if count > MOST_COUNTED:
            raise InputError(
                f"is {quoted(written)}, not a whole number of votes up to {MOST_COUNTED:,}",
                count_in,
            )
    line = {"line": record.line} if count > 1 or not is_one else {}
    if count:
        yield Made("votes", vote, names, unread, {**(details or {}), **line}, count)


def name_of_prompt(record: "SourceRecord", value: Any) -> str:
    """The id of a prompt that is only named; a longer text gets one from its content."""
    name = read_name(value)
    return name if len(name) <= NAME_LIMIT and "\n" not in name else content_id(name)


NOTHING = ("", "unknown", "nan", "none", "null", "n/a", "na")


def category_of(record: "SourceRecord", field: str) -> str | None:
    """The category in a cell; None for what programs write where there is none."""
    value = record.get(field)
    name = "" if value is None else written(value).strip()
    return None if name.lower() in NOTHING else name


def read_name(value: Any) -> str:
    """Return a candidate's or prompt's id as text; of an object, what names it."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("name", "model", "id") if value.get(key)), value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() if isinstance(value, str | int | float) else written(value)


Place = float | None  # of a candidate: higher is better; None is not placed
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3},[0-9]{3}")


def read_place(value: Any, field: str) -> Place:
    """A score as a number; None for an empty cell. Raises InputError."""
    written = "" if value is None else str(value).strip()
    if written.lower() in NOTHING:
        return None
    if _THOUSANDS.fullmatch(written):
        raise InputError(f"is {quoted(written)}, where the comma is ambiguous", field)
    try:
        place = float(written.replace(",", ".").removesuffix("%"))
    except ValueError:
        place = math.nan
    if isinstance(value, bool) or not math.isfinite(place):
        raise InputError(f"is {quoted(value)}, not a number", field)
    return place


def read_number(record: SourceRecord, field: str) -> float:
    value = record.need(field)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"is {quoted(value)}, not a number", field) from None


def read_text(record: SourceRecord, field: str, *, may_be_empty: bool = False) -> str:
    value = record.answer(field) if may_be_empty else record.need(field)
    if not isinstance(value, str):
        raise InputError(f"is {json_type(value)}, not text", field)
    return value


def prompt_id(record: SourceRecord, *content: Any) -> str:
    given = record.get("id")
    return content_id(*content) if given is None else read_name(given)


INPUTS = ("messages", "question", "prompt", "input", "query", "text", "instruction", "user_input")
ANSWERS = ("messages", "message", "answer", "output", "response", "text", "content", "completion")
OUTPUTS = (*ANSWERS, "generations", "choices")


def read_conversation(value: Any, role: str, names: tuple[str, ...], field: str) -> list[Message]:
    """Return the messages in a tool's input or output: a text, messages, or an object that has
    either.
    """
    value = _unpacked(value)
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, list) and len(value) == 1 and not _is_message(value[0]):
        return read_conversation(value[0], role, names, field)
    if isinstance(value, list) and any(_is_message(_unpacked(element)) for element in value):
        return read_chat(value, field)
    if _is_message(value):
        return read_chat([value], field)
    if isinstance(value, dict):
        name = next((name for name in names if value.get(name) not in (None, "")), "")
        name = name or (next(iter(value)) if len(value) == 1 else "")
        if name:
            return read_conversation(value[name], role, names, field)
    if value in (None, "", [], {}):
        raise InputError("is empty", field)
    return [{"role": role, "content": json.dumps(value, ensure_ascii=False, indent=2)}]


def read_chat(value: Any, field: str) -> list[Message]:
    """Return the messages in a list, as OpenAI, LangChain or ShareGPT write them."""
    is_list = isinstance(value, list)
    return read_messages([_spoken(_unpacked(e)) for e in value] if is_list else value, field)


def _unpacked(value: Any) -> Any:
    """A LangChain object without its wrapping; the arguments of a call that Langfuse traced."""
    arguments = value.get("kwargs") if isinstance(value, dict) else None
    if not isinstance(arguments, dict):
        return value
    if value.get("type") == "constructor" or (arguments and value.keys() == {"args", "kwargs"}):
        return arguments
    args = value.get("args")
    texts = [text for text in args if isinstance(text, str)] if isinstance(args, list) else []
    return {"input": texts[0]} if value.keys() == {"args", "kwargs"} and len(texts) == 1 else value


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and (
        "role" in value or value.keys() >= {"type", "content"} or value.keys() >= {"from", "value"}
    )


def _spoken(message: Any) -> Any:
    """Return a message with role and content; LangChain has `type`, ShareGPT `from` and `value`."""
    if not isinstance(message, dict):
        return message
    role = message.get("role") or message.get("type") or message.get("from")
    return message | {"role": role, "content": message.get("content", message.get("value"))}
