"""Layouts without votes: test results, datasets, traces and chats of other tools.

Each names the documentation it follows. Special layouts come before general ones.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from arena.conversations import split_answer
from arena.formats.records import (
    ANSWER_KINDS,
    IDS,
    INPUTS,
    OUTPUTS,
    Made,
    SourceRecord,
    answer_row,
    candidate_row,
    content_id,
    decoded,
    filled,
    layout,
    prompt_id,
    prompt_row,
    read_conversation,
    read_messages,
    read_name,
    read_text,
    user_messages,
    written,
)
from arena.validation import InputError, is_variable, json_type, quoted

MOST_COMBINATIONS = 1_000

# -- promptfoo: promptfoo.dev/docs/configuration/outputs and .../reference -------------------------

_TEXT_VARIABLES = ("prompt", "question", "query", "input", "message", "text", "instruction")


def _tried(record: SourceRecord) -> Iterator[Made]:
    """One test with one prompt and one provider."""
    case = record.get("test") if isinstance(record.get("test"), dict) else {}
    variables = record.get("vars")
    if not isinstance(variables, dict):
        variables = case.get("vars") if isinstance(case.get("vars"), dict) else {}
    prompt = content_id(variables)
    yield _test_prompt(prompt, variables, case)
    template, label = _template(record)
    provider = record.need("provider")
    provider = provider if isinstance(provider, dict) else {"id": provider}
    variant = _variant(provider, template, label)
    yield variant
    answer = record.get("response") or {}
    output = answer.get("output") if isinstance(answer, dict) else None
    if output in (None, ""):
        return  # a provider's error is not an answer
    usage = answer.get("tokenUsage") or {}
    milliseconds = record.get("latency")
    yield answer_row(
        variant.fields["name"],
        prompt,
        [{"role": "assistant", "content": written(output)}],
        "response",
        tokens_in=usage.get("prompt") if isinstance(usage, dict) else None,
        tokens_out=usage.get("completion") if isinstance(usage, dict) else None,
        cost=record.get("cost") if record.get("cost") is not None else answer.get("cost"),
        seconds=milliseconds / 1000 if isinstance(milliseconds, int | float) else None,
    )


def _template(record: SourceRecord) -> tuple[str, str]:
    """Return the template behind an answer, and its label."""
    prompt = record.get("template")
    prompt = prompt if isinstance(prompt, dict) else {"raw": prompt or ""}
    results = record.document.get("results") if isinstance(record.document, dict) else None
    prompts = results.get("prompts") if isinstance(results, dict) else None
    number = record.get("index")
    if isinstance(prompts, list) and isinstance(number, int) and 0 <= number < len(prompts):
        prompt = prompts[number] if isinstance(prompts[number], dict) else prompt
    elif not isinstance(prompts, list):
        # A result by itself has the prompt as it was sent; its label may be the template.
        label = str(prompt.get("label") or prompt.get("display") or "")
        return (label if "{{" in label else ""), label
    return str(prompt.get("raw") or ""), str(prompt.get("label") or prompt.get("raw") or "")


def _variant(provider: Mapping[str, Any], template: str, label: str) -> Made:
    """The candidate made up of a provider and one prompt template."""
    identity = read_name(provider.get("id") or "model")
    label = " ".join(label.split())[:80]
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


def _test_prompt(prompt: str, variables: Mapping[str, Any], case: Mapping[str, Any]) -> Made:
    """The prompt of one test: its variables, and its assertions as reference and rubric."""
    values = {name: written(value) for name, value in variables.items() if value is not None}
    if odd := next((name for name in values if name != "prompt" and not is_variable(name)), ""):
        raise InputError(
            f"has the variable {quoted(odd)}; rename it to one word of letters, digits and "
            "underscores",
            "vars",
        )
    usual = next((name for name in _TEXT_VARIABLES if name in values), "")
    name = usual or (next(iter(values)) if len(values) == 1 else "")
    lines = "\n".join(f"{name}: {value}" for name, value in values.items())
    text = values[name] if name else lines or str(case.get("description") or "No variables")
    checks = [check for check in _asserts(case) if isinstance(check, dict)]
    expected = [
        written(check["value"])
        for check in checks
        if check.get("type") in ("equals", "factuality", "similar")
        and check.get("value") is not None
    ]
    rubric = [
        written(check["value"])
        if check.get("type") == "llm-rubric" and check.get("value") is not None
        else f"{check.get('type', 'assertion')}: {written(check.get('value', ''))}"
        for check in checks
        if check.get("type") not in ("equals", "factuality", "similar")
    ]
    fields = {"id": prompt, "text": text} | filled(
        {"reference": "\n\n".join(expected), "rubric": "\n".join(rubric)}
    )
    variables = {name: value for name, value in values.items() if name != "prompt"}
    names = dict.fromkeys(("text", "variables"), "vars")
    return Made("prompts", fields | ({"variables": variables} if variables else {}), names)


def _config(record: SourceRecord) -> Iterator[Made]:
    """A promptfoo configuration: its tests are prompts, its prompts with providers candidates."""
    tests, prompts, providers = (
        _listed(record, name) for name in ("tests", "prompts", "providers")
    )
    default = record.get("default") or {}
    if not isinstance(default, dict):
        raise InputError(_REFERS if _is_reference(default) else "is not an object", "default")
    for test in tests:
        if not isinstance(test, dict):
            raise InputError(f"has a test that is {json_type(test)}, not an object", "tests")
        case = {"assert": [*_asserts(default), *_asserts(test)]} | {
            "description": test.get("description")
        }
        for variables in _combinations(_vars(default) | _vars(test)):
            yield _test_prompt(content_id(variables), variables, case)
    for prompt in prompts:
        template = prompt if isinstance(prompt, dict) else {"raw": prompt}
        raw = written(template.get("raw") or template.get("id") or "")
        for provider in providers:
            yield _variant(_provider(provider), raw, str(template.get("label") or raw))


_REFERS = (
    "refers to another file; pack the whole folder as a zip, or import the results of promptfoo "
    "eval --output results.json"
)


def _listed(record: SourceRecord, name: str) -> list[Any]:
    """The elements of a field, which may be a single one."""
    value = record.need(name)
    values = value if isinstance(value, list) else [value]
    if any(map(_is_reference, values)):
        raise InputError(_REFERS, name)
    return values


def _vars(test: Mapping[str, Any]) -> dict[str, Any]:
    variables = test.get("vars") or {}
    if not isinstance(variables, dict):
        refers = _is_reference(variables)
        raise InputError(
            _REFERS if refers else f"has vars that are {json_type(variables)}, not an object",
            "tests",
        )
    return variables


def _asserts(test: Mapping[str, Any]) -> list[Any]:
    asserts = test.get("assert")
    return asserts if isinstance(asserts, list) else []


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and (value.startswith(("file://", "huggingface:")))


def _provider(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and "id" not in value and len(value) == 1:
        [(identity, options)] = value.items()
        return {"id": identity} | (options if isinstance(options, dict) else {})
    return value if isinstance(value, dict) else {"id": written(value)}


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


# -- Langfuse (langfuse.com/docs) and LangSmith (docs.langchain.com): datasets and traces ----------


def _reference(value: Any, field: str) -> str:
    messages = read_conversation(value, "assistant", OUTPUTS, field)
    return "\n\n".join(message["content"] for message in messages)


def _example(record: SourceRecord) -> Iterator[Made]:
    """An item of a dataset: its expected output is a reference, never a variable."""
    messages = read_conversation(record.need("input"), "user", INPUTS, "input")
    expected = record.get("expected")
    reference = None if expected is None else _reference(expected, "expected")
    made = prompt_row(messages, id=prompt_id(record, messages), reference=reference)
    yield Made("prompts", made.fields, dict.fromkeys(("text", "messages"), "input"))


# Kinds of traced steps that answer somebody; others are tools, searches and the like.
ANSWERING = ("generation", "agent", "chain", "llm", "trace")


def _trace(record: SourceRecord) -> Iterator[Made]:
    """A traced call: its input is a prompt, its output the answer of its model.

    A step that answers nobody, or was traced without its input, is no prompt.
    """
    kind = str(record.get("kind") or "").lower()
    if (kind and kind not in ANSWERING) or record.get("input") is None:
        return
    messages = read_conversation(record.need("input"), "user", INPUTS, "input")
    prompt = content_id(messages)
    made = prompt_row(messages, id=prompt)
    yield Made("prompts", made.fields, dict.fromkeys(("text", "messages"), "input"))
    if record.get("output") is None:
        return
    model = read_name(_model(record) or record.get("name") or record.stem)
    yield candidate_row(model)
    answer = read_conversation(record.get("output"), "assistant", OUTPUTS, "output")
    usage = decoded(record.get("usage"))
    usage = usage if isinstance(usage, dict) else {}
    yield answer_row(
        model,
        prompt,
        answer[len(messages) :] if answer[: len(messages)] == messages else answer,
        "output",
        tokens_in=_first(record.get("tokens_in"), usage.get("input"), usage.get("promptTokens")),
        tokens_out=_first(
            record.get("tokens_out"), usage.get("output"), usage.get("completionTokens")
        ),
        cost=record.get("cost"),
        seconds=_first(record.get("seconds"), _duration(record)),
    )


def _model(record: SourceRecord) -> Any:
    extra = decoded(record.get("extra"))
    metadata = extra.get("metadata") if isinstance(extra, dict) else None
    named = metadata.get("ls_model_name") if isinstance(metadata, dict) else None
    return record.get("model") or named


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _duration(record: SourceRecord) -> float | None:
    times = record.get("start"), record.get("end")
    if not all(isinstance(time, str) for time in times):
        return None
    try:
        start, end = (datetime.fromisoformat(str(time)) for time in times)
        return max((end - start).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None


# -- OpenAI: platform.openai.com/docs, "Fine-tuning" (chat format) and "Batch API" -----------------


def _chat(record: SourceRecord) -> Iterator[Made]:
    """A conversation; if the assistant has the last word, that is the answer."""
    messages = read_messages(record.decoded("messages"), "messages")
    question, answer = split_answer(messages)
    if not question:
        raise InputError("has no user message", "messages")
    prompt = prompt_id(record, question)
    made = prompt_row(question, id=prompt)
    yield Made("prompts", made.fields, dict.fromkeys(("text", "messages"), "messages"))
    if answer:
        model = read_name(record.get("model") or record.stem)
        yield candidate_row(model)
        yield answer_row(model, prompt, answer, "messages")


def _batch_request(record: SourceRecord) -> Iterator[Made]:
    body = record.need("body")
    body = body if isinstance(body, dict) else {}
    messages = read_messages(body.get("messages") or _asked(body), "body")
    if not messages:
        raise InputError("has no messages", "body")
    made = prompt_row(messages, id=read_name(record.need("id")))
    yield Made("prompts", made.fields, dict.fromkeys(("text", "messages"), "body"))


def _asked(body: Mapping[str, Any]) -> list[Any] | None:
    """The messages of a request to the Responses API."""
    given, instructions = body.get("input"), body.get("instructions")
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(asked, list):
        return None
    return [*([{"role": "system", "content": instructions}] if instructions else []), *asked]


def _batch_reply(record: SourceRecord) -> Iterator[Made]:
    response = record.need("response")
    body = response.get("body") if isinstance(response, dict) else None
    body = body if isinstance(body, dict) else {}
    messages = read_messages(_replied(body), "response")
    if not messages:
        raise InputError(
            "has neither choices nor output: the request failed, so there is no answer; leave it "
            "out",
            "response",
        )
    model = read_name(body.get("model") or record.stem)
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    yield candidate_row(model)
    prompt = read_name(record.need("id"))
    figures = {
        "tokens_in": _first(usage.get("prompt_tokens"), usage.get("input_tokens")),
        "tokens_out": _first(usage.get("completion_tokens"), usage.get("output_tokens")),
    }
    yield answer_row(model, prompt, messages, "response", **figures)


def _replied(body: Mapping[str, Any]) -> list[Any] | None:
    """The message of the first choice, or the messages in the output of the Responses API."""
    choices, output = body.get("choices"), body.get("output")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return [message] if isinstance(message, dict) else None
    steps = output if isinstance(output, list) else []
    return [step for step in steps if isinstance(step, dict) and "role" in step] or None


# -- Answers of one model: AutoArena's README, and AlpacaEval's outputs ----------------------------


def _outputs(record: SourceRecord) -> Iterator[Made]:
    """One model's answers, in the format of AlpacaEval and AutoArena."""
    question = record.need("prompt")
    model = read_name(record.get("model") or record.stem)
    messages = user_messages([read_text(record, "prompt")])
    prompt = prompt_id(record, question)
    yield prompt_row(messages, id=prompt, category=record.get("category"))
    yield candidate_row(model)
    answer = [{"role": "assistant", "content": read_text(record, "response")}]
    yield answer_row(model, prompt, answer, "response")


