"""The interface of import formats, the checks of rows against each other and the arena, and the
layouts of other tools' files.

A format turns one kind of file into rows, without the database. An unusable row yields an
InputError in its place; an unusable file raises FileError.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from arena.checks import Rule
from arena.files.reader import ENCODINGS, LINE_LIMIT, FileError, Row, folded, guess_encoding
from arena.files.rows import CandidateRow, ImportRow, PromptRow, ResponseRow, Values, VoteRow
from arena.validation import DETAILS_LIMIT, InputError, decode_json, join_names, quoted

# The kinds of rows, and what one of them is called
KINDS = {
    "prompts": "prompt",
    "candidates": "candidate",
    "responses": "response",
    "votes": "vote",
}
# Fields other than a row's content
NOT_CONTENT = {"row", "external_id", "name", "retired", "showcased", "checks", "merged_into"}
FIRST_SHOWN = 20
LINES_SHOWN = 5  # with the same fault
MOST_UNREAD = 100  # columns to name
MOST_NAMES = 5_000  # of columns or keys, among which a layout looks for its own


@dataclass
class ImportFile:
    """A file to import; `kind` (one of KINDS) is the kind of its rows, and `unread` are its columns
    that are used for no kind, quoted."""

    path: Path
    kind: str
    format: "Format"
    unread: list[str] = field(default_factory=list)
    most_rows: int = sys.maxsize

    def note(self, number: int, unread: Sequence[str] = ()) -> None:
        """Note that a row was read. Raises FileError if there are more than `most_rows`."""
        if number > self.most_rows:
            raise FileError(
                f"{self.path} has more than {self.most_rows:,} rows. Split it, or import it with "
                "manage.py import_arena."
            )
        if unread and len(self.unread) < MOST_UNREAD:
            names = map(quoted, unread[:MOST_UNREAD])
            self.unread += [name for name in names if name not in self.unread]

    def rows(self) -> Iterator[Row]:
        return self.format.rows(self.path, self.kind)


class Format(Protocol):
    """What turns files into rows: `native`, or a layout (`records.Foreign`)."""

    NAME: str
    TITLE: str  # what such a file is called, for people
    FILES: str  # the names of files in this format, for people
    repeats: bool  # whether the same row may appear in many records

    def sniff(self, path: Path) -> list[tuple[Path, str]]:
        """Return the files at `path` in this format, each with the kind of its rows (of KINDS)."""

    def preamble(self, path: Path) -> int:
        """Return the header's length in bytes; the file of rejected rows gets the same header."""

    def rows(self, path: Path, kind: str) -> Iterator[Row]:
        """Yield every row of a file, good or bad, in the order of the file.

        Numbers ascend and must not change between releases: an interrupted import resumes by
        number.
        """


def parsed(
    rows: Iterator[Row],
    parse: Callable[[Values, Row], ImportRow],
    known: Collection[str] | None = None,
) -> Iterator[Row]:
    """Yield the rows with their values turned into objects by `parse`, or into an InputError; the
    objects have only `known` values.
    """
    for row in rows:
        if isinstance(row.content, dict):
            if known is not None:
                row.unread = tuple(name for name in row.content if name not in known)
            try:
                row.content = parse(row.content, row)
            except InputError as error:
                row.content = error
        yield row


def check_size(row: Row) -> None:
    """Raise InputError for a vote whose further columns would fill the database."""
    if (size := row.end - row.start) > DETAILS_LIMIT:
        raise InputError(f"is {size:,} bytes long; the limit for a vote is {DETAILS_LIMIT:,}")


