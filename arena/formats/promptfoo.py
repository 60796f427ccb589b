"""promptfoo: results of an evaluation, and a project's configuration with the files it names.

Follows promptfoo.dev/docs/configuration: "Output formats", "Reference", "Prompts", "Test cases".
"""

import itertools
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from arena.checks import MOST_CHECKS
from arena.conversations import Message
from arena.files.reader import FileError, Row, Source, csv_header, csv_rows, json_lines
from arena.formats.assertions import read_assertion
from arena.formats.base import OUTPUT, Made, SourceRecord, decoded, layouts, read_yaml
from arena.formats.records import (
    answer_row,
    candidate_row,
    content_id,
    filled,
    inside,
    read_messages,
    read_name,
    written,
)
from arena.validation import InputError, decode_json, is_variable, json_type, quoted

MOST_COMBINATIONS = 1_000
MOST_ROWS = 100_000  # tests of a configuration, and candidates; a few lines could make billions
MOST_FILES, MOST_BYTES = 1_000, 20_000_000  # files that a configuration names, and bytes in each
LABEL_LENGTH, WORDS_LENGTH = 80, 40  # of a given label, and of a prompt without one
_REFERENCES = ("equals", "factuality", "similar")
# What a model decides, so no check can; of all others, the report says that they are none.
_GRADED = re.compile(
    r"(?:not-)?(?:llm-rubric|similar.*|factuality|model-graded-.*|g-eval|answer-relevance|"
    r"context-.*|conversation-.*|search-rubric|pi|select-best|human|moderation|classifier)"
)
_TEXT_VARIABLES = ("prompt", "question", "query", "input", "message", "text", "instruction")
# Prompts, tests and providers that a program makes: they cannot be read without running it.
_PROGRAM = re.compile(r"\.(?:[cm]?[jt]s|py|rb|go|sh)(?::\w+)?$", re.IGNORECASE)
_PROMPT_FILE = re.compile(r"[\w./*-]+\.(?:txt|md|j2|jsonl?|ya?ml)", re.IGNORECASE)
# Of a prompt from a file: its own label, the file's path, and its text.
_FILE_LABEL = re.compile(
    r"(?:(?P<label>.{1,80}?): )?(?P<path>\S+\.(?:txt|md|j2|jsonl?|ya?ml))(?:: (?P<text>.*))?",
    re.DOTALL,
)
_CUT = (".md", ".j2", ".yaml", ".yml")  # files of which a label has only the beginning
_REFERENCE = re.compile(r"file://([^\s'\"#,\]]+)")
_WORDS = re.compile(r"[\s'\"#,\[\]]+")
_YAML = (".yaml", ".yml")
_DOCUMENTS = (".csv", ".json", ".jsonl", *_YAML)  # which may name further files
_RULE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_KIND = r"((?:not-)?%s)(?:\((\d*\.?\d+)\))?:"  # of an assertion, and its threshold
_EXPECTED = re.compile(_KIND % r"[a-z][a-z-]*" + r"(?!//)\s*(.*)", re.DOTALL)
# A line of a rubric that was an assertion with nothing but a value and a threshold, which runs no
# code: a reference to a file may.
CHECK = re.compile(
    _KIND
    % (
        r"(?:i?contains(?:-a(?:ny|ll))?|contains-(?:json|sql|xml|html)|starts-with|regex|equals|"
        r"similar|cost|latency|is-[a-z-]+)"
    )
    + r"(?: (?!.*(?:file://|package:))(.*))?"
)
_ESCAPED = re.compile(r"'[\s\u200b-\u200d]*[=@+-]")
_RESULTS = "import the results of promptfoo eval --output results.json"


def _of_result(record: SourceRecord) -> Iterator[Made]:
    """One test with one prompt and one provider."""
    case = record.get("test") if isinstance(record.get("test"), dict) else {}
    given = (record.get("vars"), case.get("vars"))
    variables: dict[str, Any] = next((vars_ for vars_ in given if isinstance(vars_, dict)), {})
    prompt = content_id(variables)
    yield _test_prompt(prompt, variables, case)
    template, label = _template_and_label(record)
    provider = record.need("provider")
    provider = provider if isinstance(provider, dict) else {"id": provider}
    variant = _candidate_of(provider, template, label)
    yield variant
    answer = record.get("response") or {}
    output = answer.get("output") if isinstance(answer, dict) else None
    if output in (None, ""):
        return  # a provider's error is not an answer
    milliseconds = record.get("latency")
    if not isinstance(milliseconds, int | float) or abs(milliseconds) > sys.float_info.max:
        milliseconds = None
    yield answer_row(
        variant.fields["name"],
        prompt,
        written(output),
        "response",
        tokens_in=inside(answer, "tokenUsage", "prompt"),
        tokens_out=inside(answer, "tokenUsage", "completion"),
        cost=record.get("cost") if record.get("cost") is not None else answer.get("cost"),
        seconds=None if milliseconds is None else milliseconds / 1000,
    )


