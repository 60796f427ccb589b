"""promptfoo: results of an evaluation, and tables of tests.

Follows promptfoo.dev/docs/configuration: "Output formats", "Reference", "Prompts", "Test cases".
"""

import itertools
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from arena.checks import MOST_CHECKS
from arena.conversations import Message
from arena.formats.assertions import read_assertion
from arena.formats.base import OUTPUT, Made, SourceRecord, decoded, layouts
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
from arena.validation import InputError, is_variable, quoted

MOST_COMBINATIONS = 1_000
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
# Of a prompt from a file: its own label, the file's path, and its text.
_FILE_LABEL = re.compile(
    r"(?:(?P<label>.{1,80}?): )?(?P<path>\S+\.(?:txt|md|j2|jsonl?|ya?ml))(?:: (?P<text>.*))?",
    re.DOTALL,
)
_CUT = (".md", ".j2", ".yaml", ".yml")  # files of which a label has only the beginning
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
    if odd := next((name for name in variables if _is_reference(variables[name])), ""):
        raise InputError(f"refers to a file in {odd}; {_RESULTS}", "vars")
    for values in _combinations(variables):
        yield _test_prompt(content_id(values), values, case)


def _expected(cell: str) -> dict[str, Any]:
    """The assertion in a cell: `contains: Paris`, or a text that the output must equal."""
    match = _EXPECTED.fullmatch(cell)
    if match is None:
        return {"type": "equals", "value": cell}
    threshold = float(match[2]) if match[2] else None
    return {"type": match[1], "value": match[3], "threshold": threshold}


def _asserts(test: Mapping[str, Any]) -> list[Any]:
    asserts = test.get("assert")
    return asserts if isinstance(asserts, list) else []


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and (value.startswith(("file://", "huggingface:")))


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

promptfoo-tests: promptfoo tests
    expected=__expected,__expected1 vars assert description metadata
    needs vars|expected
    becomes prompts
""",
    {
        "promptfoo": _of_result,
        "promptfoo-table": _of_table_row,
        "promptfoo-tests": _test_case,
    },
    {
        "promptfoo-table": {"has_variables": True, "repeats": True},
        "promptfoo-tests": {"has_variables": True},
    },
)