# -- The list ------------------------------------------------------------------------------------

LAYOUTS = (
    layout(
        "promptfoo",
        "promptfoo results",
        "vars template=prompt index=promptidx provider response latency=latencyms cost "
        "test=testcase",
        "provider response vars|test template|index",
        _tried,
        ANSWER_KINDS,
        inside=(("results", "results"), ("results",)),
    ),
    layout(
        "promptfoo-config",
        "promptfoo configuration",
        "prompts providers=providers,targets tests default=defaulttest",
        "prompts providers tests",
        _config,
        ("prompts", "candidates"),
    ),
    layout(
        "openai-batch",
        "OpenAI batch output",
        "id=custom_id response",
        "id response",
        _batch_reply,
        ("candidates", "responses"),
    ),
    layout(
        "openai-batch-input",
        "OpenAI batch input",
        "id=custom_id body",
        "id body",
        _batch_request,
        ("prompts",),
    ),
    layout(
        "openai-chat",
        "chat messages",
        f"messages model id={','.join(IDS)} candidate user_template text reference rubric "
        "variables",
        "messages",
        _chat,
        ANSWER_KINDS,
        # our own answers, candidates and prompts
        without=("candidate", "user_template", "text", "reference", "rubric", "variables"),
    ),
    layout(
        "langsmith-runs",
        "LangSmith runs",
        "input=inputs output=outputs kind=run_type name model extra start=start_time "
        "end=end_time tokens_in=prompt_tokens tokens_out=completion_tokens "
        "cost=total_cost seconds=latency,latency_seconds",
        "input output kind|start",
        _trace,
        ANSWER_KINDS,
    ),
    layout(
        "langsmith",
        "LangSmith dataset",
        "id=id,example_id input=inputs expected=outputs",
        "input expected",
        _example,
        ("prompts",),
    ),
    layout(
        "langfuse",
        "Langfuse dataset",
        "id=id input expected=expectedoutput,expected_output dataset=datasetname,datasetid,"
        "dataset_name,dataset_id",
        "input expected|dataset",
        _example,
        ("prompts",),
        without=("output",),
        inside=(("items",), ("data",)),
    ),
    layout(
        "langfuse-traces",
        "Langfuse traces",
        "input output model=model,providedmodelname name seconds=latency "
        "cost=totalcost,calculatedtotalcost,total_cost kind=type "
        "usage=usage,usagedetails tokens_in=inputtokens,prompttokens "
        "tokens_out=outputtokens,completiontokens start=starttime,timestamp,traceid",
        "input output seconds|cost|start",
        _trace,
        ANSWER_KINDS,
        inside=(("data",), ("observations",)),
    ),
    layout(
        "alpaca-outputs",
        "AlpacaEval outputs",
        "prompt=instruction response=output model=generator category=dataset id",
        "prompt response model",
        _outputs,
        ANSWER_KINDS,
    ),
    layout(
        "answers",
        "answers of one model (AutoArena)",
        "prompt=prompt,question,instruction,input response=response,answer,output,completion "
        "model=model,candidate id=id,prompt_id category",
        "prompt response",
        _outputs,
        ANSWER_KINDS,
    ),
)