def _of_table_row(record: SourceRecord) -> Iterator[Made]:
    """One test with every prompt and provider: a row of the results as a table.

    Its variables come first; a column `[provider] prompt` has the answers, and the next one their
    status.
    """
    names = list(record.row)
    outputs = [(n, heading) for n, heading in enumerate(map(OUTPUT.fullmatch, names)) if heading]
    if not outputs:
        raise InputError("is missing", "output")
    variables = {name: _unescaped(record.row[name]) for name in names[: outputs[0][0]]}
    description = variables.pop("Description", None) if names[0] == "Description" else None
    prompt = content_id(variables)
    yield _test_prompt(prompt, variables, {"description": description})
    ends = [start for start, _ in outputs[1:]] + [len(names)]
    for (start, heading), end in zip(outputs, ends, strict=True):
        provider, label = heading.groups()
        variant = _candidate_of({"id": provider}, _template_in(label), label)
        yield variant
        text = _unescaped(record.row[names[start]])
        status = next((name for name in names[start:end] if name.startswith("Status")), "")
        if not status and text.startswith(("[PASS]", "[FAIL]", "[ERROR]")):
            raise InputError(f"has the grade inside the answer; {_RESULTS}", names[start])
        if text and record.row.get(status) != "ERROR":
            yield answer_row(variant.fields["name"], prompt, text, names[start])


def _unescaped(value: Any) -> str:
    """The text without the apostrophe that keeps spreadsheets from running it."""
    cell = "" if value is None else written(value)
    return cell[1:] if _ESCAPED.match(cell) else cell


def _template_and_label(record: SourceRecord) -> tuple[str, str]:
    """Return the template behind an answer, and its label; '' if a program made the prompt."""
    sent = record.get("template")
    sent = sent if isinstance(sent, dict) else {"raw": sent or ""}
    prompt = _prompt_of(record, sent)
    if prompt is None:
        # A result by itself has the prompt as it was sent; its label may be the template.
        label = str(sent.get("label") or sent.get("display") or "")
        return _template_in(label), label
    raw, label = str(prompt.get("raw") or ""), str(prompt.get("label") or prompt.get("raw") or "")
    is_made = "{{" not in raw and decoded(raw) != decoded(sent.get("raw"))
    return ("" if is_made or _PROGRAM.search(label) else raw), label


def _template_in(label: str) -> str:
    """The template that promptfoo took for a label; '' for other labels, and for cut ones."""
    match = _FILE_LABEL.fullmatch(label)
    is_cut = match is not None and match["path"].endswith(_CUT)
    text = (match["text"] or "") if match else label
    return text if "{{" in text and not is_cut else ""


