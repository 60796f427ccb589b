"""Layouts without votes: test results, datasets, traces and chats of other tools.

Each names the documentation it follows. Special layouts come before general ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from arena.conversations import Message, split_answer
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
    layout,
    prompt_id,
    prompt_row,
    read_chat,
    read_conversation,
    read_messages,
    read_name,
    read_text,
    user_messages,
)
from arena.validation import InputError, join_names, json_type

MOST_COMBINATIONS = 1_000

# -- Langfuse (langfuse.com/docs) and LangSmith (docs.langchain.com): datasets and traces ----------


def _reference(value: Any, field: str) -> str:
    messages = read_conversation(value, "assistant", OUTPUTS, field)
    return "\n\n".join(message["content"] for message in messages)


def _example(record: SourceRecord) -> Iterator[Made]:
    """An item of a dataset: its expected output is a reference, never a variable."""
    messages = read_conversation(record.need("input"), "user", INPUTS, "input")
    expected = record.get("expected")
    reference = None if expected is None else _reference(expected, "expected")
    retired = str(record.get("status")).upper() == "ARCHIVED" or None
    made = prompt_row(
        messages, id=prompt_id(record, messages), reference=reference, retired=retired
    )
    yield Made("prompts", made.fields, dict.fromkeys(("text", "messages"), "input"))


# Kinds of traced steps that answer somebody; others are tools, searches and the like.
ANSWERING = ("generation", "agent", "chain", "llm", "trace", "eval", "task")


def _trace(record: SourceRecord) -> Iterator[Made]:
    """A traced call: its input is a prompt, its output the answer of its model, and what was
    expected the reference.

    A step that answers nobody, or was traced without its input, is no prompt.
    """
    kind = str(record.get("kind") or "").lower()
    if (kind and kind not in ANSWERING) or record.get("input") is None:
        return
    messages = read_conversation(record.need("input"), "user", INPUTS, "input")
    prompt = content_id(messages)
    expected = record.get("expected")
    reference = None if expected is None else _reference(expected, "expected")
    made = prompt_row(messages, id=prompt, reference=reference)
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
        # Langfuse exports the latency of an observation in milliseconds, and that of a trace in
        # seconds.
        seconds=_first(_duration(record), record.get("seconds")),
    )


def _model(record: SourceRecord) -> Any:
    return record.get("model") or inside(decoded(record.get("extra")), "metadata", "ls_model_name")


def inside(value: Any, *path: str | int) -> Any:
    """The value at the end of a path of keys and places; None if there is none."""
    for step in path:
        is_there = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and step < len(value)
        )
        value = value[step] if is_there else None
    return value


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


# -- Evaluations: Inspect (inspect.aisi.org.uk, "Log Files"), HELM (its ScenarioState),
# lm-evaluation-harness (docs/interface.md, --log_samples), OpenAI (API reference, "Evals"),
# Weave (its calls), Braintrust (braintrust.dev/docs, "Export") -----------------------------------

# What was expected, in an item whose other keys are asked.
EXPECTED = ("ideal", "expected", "reference", "ground_truth", "correct_label", "label", "target")


def _with(record: SourceRecord, **cells: Any) -> Iterator[Made]:
    return _trace(replace(record, cells=record.cells | cells))


def _inspected(record: SourceRecord) -> Iterator[Made]:
    """A sample in its first epoch: later ones answer the same prompt again."""
    if record.get("epoch") not in (None, 1):
        return
    messages = record.get("messages")
    steps = messages if isinstance(messages, list) else []
    own = (n for n, step in enumerate(steps) if inside(step, "role") == "assistant")
    first = next((n for n in own if steps[n].get("source") != "input"), len(steps))
    model = inside(record.document, "eval", "model") or inside(record.get("output"), "model")
    usage = {
        name: inside(record.get("output"), "usage", f"{name}_tokens")
        for name in ("input", "output")
    }
    yield from _with(record, output=steps[first:] or None, model=model, usage=usage)


def _request(record: SourceRecord) -> Iterator[Made]:
    """One request of a scenario, without the examples before it, in its first trial."""
    if record.get("trial"):
        return
    references = inside(record.get("instance"), "references")
    correct = [
        inside(reference, "output", "text")
        for reference in (references if isinstance(references, list) else [])
        if "correct" in (inside(reference, "tags") or ())
    ]
    asked = inside(record.get("instance"), "input")
    yield from _with(
        record,
        input=inside(asked, "messages") or inside(asked, "text"),
        output=inside(record.get("result"), "completions", 0, "text"),
        expected=correct[0] if correct else None,
        model=inside(record.document, "adapter_spec", "model"),
        seconds=inside(record.get("result"), "request_time"),
    )


def _harness(record: SourceRecord) -> Iterator[Made]:
    sent, reply = record.need("input"), inside(record.get("output"), 0, 0)
    if not isinstance(reply, str):
        raise InputError(
            "has likelihoods of choices, not an answer; import a task that generates text", "output"
        )
    asked = inside(sent, "gen_args_0", "arg_0") or inside(sent, 0, 0)
    if isinstance(asked, list) and len(asked) == 1:  # a chat is one text of JSON
        asked = decoded(asked[0])
    yield from _with(record, input=asked, output=reply)


def _evaluated(record: SourceRecord) -> Iterator[Made]:
    """An item, and the sample of an answer to it."""
    item, sample = decoded(record.need("item")), decoded(record.get("sample"))
    if not isinstance(item, dict):
        raise InputError(f"is {json_type(item)}, not an object", "item")
    rest = {name: value for name, value in item.items() if name not in EXPECTED}
    if len(rest) != 1 and not any(name in rest for name in INPUTS):
        raise InputError(
            f"has none of the keys {join_names(INPUTS)}; rename the one that was asked", "item"
        )
    expected = next((item[name] for name in EXPECTED if item.get(name)), None)
    yield from _with(
        record,
        input=inside(sample, "input") or rest,
        output=inside(sample, "output_text") or inside(sample, "output"),
        expected=expected,
        model=inside(sample, "model"),
        tokens_in=inside(sample, "usage", "prompt_tokens"),
        tokens_out=inside(sample, "usage", "completion_tokens"),
    )


def _call(record: SourceRecord) -> Iterator[Made]:
    """A call of an operation; one that was not given a question answers nobody."""
    given, output = decoded(record.get("input")), decoded(record.get("output"))
    if any(inside(given, name) for name in INPUTS):
        name = str(record.get("name")).rpartition("/")[2].partition(":")[0]
        model = inside(given, "model") or inside(output, "model")
        yield from _with(record, model=model if isinstance(model, str) else name)


def _span(record: SourceRecord) -> Iterator[Made]:
    metadata, metrics = decoded(record.get("metadata")), decoded(record.get("metrics"))
    start, end = (inside(metrics, name) for name in ("start", "end"))
    has_times = all(isinstance(time, int | float) for time in (start, end))
    yield from _with(
        record,
        kind=inside(decoded(record.get("span")), "type"),
        model=inside(metadata, "model"),
        tokens_in=inside(metrics, "prompt_tokens"),
        tokens_out=inside(metrics, "completion_tokens"),
        seconds=max(end - start, 0) if has_times else None,
    )


# -- OpenAI: platform.openai.com/docs, "Fine-tuning" (chat format) and "Batch API" -----------------


def _chat(record: SourceRecord) -> Iterator[Made]:
    """A conversation; if the assistant has the last word, that is the answer."""
    messages = read_chat(record.decoded("messages"), "messages")
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
    messages = read_messages(_asked(body), "body")
    if not messages:
        raise InputError("has no messages", "body")
    made = prompt_row(messages, id=read_name(record.need("id")))
    yield Made("prompts", made.fields, dict.fromkeys(("text", "messages"), "body"))


def _asked(body: Mapping[str, Any]) -> list[Any] | None:
    """The messages of a request, to the Responses API and Anthropic's too."""
    given = body.get("messages") or body.get("input")
    instructions = body.get("instructions") or body.get("system")
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(asked, list):
        return None
    return [*([{"role": "system", "content": instructions}] if instructions else []), *asked]


