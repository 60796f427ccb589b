"""Layouts without votes: test results, datasets, traces and chats of other tools.

Each names the documentation it follows. Special layouts come before general ones.
"""

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
    layout,
    prompt_id,
    prompt_row,
    read_conversation,
    read_messages,
    read_name,
    read_text,
    user_messages,
)
from arena.validation import InputError

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
        # Langfuse exports the latency of an observation in milliseconds, and that of a trace in
        # seconds.
        seconds=_first(_duration(record), record.get("seconds")),
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


# -- Prompts alone ---------------------------------------------------------------------------------


def _prompt(record: SourceRecord) -> Iterator[Made]:
    """A row of a table of prompts. A further column is no variable: nobody has said so."""
    given = {name: record.get(name) for name in ("category", "reference", "rubric", "variables")}
    given["variables"] = decoded(given["variables"])
    if record.get("messages") is None:
        messages = user_messages([read_text(record, "text")])
    else:
        messages = read_messages(record.decoded("messages"), "messages")
    yield prompt_row(messages, id=prompt_id(record, messages, given["variables"]), **given)


# -- Answers of one model: AutoArena's README, and AlpacaEval's outputs ----------------------------


def _outputs(record: SourceRecord) -> Iterator[Made]:
    """One model's answers, in the format of AlpacaEval and AutoArena."""
    question = record.need("prompt")
    model = read_name(record.get("model") or record.stem)
    messages = user_messages([read_text(record, "prompt")])
    prompt = prompt_id(record, question)
    more = {name: record.get(name) for name in ("category", "reference")}
    yield prompt_row(messages, id=prompt, **more)
    yield candidate_row(model)
    answer = [{"role": "assistant", "content": read_text(record, "response")}]
    yield answer_row(model, prompt, answer, "response")


# -- The list ------------------------------------------------------------------------------------

LAYOUTS = (
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
        "response=response,answer,output,completion,actual_output model=model,candidate "
        "id=id,prompt_id category reference=reference,ground_truth,expected_output",
        "prompt response",
        _outputs,
        ANSWER_KINDS,
    ),
    layout(
        "prompts",
        "prompts",
        "id=id,prompt_id,external_id text=text,prompt,question,input messages "
        "category=category,tag reference=reference,expected,expected_output,expected_answer "
        "rubric variables candidate=candidate,name,model answer=answer,response,output "
        "left=left,model_a,a winner=winner,outcome,preference,label,score "
        "template=user_template,system_prompt",
        "text|messages",
        _prompt,
        ("prompts",),
        without=("candidate", "answer", "left", "winner", "template"),
    ),
)