def _prompt_of(record: SourceRecord, sent: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The prompt of a result among those of the document; None if it has no list of them."""
    prompts = inside(record.document, "results", "prompts")
    if isinstance(prompts, list):
        prompt = inside(prompts, record.get("index"))
        return prompt if isinstance(prompt, dict) else sent
    listed = inside(record.document, "results", "table", "head", "prompts")  # of version 2
    labelled = (prompt for prompt in listed or () if isinstance(prompt, dict))
    return next((prompt for prompt in labelled if prompt.get("label") == sent.get("label")), None)


def _candidate_of(provider: Mapping[str, Any], template: str, label: str) -> Made:
    """The candidate made up of a provider and one prompt template."""
    identity = read_name(provider.get("id") or "model").removeprefix("file://")
    label = _short_label(label, template)
    name = f"{read_name(provider.get('label') or identity)} · {label}" if label else identity
    texts: dict[str, Any] = {"user_template": template}
    messages = decoded(template)
    if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
        turns = read_messages(messages, "template")
        texts = {"messages": turns}
        if len(turns) == 1 or any(message["role"] == "tool" for message in turns):
            texts = {"user_template": "\n\n".join(message["content"] for message in turns)}
    model = identity.split(":")[-1]
    config = provider.get("config") if isinstance(provider.get("config"), dict) else None
    return candidate_row(
        name[:200],
        model=model,
        variant=label,
        **texts,
        parameters={k: v for k, v in (config or {}).items() if isinstance(v, int | float)},
    )


def _short_label(label: str, template: str) -> str:
    """The label of a prompt; if promptfoo made it of the prompt's text, the first words."""
    from_file = _FILE_LABEL.fullmatch(label)
    # A label has the path that the file had when promptfoo ran, and of some files not all the text.
    text = " ".join(((template or from_file["text"] or "") if from_file else label).split())
    text, whole_text = text.removesuffix("..."), text
    chat, most = _chat_in_text(text), LABEL_LENGTH
    if chat or "{{" in text or " ".join(template.split()).startswith(text):
        most = WORDS_LENGTH
        text = " ".join(message["content"] for message in chat) or text
    name = text
    if from_file:
        name = from_file["label"] or Path(from_file["path"]).stem
        name += f": {text}" if text else ""
    if len(name) <= most and not whole_text.endswith("..."):
        return name
    # Variants of one prompt often begin alike.
    return f"{name[:most].rpartition(' ')[0] or name[:most]}… {content_id(chat or whole_text)[:4]}"


def _test_prompt(prompt: str, variables: Mapping[str, Any], case: Mapping[str, Any]) -> Made:
    """The prompt of one test: its variables, and its assertions as checks, reference and rubric."""
    values = {name: written(value) for name, value in variables.items() if value is not None}
    if odd := next((name for name in values if name != "prompt" and not is_variable(name)), ""):
        raise InputError(
            f"has the variable {quoted(odd)}; rename it to one word of letters, digits and "
            "underscores",
            "vars",
        )
    text = _text_of_variables(values, case)
    chat = _chat_in_text(text)
    fields: dict[str, Any] = {"id": prompt} | ({"messages": chat} if chat else {"text": text})
    named = {name: inside(case, "metadata", name) for name in ("category", "document")}
    expectations, unread = _expectations_of(case)
    fields |= filled(expectations)
    fields |= {name: value for name, value in named.items() if value and isinstance(value, str)}
    variables = {name: value for name, value in values.items() if name != "prompt"}
    names = dict.fromkeys(("text", "messages", "variables"), "vars")
    fields |= {"variables": variables} if variables else {}
    return Made("prompts", fields, names, unread)


def _text_of_variables(values: Mapping[str, str], case: Mapping[str, Any]) -> str:
    """The variable that asks: by its name, or because it is the only one; else all of them."""
    name = next((name for name in _TEXT_VARIABLES if name in values), "")
    if name or len(values) == 1:
        return values[name or next(iter(values))]
    lines = "\n".join(f"{name}: {value}" for name, value in values.items())
    return lines or str(case.get("description") or "No variables")


def _expectations_of(case: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The assertions of a test as checks, the others as reference and rubric; and which of these
    others no model decides either. What an answer must equal is also a reference, before the rest.
    """
    checks, others = list[dict[str, Any]](), list[dict[str, Any]]()
    equals, expected = list[str](), list[str]()
    for assertion in filter(lambda one: isinstance(one, dict), _asserts(case)):
        check = read_assertion(assertion) if len(checks) < MOST_CHECKS else None
        if check:
            checks.append(check)
        else:
            others.append(assertion)
        if assertion.get("type") in _REFERENCES and assertion.get("value") is not None:
            (equals if check else expected).append(written(assertion["value"]))
    rubric = [_rubric_line(check) for check in others if check.get("type") != "factuality"]
    kinds = dict.fromkeys(str(check.get("type", "assertion")) for check in others)
    unread = tuple(f"{kind} as a check" for kind in kinds if not _GRADED.fullmatch(kind))
    reference = "\n\n".join([*dict.fromkeys(equals), *expected])
    return {"reference": reference, "rubric": "\n".join(rubric), "checks": checks}, unread


def _rubric_line(check: Mapping[str, Any]) -> str:
    """An assertion as promptfoo writes it in a table: `similar(0.8): in Peru`."""
    kind, value = check.get("type", "assertion"), check.get("value")
    if kind == "llm-rubric" and value is not None:
        return written(value)
    threshold = check.get("threshold")
    limit = f"({threshold:g})" if isinstance(threshold, int | float) and threshold >= 0 else ""
    line = f"{kind}{limit}: {'' if value is None else written(value)}"
    is_odd = isinstance(value, str) and ("\n" in value or decoded(value) != value)
    if is_odd and CHECK.match(line):
        return f"{kind}{limit}: {json.dumps(value, ensure_ascii=False)}"
    return line


def read_check(line: str) -> dict[str, Any] | None:
    """The assertion in such a line; None if it is only words, or must not go back."""
    match = CHECK.fullmatch(line)
    if match is None:
        return None
    kind, limit, value = match.groups()
    value = {"value": decoded(value)} if value else {}
    return {"type": kind} | value | ({"threshold": float(limit)} if limit else {})


def _chat_in_text(text: str) -> list[Message]:
    """The messages in a text that is a chat as JSON; none if it cannot be one of ours."""
    value = decoded(text)
    is_list = isinstance(value, list) and all(isinstance(turn, dict) for turn in value)
    try:
        return read_messages(value, "vars") if is_list and value else []
    except InputError:
        return []


def _of_project(record: SourceRecord) -> Iterator[Made]:
    """A project: its tests become prompts, its prompts with providers become candidates."""
    project = _Project(record.path.parent)
    default = project.loaded(record.get("default") or {}, "default")
    if not isinstance(default, dict):
        raise InputError(f"is {json_type(default)}, not an object", "default")
    n_tests = 0
    for test in project.tests(record.need("tests")):
        if not isinstance(test, dict):
            raise InputError(f"has a test that is {json_type(test)}, not an object", "tests")
        case = {"assert": [*_asserts(default), *_asserts(test)]} | {
            name: test.get(name) for name in ("description", "metadata")
        }
        for variables in _combinations(project.variables(default) | project.variables(test)):
            n_tests += 1
            _check_count(n_tests, "tests")
            yield _test_prompt(content_id(variables), variables, case)
    providers = list(project.providers(record.need("providers")))
    prompts = list(project.prompts(record.need("prompts")))
    _check_count(len(prompts) * len(providers), "prompts")
    for label, raw in prompts:
        for provider in providers:
            only = provider.get("prompts")
            if not isinstance(only, list) or any(
                f"{label}:".startswith(f"{written(name)}:") for name in only
            ):
                yield _candidate_of(provider, raw, label)


def _check_count(count: int, field: str) -> None:
    if count > MOST_ROWS:
        what = "tests" if field == "tests" else "prompts times providers"
        raise InputError(f"has more than {MOST_ROWS:,} {what}; split it into several", field)


class _Project:
    """The folder of a configuration, with the files that the configuration names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.n_files = folder, 0

    def files(self, reference: str, field: str) -> list[Path]:
        """The files that a reference names. Raises InputError if there are none."""
        name = reference.removeprefix("file://")
        if _PROGRAM.search(name) or reference.startswith("huggingface:"):
            raise InputError(
                f"refers to {quoted(reference)}, which only promptfoo can run; {_RESULTS}",
                field,
            )
        files = _matching_files(self.folder, name)
        if not files:
            raise InputError(
                f"refers to {quoted(reference)}, which is not included; pack the whole folder as "
                f"a zip file, or {_RESULTS}",
                field,
            )
        self.n_files += len(files)
        if self.n_files > MOST_FILES:
            raise InputError(f"refers to files more than {MOST_FILES:,} times", field)
        if large := next((path for path in files if path.stat().st_size > MOST_BYTES), None):
            most = f"{MOST_BYTES // 10**6} MB"
            raise InputError(f"refers to {large.name}, which is larger than {most}", field)
        return files

    def loaded(self, value: Any, field: str) -> Any:
        """The value, or the content of the one file that it refers to."""
        return _content_of_file(self.files(value, field)[0]) if _is_reference(value) else value

    def tests(self, value: Any) -> Iterator[Any]:
        for test in _listed(value):
            for path in self.files(test, "tests") if isinstance(test, str) else ():
                yield from _listed(_content_of_file(path))
            if not isinstance(test, str):
                yield test

    def variables(self, test: Mapping[str, Any]) -> dict[str, Any]:
        variables = self.loaded(test.get("vars") or {}, "tests")
        if not isinstance(variables, dict):
            raise InputError(f"has vars that are {json_type(variables)}, not an object", "tests")
        return self.filled(variables)

    def filled(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The variables with the texts of the files that they name; of several, one test each."""
        texts = dict(variables)
        for name, given in variables.items():
            if any(map(_is_reference, _listed(given))):
                texts[name] = [text for value in _listed(given) for text in self._texts(value)]
        return texts

    def _texts(self, value: Any) -> list[Any]:
        return [*map(_file_as_text, self.files(value, "vars"))] if _is_reference(value) else [value]

    def providers(self, value: Any) -> Iterator[dict[str, Any]]:
        for provider in _listed(value):
            if _is_reference(provider) and not _PROGRAM.search(provider):
                yield from map(_provider, _listed(self.loaded(provider, "providers")))
            else:
                yield _provider(provider)

    def prompts(self, value: Any) -> Iterator[tuple[str, str]]:
        """Yield a label and a template for each prompt."""
        for prompt in _listed(value):
            given = prompt if isinstance(prompt, dict) else {"raw": prompt}
            raw = written(given.get("raw") or given.get("id") or "")
            label = str(given.get("label") or "")
            is_name = _PROMPT_FILE.fullmatch(raw) and _matching_files(self.folder, raw)
            if not (_is_reference(raw) or is_name):
                yield label or raw, raw
                continue
            for path in self.files(raw, "prompts"):
                for template in _templates_in_file(path):
                    yield _label_of(label, path.relative_to(self.folder), template), template


def _label_of(label: str, path: Path, template: str) -> str:
    """The label that promptfoo gives to a prompt in a file (its src/prompts/processors)."""
    if label and path.suffix.lower() != ".txt":
        return label
    return ": ".join((*([label] if label else ()), str(path), template))


def _matching_files(folder: Path, name: str) -> list[Path]:
    """The files in the folder with this name, in which `*` stands for anything.

    Files outside the folder are left out: an uploaded file must not read those of the server.
    """
    inside = folder.resolve()
    try:
        paths = sorted(folder.glob(name))
        return [p for p in paths if p.is_file() and p.resolve().is_relative_to(inside)]
    except (ValueError, NotImplementedError, OSError, RuntimeError, IndexError):
        return []


def _parts_of_file(path: Path) -> Iterable[Path]:
    """The files that the configuration names, and those that its tables and documents name."""
    found: dict[Path, None] = {path: None}
    documents, names = [path], set[str]()
    for document in documents:
        with suppress(OSError):
            text = document.read_text(encoding="utf-8", errors="replace")
            words = _WORDS.split(text) if document == path else ()
            named = [*_REFERENCE.findall(text), *filter(_PROMPT_FILE.fullmatch, words)]
            new = [name for name in dict.fromkeys(named) if name not in names]
            for name in new[: MOST_FILES - len(names)]:
                names.add(name)
                files = [file for file in _matching_files(path.parent, name) if file not in found]
                found |= dict.fromkeys(f for f in files if f.stat().st_size <= MOST_BYTES)
                documents += [f for f in files if f in found and f.suffix.lower() in _DOCUMENTS]
    return [file for file in found if file != path]


def _content_of_file(path: Path) -> Any:
    """What is in a file: the tests of a table, the document of JSON or YAML, or a text."""
    suffix = path.suffix.lower()
    if suffix in _YAML:
        return read_yaml(path)
    if suffix == ".csv":
        return list(_table_in_file(path))
    if suffix == ".jsonl":
        return [_good_row(row, path) for row in json_lines(Source.at(path))]
    text = _text_of_file(path)
    try:
        return decode_json(text) if suffix == ".json" else text
    except InputError as error:
        raise FileError(f"{path} {error.reason}.") from None


def _file_as_text(path: Path) -> str:
    """The text of a variable that names a file: YAML as JSON, and anything else as it is."""
    return json.dumps(read_yaml(path)) if path.suffix in _YAML else _text_of_file(path).strip()


def _text_of_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(f"{path} is not text in UTF-8; {_RESULTS}.") from None


def _templates_in_file(path: Path) -> list[str]:
    """The prompts of a file: a chat in JSON or YAML is one, a text has one between lines of ---,
    JSON Lines have one on each."""
    suffix = path.suffix.lower()
    if suffix in _YAML:
        return [written(_content_of_file(path))]
    if suffix == ".csv":
        raise FileError(f"{path} has prompts as CSV; put them into the configuration instead.")
    text = _text_of_file(path)
    parts = [text]
    if suffix in (".txt", ".jsonl"):
        parts = _RULE.split(text) if suffix == ".txt" else text.splitlines()
    return [part.strip() for part in parts if part.strip()]


def _table_in_file(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the tests of a CSV file: variables, and columns that begin with two underscores."""
    source = Source.at(path)
    header = csv_header(source, suffices=bool, wanted="", key=str)
    for row in csv_rows(source, header):
        cells = _good_row(row, path)
        try:
            yield _case_of_row(cells)
        except InputError as error:
            raise InputError(f"refers to {path.name}, which has {error.reason}", "tests") from None


def _good_row(row: Row, path: Path) -> Any:
    """The row's content; raises InputError if it is bad."""
    if isinstance(row.content, InputError):
        raise InputError(
            f"refers to {path.name}, where line {row.line:,} {row.content.reason}", "tests"
        )
    return row.content


def _case_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The test in a row."""
    cells = {name: str(cell) for name, cell in row.items() if cell not in (None, "")}
    if odd := next((name for name in ("__prefix", "__suffix") if name in cells), ""):
        raise InputError(f"the column {odd}; put it into the prompts instead", odd)
    return {
        "vars": {name: cell for name, cell in cells.items() if not name.startswith("__")},
        "assert": [_expected(cells[name]) for name in cells if name.startswith("__expected")],
        "description": cells.get("__description"),
        "metadata": {name: cells.get(f"__metadata:{name}") for name in ("category", "document")},
    }


def _test_case(record: SourceRecord) -> Iterator[Made]:
    """A row of a table of tests, without the project that it belongs to."""
    case = {name: record.get(name) for name in ("assert", "description", "metadata")}
    variables = record.get("vars")
    if variables is None:
        case = _case_of_row(record.row | {"__expected": record.get("expected")})
        variables = case["vars"]
    if not isinstance(variables, dict) or not variables:
        raise InputError("has no variables", "vars")
    for values in _combinations(_Project(record.path.parent).filled(variables)):
        yield _test_prompt(content_id(values), values, case)


def _expected(cell: str) -> dict[str, Any]:
    """The assertion in a cell: `contains: Paris`, or a text that the output must equal."""
    match = _EXPECTED.fullmatch(cell)
    if match is None:
        return {"type": "equals", "value": cell}
    threshold = float(match[2]) if match[2] else None
    return {"type": match[1], "value": match[3], "threshold": threshold}


def _listed(value: Any) -> list[Any]:
    """The elements of a value, which may be a single one."""
    return value if isinstance(value, list) else [value]


def _asserts(test: Mapping[str, Any]) -> list[Any]:
    asserts = test.get("assert")
    return asserts if isinstance(asserts, list) else []


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and (value.startswith(("file://", "huggingface:")))


def _provider(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and "id" not in value and len(value) == 1:
        [(identity, options)] = value.items()
        return {"id": identity} | (options if isinstance(options, dict) else {})
    return value if isinstance(value, dict) else {"id": written(value).removeprefix("file://")}


def _combinations(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values of each test: a list of values stands for one test each, in all
    combinations."""
    lists = [value if isinstance(value, list) else [value] for value in variables.values()]
    if math.prod(map(len, lists)) > MOST_COMBINATIONS:
        raise InputError(
            f"has variables with more than {MOST_COMBINATIONS:,} combinations", "tests"
        )
    for values in itertools.product(*lists):
        yield dict(zip(variables, values, strict=True))


LAYOUTS = layouts(
    """
promptfoo: promptfoo results
    vars template=prompt index=promptidx provider response latency=latencyms cost test=testcase
    needs provider response vars|test template|index
    inside results.results results
    becomes prompts candidates responses

promptfoo-table: promptfoo results as a table
    output=[output]
    needs output
    becomes prompts candidates responses

promptfoo-config: promptfoo configuration
    prompts providers=providers,targets tests default=defaulttest
    needs prompts providers tests
    becomes prompts candidates

promptfoo-tests: promptfoo tests
    expected=__expected,__expected1 vars assert description metadata
    needs vars|expected
    becomes prompts
""",
    {
        "promptfoo": _of_result,
        "promptfoo-table": _of_table_row,
        "promptfoo-config": _of_project,
        "promptfoo-tests": _test_case,
    },
    {
        "promptfoo-table": {"has_variables": True, "repeats": True},
        "promptfoo-config": {"parts": _parts_of_file},
        "promptfoo-tests": {"has_variables": True},
    },
)