def _batch_reply(record: SourceRecord) -> Iterator[Made]:
    response = record.get("response")
    body = inside(response, "body") or inside(response, "message")
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
    """The message of the first choice, the messages in the output of the Responses API, or the one
    message of Anthropic's."""
    if "role" in body:
        return [body]
    choices, output = body.get("choices"), body.get("output")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return [message] if isinstance(message, dict) else None
    steps = output if isinstance(output, list) else []
    return [step for step in steps if isinstance(step, dict) and "role" in step] or None


# -- Prompts alone ---------------------------------------------------------------------------------


def _prompt(record: SourceRecord) -> Iterator[Made]:
    """A row of a table of prompts. A further column is no variable: nobody has said so."""
    given = {name: record.get(name) for name in ("category", "reference", "rubric", "variables")}
    given["variables"] = decoded(given["variables"])
    if record.get("messages") is None:
        messages = _asked_text(record, "text")
    else:
        messages = read_messages(record.decoded("messages"), "messages")
    if messages[-1]["role"] == "assistant":
        raise InputError("ends with an answer; name the column messages to import both", "text")
    yield prompt_row(messages, id=prompt_id(record, messages, given["variables"]), **given)


def _asked_text(record: SourceRecord, field: str) -> list[Message]:
    """The question in a cell: a text, taken as it is, or an object or list with one."""
    value = record.need(field)
    if isinstance(value, dict | list):
        return read_conversation(value, "user", INPUTS, field)
    return user_messages([read_text(record, field)])


# -- Answers of one model: AutoArena's README, and AlpacaEval's outputs ----------------------------