@dataclass
class RejectedRows:
    """The first faults in words, each with the lines that have it; the number of bad rows; and a
    hint at the encoding."""

    faults: dict[tuple[Path, str], list[int]] = field(default_factory=dict)
    count: int = 0
    hint: str = ""

    def add(self, path: Path, line: int, error: InputError) -> None:
        self.count += 1
        name = (error.column or "").encode(errors="replace").decode()
        fault = path, f"{f', column {name}' if name else ''}: {error.advice}"
        if fault in self.faults or len(self.faults) < FIRST_SHOWN:
            self.faults.setdefault(fault, []).append(line)
        if "UTF-8" in error.reason and not self.hint:
            with path.open("rb") as stream:
                codec = guess_encoding(stream.read(LINE_LIMIT))
            seems = f" and seems to be {ENCODINGS[codec]}" if codec else ""
            self.hint = f"{path} is not UTF-8 throughout{seems}. Save it as UTF-8."

    def rename(self, new_name: Callable[[str], str]) -> None:
        """Use other names of the files."""
        self.faults = {
            (Path(new_name(str(path))), words): lines
            for (path, words), lines in self.faults.items()
        }
        self.hint = new_name(self.hint)

    @property
    def first(self) -> list[str]:
        return [f"{path}, {_lines(at)}{words}" for (path, words), at in self.faults.items()]

    @property
    def lines(self) -> list[str]:
        more = self.count - sum(map(len, self.faults.values()))
        lines = [*self.first, f"... and {more:,} more bad rows." if more else "", self.hint]
        return [line for line in lines if line]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def _lines(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {join_names(list(map(str, numbers)), LINES_SHOWN)}"


@dataclass
class Known:
    """Digests of an arena's content, by name; responses by candidate and prompt."""

    prompts: dict[str, bytes] = field(default_factory=dict)
    candidates: dict[str, bytes] = field(default_factory=dict)
    responses: dict[tuple[str, str], bytes] = field(default_factory=dict)


def content_digest(row: type[Any], source: object) -> bytes:
    """Digest the content, without the name, of a `row` or of the model instance made from one."""
    names = [field.name for field in fields(row) if field.name not in NOT_CONTENT]
    return digest(*(getattr(source, name) for name in names))


def digest(*content: object) -> bytes:
    """Return a digest of 16 bytes."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class Checker:
    """Checks rows in the order in which they would be written."""

    def __init__(self, known: Known) -> None:
        self.known = known
        # Contents by name: files of other tools name the same thing in many records.
        self.prompts: dict[str, bytes] = {}
        self.candidates: dict[str, bytes] = {}
        self.aliases: set[str] = set()
        self.checks: set[tuple[str, str]] = set()  # by prompt
        # Numbers stand for names, to save memory: answers are as many as prompts times candidates.
        self.numbers: dict[tuple[str, str], int] = {}
        self.answered: dict[tuple[int, int], bytes] = {}
        self.repeats = False
        self._checks: dict[type, Callable[[Any], None]] = {
            PromptRow: self._check_prompt,
            CandidateRow: self._check_candidate,
            ResponseRow: self._check_response,
            VoteRow: self._check_vote,
        }

    def check(self, row: ImportRow, *, repeats: bool = False) -> bool:
        """Return whether `row` is new; raise InputError if it contradicts the arena or another row.

        With `repeats`, a row may already exist with the same content, and a row that only names a
        candidate of the arena does not change it.
        """
        self.repeats = repeats
        before = len(self.prompts), len(self.candidates), len(self.answered)
        self._checks[type(row)](row)
        after = len(self.prompts), len(self.candidates), len(self.answered)
        return after != before or isinstance(row, VoteRow)

    def _check_prompt(self, prompt: PromptRow) -> None:
        prompt_before = self.known.prompts.get(prompt.external_id)
        content = content_digest(PromptRow, prompt)
        self._check_new("id", prompt.external_id, self.prompts, prompt_before, content)
        for check in prompt.checks:
            rule = Rule(check["kind"], check["expected"], check["negated"])
            self.checks.add((prompt.external_id, rule.digest))

    def _check_candidate(self, candidate: CandidateRow) -> None:
        before = None if self.repeats else self.known.candidates.get(candidate.name)
        content = content_digest(CandidateRow, candidate)
        if candidate.merged_into:
            self._check_merge(candidate)
        self._check_new("name", candidate.name, self.candidates, before, content)

    def _check_merge(self, candidate: CandidateRow) -> None:
        target = candidate.merged_into
        if target in self.aliases or target == candidate.name or target not in self.candidates:
            raise InputError(
                f"is {quoted(target)}, which is not the name of a candidate in an earlier row that "
                "is merged into none itself",
                "merged_into",
            )
        self.aliases.add(candidate.name)

    def _check_new(
        self, column: str, name: str, seen: dict[str, bytes], known: bytes | None, content: bytes
    ) -> None:
        if name in seen and not self.repeats:
            raise InputError(f"{quoted(name)} is already in an earlier row", column)
        if seen.get(name, content) != content:
            raise InputError(
                f"{quoted(name)} is already in an earlier row, with other content", column
            )
        if known is not None and known != content:
            raise InputError(
                f"{quoted(name)} is already in the arena, with other content; import the file into"
                " a new arena, or leave the row out",
                column,
            )
        seen[name] = content

    def _check_response(self, response: ResponseRow) -> None:
        self._must_have("candidate", response.candidate)
        self._must_have("prompt", response.prompt_id)
        names = (("candidate", response.candidate), ("prompt", response.prompt_id))
        candidate, prompt = (self.numbers.setdefault(name, len(self.numbers)) for name in names)
        key = candidate, prompt
        content = digest(response.text, response.messages)
        is_repeated = self.repeats and self.answered.get(key) == content
        if key in self.answered and not is_repeated:
            raise InputError(
                f"{quoted(response.candidate)} has already answered this prompt; use a different "
                "name for each model",
                "candidate",
            )
        before = self.known.responses.get((response.candidate, response.prompt_id))
        if before is not None and before != content:
            raise InputError("differs from this candidate's answer in the arena", "text")
        self.answered[key] = content

    def _check_vote(self, vote: VoteRow) -> None:
        if vote.left == vote.right:
            column = "right" if vote.makes_names else "b"
            raise InputError(f"{quoted(vote.right)} is compared with itself", column)
        if vote.makes_names:
            return
        self._must_have("a", vote.left, "candidate")
        self._must_have("b", vote.right, "candidate")
        if vote.prompt:
            self._must_have("prompt", vote.prompt)

    def _must_have(self, column: str, name: str, kind: str = "") -> None:
        kind = kind or column
        if kind == "prompt":
            is_known = name in self.prompts or name in self.known.prompts
        else:
            is_known = name in self.candidates or name in self.known.candidates
        if not is_known:
            raise InputError(
                f"there is no {kind} {quoted(name)}; import the file that has it as well", column
            )


OUTPUT = re.compile(r"\[([^\]]+)\] (.*)", re.DOTALL)  # a column of answers: `[provider] prompt`
# A member of an object: `inputs.question`, as pandas writes it, or `input_question`, as LangSmith
# does.
MEMBER = re.compile(r"(\w+\.|(?:in|out)put_(?!tokens|[a-z\d]$))(.+)", re.IGNORECASE | re.DOTALL)


# Columns of which a table has one for each candidate.
FAMILIES = {
    "answer": re.compile(
        r"(?:answer|response|reply|output|completion)s?(?:[ _-]*(?:of|by|from|:)[ _-]+|[ _:-]+)"
        r"(?!(?:id|time|length|tokens?|count|cost|score|date|quality)s?$)(.+)",
        re.IGNORECASE,
    ),
    "rating": re.compile(
        r"(?:rating|score|grade|points?|stars?)s?(?:[ _-]*(?:of|for|by|:)[ _-]+| +|: *)(.+)",
        re.IGNORECASE,
    ),
    "rank": re.compile(
        r"(?:rank(?:ing)?|place)(?:[ _-]*(?:of|for|:)[ _-]+| +|: *)(?!\d+$)(.+)", re.IGNORECASE
    ),
}
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[a-zA-Z])(?=\d+$)")  # modelA, model1
# Mechanical Turk: `Input.model_a`, `Answer.winner`; Toloka: `INPUT:left`, `OUTPUT:result`.
_ASKED = re.compile(r"(?:INPUT:|OUTPUT:|ASSIGNMENT:|Input\.|Answer\.)(.+)")
# The two sides of a pair, in names of columns.
SIDES = {"@a": ("a", "1", "left", "x", "first"), "@b": ("b", "2", "right", "y", "second")}

# What columns are called, whatever the layout: in one, `$winner` is the field `winner` with these
# names.
USUAL = """
model_a=left,model_@a,candidate_@a,item_@a,system_@a,option_@a,variant_@a,player_@a,assistant_@a
model_a=generator_@a,model_name_@a,@a_model,name_@a,white,a
model_b=right,model_@b,candidate_@b,item_@b,system_@b,option_@b,variant_@b,player_@b,assistant_@b
model_b=generator_@b,model_name_@b,@b_model,name_@b,black,b
response_a=response_@a,answer_@a,output_@a,reply_@a,completion_@a,text_@a,@a_response,@a_answer
response_b=response_@b,answer_@b,output_@b,reply_@b,completion_@b,text_@b,@b_response,@b_answer
winner=winner,label,labels,preferred,pairwise,verdict,vote,choice,result,flag,better,best,pw
winner=chosen_model_name,overall_preference,human_preference,preference,who_won,winning_model
winner=preferred_model,preferred_answer,preferred_response,better_answer,better_response
winner=which_is_better,which_answer_is_better,which_response_is_better,which_reply_is_better
winner=which_one_is_better,which_model_is_better,which_do_you_prefer,your_choice,decision
winner=chosen,chosen_model,chosen_side,selected,selected_model,human_label,annotation,winner_name
winner=which_is_best,which_answer_is_best,favourite,favorite
prompt=prompt,question,instruction,input,query,task,text,context,history
id=question_id,prompt_id,item_id,task_id,example_id,id,uid
category=category,topic,domain,subset
rater=rater,worker,annotator,user,username,evaluator,worker_id,workerid,annotator_id,rater_id
rater=user_id,respondent_id,email,email_address
time=cast_at,timestamp,tstamp,created_at,time,date,startdate
count=count,counts,weight,weights,times
"""


@dataclass(frozen=True)
class Made:
    """`count` rows in the native format; `names`: the record's fields behind its columns; `unread`:
    what is not used as it was meant; `details`: further ones of a vote."""

    kind: str
    fields: Values
    names: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    count: int = 1


@dataclass(slots=True)
class SourceRecord:
    """One record: its known cells by field, and all of them as written.

    `path` is the file, and `is_table` whether its cells are texts; `document` is what surrounds the
    records; a layout keeps in `seen` what it needs from earlier records; `chosen` are the fields
    whose columns a person chose; `values` says what winners' values mean; `columns` maps fields to
    columns; `line` is where the record begins.
    """

    cells: Values
    row: Values
    path: Path
    document: Any = None
    is_table: bool = False
    seen: dict[Any, Any] = field(default_factory=dict)
    chosen: Collection[str] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    line: int = 0

    def each(self, family: str) -> dict[str, Any]:
        """The cells of a family of columns, by candidate."""
        prefix = f"{family}:"
        return {
            name.removeprefix(prefix): cell
            for name, cell in self.cells.items()
            if name.startswith(prefix)
        }

    @property
    def rest(self) -> Values:
        """The cells that no field has."""
        used = {*self.columns.values(), ""}
        return {name.lower(): cell for name, cell in self.row.items() if name not in used}

    @property
    def stem(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    def get(self, name: str) -> Any:
        """The cell of a field; an empty text is None."""
        value = self.cells.get(name)
        return None if isinstance(value, str) and not value.strip() else value

    def need(self, name: str) -> Any:
        """The cell of a field; raises InputError if it is missing or empty."""
        value = self.get(name)
        if value is None:
            raise InputError("is missing" if name not in self.cells else "is empty", name)
        return value

    def answer(self, name: str) -> Any:
        """The cell of an answer, which may be an empty text; raises InputError if there is none."""
        value = self.cells.get(name)
        return self.need(name) if value is None else value


@dataclass(frozen=True)
class Layout:
    """One layout of files.

    `columns`: the names that files use for each field. `needed`: groups of fields; a file must have
    one field of each group. `inside`: where a JSON document has its records, if not at its top.
    `encoded`: fields that are JSON in a text, and `encoded_cells` those that are so in tables;
    `chat_cells`: those in tables that may be a list of messages. Every other text is taken as it
    is, even if it is JSON: that may be the answer.
    `has_variables`: further columns are variables.
    `members`: prefixes of columns that are members of an object.
    `repeats`: several columns of a table may have the same name.
    `values`: what its winners' values mean. `keeps_rest`: further columns are the vote's details.
    `several`: families of columns, one for each candidate, as fields `answer:NAME`.
    `named`: headings that a table must have.
    """

    name: str
    title: str
    columns: Mapping[str, tuple[str, ...]]
    needed: tuple[tuple[str, ...], ...]
    kinds: Callable[[set[str]], tuple[str, ...]]
    convert: Callable[[SourceRecord], Iterator[Made]]
    without: tuple[str, ...] = ()
    inside: tuple[tuple[str, ...], ...] = ()
    encoded: Collection[str] = ()
    encoded_cells: Collection[str] = ()
    chat_cells: Collection[str] = ()
    has_variables: bool = False
    members: Collection[str] = ()
    repeats: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    keeps_rest: bool = False
    several: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()

    def assigned(self, names: Iterable[str]) -> dict[str, str]:
        """Map each field that the file has to the column's name, as written."""
        names = tuple(islice(names, MOST_NAMES))
        written = _columns_by_key(names)
        columns = {
            field: next((written[name] for name in known if name in written), "")
            for field, known in self.columns.items()
        }
        fields = {field: name for field, name in columns.items() if name}
        for family in self.several:
            free = [name for name in names if name and name not in fields.values()]
            matches = {name: FAMILIES[family].fullmatch(name.strip()) for name in free}
            fields |= {f"{family}:{match[1]}": name for name, match in matches.items() if match}
        return fields

    def fits(self, fields: Mapping[str, str]) -> bool:
        return not self.missing(fields) and not any(name in fields for name in self.without)

    def missing(self, fields: Mapping[str, str]) -> list[str]:
        """What a file with these fields lacks, in words."""
        lacks = [
            " or ".join(self.columns[name][0] for name in group)
            for group in self.needed
            if not any(name in fields for name in group)
        ]
        return lacks + [
            f"{family} of NAME, for two or more names"
            for family in self.several
            if sum(name.startswith(f"{family}:") for name in fields) < 2
        ]

    def knows(self, field: str) -> bool:
        """Whether a column can be chosen for this field."""
        return field in self.columns or field.partition(":")[0] in self.several

    def cells(self, row: Values, fields: Mapping[str, str], *, is_table: bool) -> Values:
        """Return the cells of a record by field; those that the layout has as JSON, decoded."""
        cells = {name: row[column] for name, column in fields.items() if column in row}
        encoded = {*self.encoded, *(self.encoded_cells if is_table else ())}
        cells |= {name: decoded(cells[name]) for name in encoded & cells.keys()}
        if is_table:
            chats = cells.keys() & {*self.chat_cells}
            cells |= {name: decoded_chat(cells[name]) for name in chats}
        return cells

    @property
    def wanted(self) -> str:
        """The columns that a file must have, in words."""
        return f"{self.title} ({', '.join(self.missing({}))})"


@lru_cache(8)  # every layout asks for the same file
def _columns_by_key(names: tuple[str, ...]) -> Mapping[str, str]:
    """The names by what layouts call them: folded, or as members of an object."""
    written: dict[str, str] = {}
    for name in names:
        written.setdefault("[output]" if OUTPUT.fullmatch(name) else folded(name), name)
        if member := MEMBER.fullmatch(name):
            written.setdefault(folded(member[1]), name)
    for name in names:
        written.setdefault(folded(CAMEL.sub("_", name)), name)
        if asked := _ASKED.fullmatch(name):
            written.setdefault(folded(asked[1]), name)
    return written


def decoded(value: Any) -> Any:
    """Return what a text encodes as JSON (a list, object or text); else the value itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{", '"'):
        try:
            return decode_json(value)
        except InputError:
            return value
    return value


def decoded_chat(value: Any) -> Any:
    """Return the list of messages that a text encodes; else the value itself."""
    chat = decoded(value)
    are_messages = isinstance(chat, list) and all(
        isinstance(message, dict) and message.keys() & {"role", "from"} for message in chat
    )
    return chat if chat and are_messages else value


Convert = Callable[[SourceRecord], Iterator[Made]]


def layouts(
    table: str,
    converts: Mapping[str, Convert],
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[Layout, ...]:
    """Return the layouts of a table, with what converts the records of each, and further options.

    Each is `name: title`, the columns of its fields as `field=name,name`, then lines that begin
    with a word: `needs` groups of fields (`field|field`), `without` fields, `inside` places of
    records (`key.key`), `encoded`, `encoded_cells` and `chat_cells` fields, `several` families of
    columns, `values` of winners, and `becomes` kinds of rows. `model_@a` is a name for each usual
    word for the left side, `$winner` a field with the names in USUAL.
    """
    made = (_read_layout(block, converts) for block in table.strip().split("\n\n"))
    return tuple(replace(layout, **(options or {}).get(layout.name, {})) for layout in made)


def _read_layout(block: str, converts: Mapping[str, Convert]) -> Layout:
    head, *lines = block.splitlines()
    name, _, title = head.partition(": ")
    columns: dict[str, tuple[str, ...]] = {}
    said: dict[str, list[str]] = {"needs": [], "without": [], "inside": [], "becomes": []}
    said |= {"encoded": [], "encoded_cells": [], "chat_cells": [], "several": [], "values": []}
    for first, *rest in map(str.split, lines):
        if first in said:
            said[first] += rest
            continue
        for word in (first, *rest):
            words = _USUAL[word[1:]] if word.startswith("$") else [word]
            for name_, _, names in (one.partition("=") for one in words):
                known = [one for name in (names or name_).split(",") for one in _of_sides(name)]
                columns[name_] = (*columns.get(name_, ()), *known)
    kinds = tuple(said["becomes"])
    return Layout(
        name,
        title,
        columns,
        needed=tuple(tuple(group.split("|")) for group in said["needs"]),
        kinds=lambda fields: kinds,
        convert=converts[name],
        without=tuple(said["without"]),
        inside=tuple(tuple(place.split(".")) for place in said["inside"]),
        encoded=tuple(said["encoded"]),
        encoded_cells=tuple(said["encoded_cells"]),
        chat_cells=tuple(said["chat_cells"]),
        several=tuple(said["several"]),
        values=dict(word.split("=") for word in said["values"]),
    )


_USUAL = {
    field: [line for line in USUAL.split() if line.startswith(f"{field}=")]
    for field in {line.partition("=")[0] for line in USUAL.split()}
}


def _of_sides(name: str) -> list[str]:
    """The names that `model_@a` stands for."""
    mark = next((mark for mark in SIDES if mark in name), "")
    return [name.replace(mark, side) for side in SIDES[mark]] if mark else [name]
