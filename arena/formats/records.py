"""Files of other tools, recognised by their content: one layout for each kind of file.

A layout turns each record of a file (a row of CSV or Parquet, an object of JSON or YAML) into rows
in the native format, which are then checked like any other. One file has rows of several kinds, so
it is read once for each kind, and a record with an error is reported in the first of them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from arena.conversations import Message, answer_fields, clean_messages, prompt_fields
from arena.files.columns import csv_blocks, read_ahead
from arena.files.reader import (
    LINE_LIMIT,
    FileError,
    RepeatedColumnError,
    Row,
    Source,
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
    Layout,
    Made,
    SourceRecord,
    VoteColumns,
    check_one_vote_a_row,
    decoded,
    read_yaml,
)
from arena.formats.native import PARSERS
from arena.formats.pairs import PLAIN_TIME, vote_parts
from arena.validation import CATEGORY_LIMIT, InputError, is_unicode, join_names, json_type, quoted

SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".yaml", ".yml")
TIMES = rf"{PLAIN_TIME}|^\d{{9,10}}(\.\d{{1,9}})?$"  # ISO, or seconds since 1970
# The fields of plain votes, and what they are called in `pairs`.
PLAIN_VOTES = {"model_a": "left", "model_b": "right", "winner": "winner", "id": "prompt"}
PLAIN_VOTES |= {"judge": "worker", "rater": "worker", "time": "cast_at"}
PLAIN_VOTES |= {"language": "language", "turn": "turn"}
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
        if path.suffix.lower() in (".yaml", ".yml"):
            self.document = read_yaml(path)
            return
        self.source = Source.at(path)
        self.is_json = self.source.encoding != "Parquet" and is_json(self.source)
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
        header = csv_header(
            self.source,
            suffices=lambda names: layout.fits(layout.assigned(list(names))),
            wanted=f"It needs the columns of {layout.wanted}.",
            may_repeat=layout.repeats,
        )
        return replace(header, keys=header.names)


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
    return document if isinstance(document, list) else [document]


def recognise(path: Path, layouts: Iterable[Layout]) -> Layout | None:
    """Return the first layout that fits the file, by its columns or keys."""
    if path.suffix.lower() not in SUFFIXES:
        return None
    try:
        records = Records(path)
    except FileError:
        return None
    for layout in layouts:
        try:
            if layout.fits(layout.assigned(records.names(layout))):
                return layout
        except RepeatedColumnError:
            raise
        except FileError:
            continue
    return None


class Foreign:
    """A format for the files of one layout. `chosen` maps fields to columns that a person chose."""

    repeats = True  # the same prompt, candidate or answer may appear in many records

    def __init__(self, layout: Layout, chosen: Mapping[str, str] | None = None) -> None:
        self.layout = layout
        self.chosen = dict(chosen or {})
        self.NAME, self.TITLE, self.FILES = layout.name, layout.title, layout.title

    def sniff(self, path: Path) -> list[tuple[Path, str]]:
        """Return the file once for each kind of its rows, if it has this layout."""
        if path.is_dir() or path.suffix.lower() not in SUFFIXES:
            return []
        try:
            fields = self.fields(Records(path))
        except FileError:
            return []
        if not self.layout.fits(fields):
            return []
        return [(path, kind) for kind in KINDS if kind in self.layout.kinds(set(fields))]

    def fields(self, records: Records) -> dict[str, str]:
        """Map the fields to the file's columns, as chosen or by their names."""
        names = records.names(self._chosen_layout())
        fields = self.layout.assigned(names)
        for name, column in self.chosen.items():
            if name in self.layout.columns:
                fields.pop(name, None)
                if column:
                    fields[name] = column
        return fields

    def mapping(self, path: Path) -> tuple[dict[str, str], list[str]]:
        """Return the column of each field, '' for none, and the names of all columns."""
        records = Records(path)
        if isinstance(records.document, dict) or self.layout.has_variables:
            return {}, []
        fields = self.fields(records)
        names = [name for name in records.names(self._chosen_layout()) if is_unicode(name) and name]
        columns = {name: fields.get(name, "") for name in self.layout.columns}
        return {name: column if column in names else "" for name, column in columns.items()}, names

    def _chosen_layout(self) -> Layout:
        """The layout with the chosen columns as further names of their fields."""
        names = {
            name: (*((folded(self.chosen[name]),) if self.chosen.get(name) else ()), *known)
            for name, known in self.layout.columns.items()
        }
        return replace(self.layout, columns=names)

    def parts(self, path: Path) -> Iterable[Path]:
        """The other files that the file refers to."""
        return self.layout.parts(path)

    def preamble(self, path: Path) -> int:
        """Return the length of a CSV file's header in bytes."""
        records = Records(path)
        if records.document is not None or records.is_json:
            return 0
        return int(records._header(self._chosen_layout()).end)

    def blocks(self, path: Path, kind: str) -> Iterator[VoteColumns | list[Row]]:
        """Yield each row by itself, but plain votes as columns."""
        records = Records(path)
        fields = self.fields(records)
        names = {column: PLAIN_VOTES.get(name, "") for name, column in fields.items()}
        is_plain = all(names.values()) and len({*names.values()}) == len(names)
        if not (self.layout.has_plain_votes and is_plain and records.is_table):
            yield from ([row] for row in self.rows(path, kind))
            return
        header, done = records._header(self._chosen_layout()), 0
        check_one_vote_a_row(path, header.names, fields.values())
        unread = self._unread_columns(header.names, fields)
        # Other columns are not read, whatever they are called.
        keys = [names.get(name, name and f"{n} {name}") for n, name in enumerate(header.names)]
        in_parts = partial(vote_parts, times=TIMES)
        blocks = csv_blocks(records.source, replace(header, keys=keys))
        for part in chain.from_iterable(read_ahead(in_parts, blocks)):
            if isinstance(part, VoteColumns):
                done += len(part)
                yield replace(part, unread=unread)
                continue
            rows = replace(part, header=header).rows()
            for row in self._rows_of_records(records, kind, fields, rows, done):
                done = row.number
                yield [row]

    def rows(self, path: Path, kind: str) -> Iterator[Row]:
        """Yield the rows of one kind, numbered from 1; a bad record counts as a row of its first
        kind.
        """
        records = Records(path)
        rows = records.rows(self._chosen_layout())
        return self._rows_of_records(records, kind, self.fields(records), rows)

    def _rows_of_records(
        self,
        records: Records,
        kind: str,
        fields: Mapping[str, str],
        rows: Iterable[Row],
        number: int = 0,
    ) -> Iterator[Row]:
        kinds = self.layout.kinds(set(fields))
        is_first = kind == next((k for k in KINDS if k in kinds), kind)
        if kind == "votes":
            columns = records.names(self._chosen_layout())
            check_one_vote_a_row(records.path, columns, fields.values())
        of_file = SourceRecord(
            {}, {}, records.path, records.document, records.is_table, chosen=self.chosen
        )
        names, unread = set[str](), tuple[str, ...]()  # of the row before
        for row in rows:
            if isinstance(row.content, dict) and row.content.keys() != names:
                names, unread = {*row.content}, self._unread_columns(row.content, fields)
            made: list[Any]
            try:
                made = self._made_rows(row, kind, fields, of_file)
            except InputError as error:
                column = fields.get(error.column or "", error.column)
                made = [(InputError(error.reason, column), ())] if is_first else []
            for content, unused in made:
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
        self, row: Row, kind: str, fields: Mapping[str, str], of_file: SourceRecord
    ) -> list[tuple[Any, tuple[str, ...]]]:
        """Return the rows of one kind in a record, all of whose rows must be good, each with what
        it leaves unused."""
        if isinstance(row.content, InputError):
            raise row.content
        cells = self.layout.cells(row.content, fields, is_table=of_file.is_table)
        made = [
            (converted.kind, self._parsed_made(converted, row), converted.unread)
            for converted in self.layout.convert(replace(of_file, cells=cells, row=row.content))
        ]
        return [(content, unread) for made_kind, content, unread in made if made_kind == kind]

    def _parsed_made(self, made: Made, row: Row) -> Any:
        try:
            if made.kind == "labels":
                return parse_label(dict(made.fields))
            # Without the row's size: its texts are not a vote's details.
            content = PARSERS[made.kind](dict(made.fields), replace(row, start=0, end=0))
        except InputError as error:
            raise InputError(
                error.reason, made.names.get(error.column or "", error.column)
            ) from None
        if isinstance(content, VoteRow):
            content.makes_names = True
        return content