def _outputs(record: SourceRecord) -> Iterator[Made]:
    """One model's answers, in the format of AlpacaEval and AutoArena."""
    question = record.need("prompt")
    model = read_name(record.get("model") or record.stem)
    messages = _asked_text(record, "prompt")
    if "instruction" in record.row and record.get("context") not in (None, question):
        question = f"{question}\n\n{read_text(record, 'context')}"  # Alpaca's input
        messages = user_messages([question])
    prompt = prompt_id(record, question)
    more = {name: record.get(name) for name in ("category", "reference")}
    yield prompt_row(messages, id=prompt, **more)
    if "response" in record.cells and record.cells["response"] is None:
        return  # a golden of DeepEval
    yield candidate_row(model)
    answer = [{"role": "assistant", "content": read_text(record, "response")}]
    yield answer_row(model, prompt, answer, "response")


# -- The list ------------------------------------------------------------------------------------

LAYOUTS = (
    layout(
        "inspect",
        "Inspect's log of an evaluation",
        "input expected=target messages output epoch seconds=total_time",
        "input expected messages output",
        _inspected,
        ANSWER_KINDS,
        inside=(("samples",),),
    ),
    layout(
        "openai-batch",
        "OpenAI and Anthropic batch output",
        "id=custom_id response=response,result",
        "id response",
        _batch_reply,
        ("candidates", "responses"),
    ),
    layout(
        "openai-batch-input",
        "OpenAI and Anthropic batch input",
        "id=custom_id body=body,params",
        "id body",
        _batch_request,
        ("prompts",),
    ),
    layout(
        "openai-chat",
        "chat messages",
        f"messages=messages,conversations,conversation model id={','.join(IDS)} "
        "candidate user_template text reference rubric variables",
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
        "langsmith-experiment",
        "LangSmith and MLflow experiments",
        "input=inputs output=outputs expected=reference_outputs,reference_output,expectations "
        "seconds=latency cost=total_cost",
        "input output expected",
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
        "openai-evals",
        "OpenAI evals",
        "input expected=ideal id",
        "input expected",
        _example,
        ("prompts",),
    ),
    layout(
        "langfuse",
        "Langfuse dataset",
        "id=id input expected=expectedoutput,expected_output dataset=datasetname,datasetid,"
        "dataset_name,dataset_id status output=output,actual_output",
        "input expected|dataset",
        _example,
        ("prompts",),
        without=("output",),
        inside=(("items",), ("data",)),
    ),
    layout(
        "langfuse-traces",
        "Langfuse traces",
        "input output model=model,providedmodelname,provided_model_name name seconds=latency "
        "cost=totalcost,calculatedtotalcost,total_cost kind=type "
        "usage=usage,usagedetails,usage_details tokens_in=inputtokens,prompttokens "
        "tokens_out=outputtokens,completiontokens end=endtime,end_time "
        "start=starttime,start_time,timestamp,traceid",
        "input output seconds|cost|start",
        _trace,
        ANSWER_KINDS,
        inside=(("data",), ("observations",)),
    ),
    layout(
        "braintrust",
        "Braintrust experiments, datasets and logs",
        "input output expected metadata scores span=span_attributes metrics",
        "input output|expected metadata|scores|span",
        _span,
        ANSWER_KINDS,
        inside=(("data",),),
    ),
    layout(
        "helm",
        "HELM's scenario state",
        "instance request result trial=train_trial_index",
        "instance request result",
        _request,
        ANSWER_KINDS,
        inside=(("request_states",),),
    ),
    layout(
        "lm-eval",
        "lm-evaluation-harness samples",
        "doc=doc_id expected=target input=arguments output=resps",
        "doc input output",
        _harness,
        ANSWER_KINDS,
    ),
    layout(
        "weave",
        "Weave calls",
        "name=op_name input=inputs output start=started_at end=ended_at",
        "name input output start",
        _call,
        ANSWER_KINDS,
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
        "prompt=prompt,question,instruction,input,user_input "
        "response=response,answer,output,completion,actual_output,actualoutput "
        "model=model,candidate id=id,prompt_id category context=input "
        "reference=reference,ground_truth,expected_output,expectedoutput,expected",
        "prompt response",
        _outputs,
        ANSWER_KINDS,
        inside=(("testCases",),),
    ),
    layout(
        "prompts",
        "prompts",
        "id=id,prompt_id,external_id text=text,prompt,question,input,user_input messages "
        "category=category,tag reference=reference,expected,expected_output,expected_answer "
        "rubric variables candidate=candidate,name,model answer=answer,response,output "
        "left=left,model_a,a winner=winner,outcome,preference,label,score "
        "template=user_template,system_prompt table=[output],annotation_id,response1,response_1,"
        "response_a,answer1,answer_1,answer_a,output1,output_1,output_a,completion_a,text1",
        "text|messages",
        _prompt,
        ("prompts",),
        without=("candidate", "answer", "left", "winner", "template", "table"),
    ),
    layout(
        "openai-evals-items",
        "items of OpenAI's Evals API",
        "item=item,datasource_item sample",
        "item",
        _evaluated,
        ANSWER_KINDS,
        inside=(("data",),),
    ),
)