OWN = (
    "Ringside's own, recognised by the file's name: prompts.jsonl (id, text or messages), "
    "candidates.jsonl (name), responses.jsonl (candidate, prompt, text or messages) and "
    "votes.jsonl (a, b, outcome or preference_b)"
)


def unknown_layout(path: Path, layouts: Mapping[str, Layout]) -> str:
    """Say which columns a file has, and which ones the layouts need; raises FileError for a file
    that cannot be read at all."""
    titles = "; ".join([OWN, *(layout.wanted for layout in layouts.values())])
    records = Records(path)
    if records.document is None and not records.is_json:
        with records.source.open() as stream:
            first = stream.readline(500).decode("utf-8", "replace").strip()
        is_json = path.suffix.lower() in (".json", ".jsonl", ".ndjson")
        why = ", but JSON begins with { or [: correct that" if is_json else ""
        return f"It begins with {quoted(first)}{why}. Known formats to export it in: {titles}."
    names = records.names(next(iter(layouts.values())))
    if not names:
        return f"It has no objects. Known formats to export it in: {titles}."
    has = f"It has the keys {join_names(map(quoted, names))}. Rename them to match one of:"
    return f"{has} {titles}."


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


def read_time(value: Any) -> Any:
    """Return an ISO time; a number is seconds since 1970."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return value
    try:
        return None if value is None else datetime.fromtimestamp(value, UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        raise InputError(f"is {quoted(value)}, not a time", "time") from None


def read_name(value: Any) -> str:
    """Return a candidate's or prompt's id as text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() if isinstance(value, str | int | float) else written(value)


def read_number(record: SourceRecord, field: str) -> float:
    value = record.need(field)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"is {quoted(value)}, not a number", field) from None


def read_text(record: SourceRecord, field: str) -> str:
    value = record.need(field)
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
