"""Layouts without votes: test results, datasets, traces and chats of other tools.

Each names the documentation it follows. Special layouts come before general ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from arena.conversations import Message, split_answer
from arena.formats.base import MEMBER, Made, SourceRecord, decoded, decoded_chat, layouts
from arena.formats.rankings import of_wide_answers
from arena.formats.records import (
    INPUTS,
    OUTPUTS,
    answer_row,
    candidate_row,
    content_id,
    document_of,
    inside,
    prompt_id,
    prompt_row,
    read_chat,
    read_conversation,
    read_messages,
    read_name,
    read_text,
    read_turns,
    user_messages,
)
from arena.validation import InputError, join_names, json_type


def _reference_text(value: Any, field: str) -> str:
    messages = read_conversation(value, "assistant", OUTPUTS, field)
    return "\n\n".join(message["content"] for message in messages)


def _of_example(record: SourceRecord) -> Iterator[Made]:
    """An item of a dataset: its expected output is a reference, never a variable."""
    messages = read_conversation(record.need("input"), "user", INPUTS, "input")
    expected = record.get("expected")
    reference = None if expected is None else _reference_text(expected, "expected")
    retired = str(record.get("status")).upper() == "ARCHIVED" or None
    prompt = prompt_id(record, messages)
    more = {"reference": reference, "retired": retired}
    for name in ("category", "document", "rubric"):  # of our own export
        value = inside(record.row.get("metadata"), name)
        more |= {name: value if isinstance(value, str) else None}
    yield prompt_row(messages, "input", id=prompt, **more)


# The columns of the table that LangSmith's SDK makes from an experiment (to_pandas), and of the CSV
# file of a dataset.
OBJECTS = {"inputs.": "input", "input.": "input", "outputs.": "output", "reference.": "expected"}
DOWNLOADED = {"input_": "input", "output_": "expected"}


def _objects_in(record: SourceRecord, objects: Mapping[str, str]) -> SourceRecord:
    """The record with the objects that have a column for each member."""
    cells: dict[str, Any] = {}
    for name, value in record.row.items():
        member = MEMBER.fullmatch(name)
        field = objects.get(member[1].lower()) if member else None
        if member and field and field not in record.chosen:
            cells.setdefault(field, {})
            cells[field] |= {} if value in (None, "") else {member[2]: decoded_chat(value)}
    return replace(record, cells=record.cells | {name: cells[name] or None for name in cells})


def _of_experiment(record: SourceRecord) -> Iterator[Made]:
    yield from _of_trace(_objects_in(record, OBJECTS))


def _of_download(record: SourceRecord) -> Iterator[Made]:
    yield from _of_example(_objects_in(record, DOWNLOADED))


# Kinds of traced steps that answer somebody; others are tools, searches and the like.
ANSWERING = ("generation", "agent", "chain", "llm", "trace", "eval", "task")


def _of_trace(record: SourceRecord) -> Iterator[Made]:
    """A traced call: its input is a prompt, its output the answer of its model, and what was
    expected the reference.

    A step that answers nobody, or was traced without its input, is not a prompt.
    """
    kind = str(record.get("kind") or "").lower()
    if (kind and kind not in ANSWERING) or record.get("input") is None:
        return
    messages = read_conversation(record.need("input"), "user", INPUTS, "input")
    prompt = content_id(messages)
    expected = record.get("expected")
    reference = None if expected is None else _reference_text(expected, "expected")
    yield prompt_row(messages, "input", id=prompt, reference=reference)
    if record.get("output") is None:
        return
    model = read_name(_model(record) or record.get("name") or record.stem)
    yield candidate_row(model)
    answer = read_conversation(record.get("output"), "assistant", OUTPUTS, "output")
    usage = decoded(record.get("usage"))
    yield answer_row(
        model,
        prompt,
        answer[len(messages) :] if answer[: len(messages)] == messages else answer,
        "output",
        tokens_in=_first(record.get("tokens_in"), *_values_in(usage, "input", "promptTokens")),
        tokens_out=_first(
            record.get("tokens_out"), *_values_in(usage, "output", "completionTokens")
        ),
        cost=record.get("cost"),
        # Langfuse exports the latency of an observation in milliseconds, and that of a trace in
        # seconds.
        seconds=_first(_seconds_between(record), record.get("seconds")),
    )


def _model(record: SourceRecord) -> Any:
    return record.get("model") or inside(decoded(record.get("extra")), "metadata", "ls_model_name")


def _values_in(value: Any, *names: str) -> list[Any]:
    return [inside(value, name) for name in names]


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _seconds_between(record: SourceRecord) -> float | None:
    times = record.get("start"), record.get("end")
    if not all(isinstance(time, str) for time in times):
        return None
    try:
        start, end = (datetime.fromisoformat(str(time)) for time in times)
        return max((end - start).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None


# Evaluations: Inspect (inspect.aisi.org.uk, "Log Files"), HELM (its ScenarioState),
# lm-evaluation-harness (docs/interface.md, --log_samples), OpenAI (API reference, "Evals"),
# Weave (its calls), Braintrust (braintrust.dev/docs, "Export")

# The expected answer, in an item whose other keys are the question.
EXPECTED = ("ideal", "expected", "reference", "ground_truth", "correct_label", "label", "target")


def _record_with(record: SourceRecord, **cells: Any) -> Iterator[Made]:
    return _of_trace(replace(record, cells=record.cells | cells))


def _of_inspect_sample(record: SourceRecord) -> Iterator[Made]:
    """A sample in its first epoch: later ones answer the same prompt again."""
    if record.get("epoch") not in (None, 1):
        return
    messages = record.get("messages")
    steps = list(map(decoded, messages)) if isinstance(messages, list) else []
    answered_steps = (n for n, step in enumerate(steps) if inside(step, "role") == "assistant")
    first = next((n for n in answered_steps if inside(steps[n], "source") != "input"), len(steps))
    model = inside(record.document, "eval", "model") or inside(record.get("output"), "model")
    yield from _record_with(
        record,
        output=steps[first:] or None,
        model=model,
        tokens_in=inside(record.get("output"), "usage", "input_tokens"),
        tokens_out=inside(record.get("output"), "usage", "output_tokens"),
    )


def _of_helm_request(record: SourceRecord) -> Iterator[Made]:
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
    yield from _record_with(
        record,
        input=inside(asked, "messages") or inside(asked, "text"),
        output=inside(record.get("result"), "completions", 0, "text"),
        expected=correct[0] if correct else None,
        model=inside(record.document, "adapter_spec", "model"),
        seconds=inside(record.get("result"), "request_time"),
    )


def _of_harness_sample(record: SourceRecord) -> Iterator[Made]:
    sent, reply = record.need("input"), inside(record.get("output"), 0, 0)
    if not isinstance(reply, str):
        raise InputError(
            "has likelihoods of choices, not an answer; import a task that generates text",
            "output",
        )
    asked = inside(sent, "gen_args_0", "arg_0") or inside(sent, 0, 0)
    if isinstance(asked, list) and len(asked) == 1:  # a chat is one text of JSON
        asked = decoded(asked[0])
    yield from _record_with(record, input=asked, output=reply)


def _of_evaluation(record: SourceRecord) -> Iterator[Made]:
    """An item, and the sample of an answer to it."""
    item, sample = decoded(record.need("item")), decoded(record.get("sample"))
    if not isinstance(item, dict):
        raise InputError(f"is {json_type(item)}, not an object", "item")
    rest = {name: value for name, value in item.items() if name not in EXPECTED}
    if len(rest) != 1 and not any(name in rest for name in INPUTS):
        raise InputError(
            f"has none of the keys {join_names(INPUTS)}; rename the question's key",
            "item",
        )
    expected = next((item[name] for name in EXPECTED if item.get(name)), None)
    yield from _record_with(
        record,
        input=inside(sample, "input") or rest,
        output=inside(sample, "output_text") or inside(sample, "output"),
        expected=expected,
        model=inside(sample, "model"),
        tokens_in=inside(sample, "usage", "prompt_tokens"),
        tokens_out=inside(sample, "usage", "completion_tokens"),
    )


def _of_weave_call(record: SourceRecord) -> Iterator[Made]:
    """A call of an operation; one that was not given a question answers nobody."""
    given, output = decoded(record.get("input")), decoded(record.get("output"))
    if any(inside(given, name) for name in INPUTS):
        name = str(record.get("name")).rpartition("/")[2].partition(":")[0]
        model = inside(given, "model") or inside(output, "model")
        yield from _record_with(record, model=model if isinstance(model, str) else name)


def _of_span(record: SourceRecord) -> Iterator[Made]:
    metadata, metrics = decoded(record.get("metadata")), decoded(record.get("metrics"))
    start, end = (inside(metrics, name) for name in ("start", "end"))
    has_times = all(isinstance(time, int | float) for time in (start, end))
    yield from _record_with(
        record,
        kind=inside(decoded(record.get("span")), "type"),
        model=inside(metadata, "model"),
        tokens_in=inside(metrics, "prompt_tokens"),
        tokens_out=inside(metrics, "completion_tokens"),
        seconds=max(end - start, 0) if has_times else None,
    )


def _of_chat(record: SourceRecord) -> Iterator[Made]:
    """A conversation; if the assistant has the last word, that is the answer."""
    messages = read_chat(record.need("messages"), "messages")
    question, answer = split_answer(messages)
    if not question:
        raise InputError("has no user message", "messages")
    prompt = prompt_id(record, question)
    yield prompt_row(question, "messages", id=prompt)
    if answer:
        model = read_name(record.get("model") or record.stem)
        yield candidate_row(model)
        yield answer_row(model, prompt, answer, "messages")


def _of_batch_request(record: SourceRecord) -> Iterator[Made]:
    body = record.need("body")
    body = body if isinstance(body, dict) else {}
    messages = read_messages(_messages_asked(body), "body")
    if not messages:
        raise InputError("has no messages", "body")
    yield prompt_row(messages, "body", id=read_name(record.need("id")))


def _messages_asked(body: Mapping[str, Any]) -> list[Any] | None:
    """The messages of a request, to the Responses API and Anthropic's too."""
    given = body.get("messages") or body.get("input")
    instructions = body.get("instructions") or body.get("system")
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(asked, list):
        return None
    return [*([{"role": "system", "content": instructions}] if instructions else []), *asked]


def _of_batch_reply(record: SourceRecord) -> Iterator[Made]:
    response = record.get("response")
    body = inside(response, "body") or inside(response, "message")
    body = body if isinstance(body, dict) else {}
    messages = read_messages(_message_replied(body), "response")
    if not messages:
        raise InputError(
            "has neither choices nor output: the request failed, so there is no answer; leave it "
            "out",
            "response",
        )
    model = read_name(body.get("model") or record.stem)
    usage = body.get("usage")
    yield candidate_row(model)
    yield answer_row(
        model,
        read_name(record.need("id")),
        messages,
        "response",
        tokens_in=_first(*_values_in(usage, "prompt_tokens", "input_tokens")),
        tokens_out=_first(*_values_in(usage, "completion_tokens", "output_tokens")),
    )


def _message_replied(body: Mapping[str, Any]) -> list[Any] | None:
    """The message of the first choice, the messages in the output of the Responses API, or the one
    message of Anthropic's."""
    if "role" in body:
        return [body]
    output, message = body.get("output"), inside(body, "choices", 0, "message")
    if isinstance(message, dict):
        return [message]
    steps = output if isinstance(output, list) else []
    return [step for step in steps if isinstance(step, dict) and "role" in step] or None


def _of_question(record: SourceRecord) -> Iterator[Made]:
    turns = read_turns(record.need("turns"), "turns")
    references = read_turns(record.get("reference") or [""], "reference")
    more = {"category": record.get("category"), "reference": "\n\n".join(references)}
    yield prompt_row(user_messages(turns), "turns", id=read_name(record.need("id")), **more)


def _of_model_answer(record: SourceRecord) -> Iterator[Made]:
    model = read_name(record.need("model"))
    turns = inside(record.need("choices"), 0, "turns")
    if not isinstance(turns, list):
        raise InputError("has no turns in its first choice", "choices")
    answers = read_turns(turns, "choices")
    yield candidate_row(model)
    messages = [{"role": "assistant", "content": answer} for answer in answers]
    yield answer_row(model, read_name(record.need("id")), messages, "choices")


def _of_prompt(record: SourceRecord) -> Iterator[Made]:
    """A row of a table of prompts. Further columns are not variables, because nothing says that
    they are.
    """
    given = {name: record.get(name) for name in ("category", "reference", "rubric", "variables")}
    given["document"] = document_of(record)
    given["variables"] = decoded(given["variables"])
    if record.get("messages") is None:
        messages = _asked_text(record, "text")
    else:
        messages = read_messages(record.need("messages"), "messages")
    if messages[-1]["role"] == "assistant":
        raise InputError(
            "ends with an answer; rename the column to messages to import both", "text"
        )
    yield prompt_row(messages, id=prompt_id(record, messages, given["variables"]), **given)


def _asked_text(record: SourceRecord, field: str) -> list[Message]:
    """The question in a cell: a text, taken as it is, or an object or list that contains one."""
    value = record.need(field)
    if isinstance(value, dict | list):
        return read_conversation(value, "user", INPUTS, field)
    return user_messages([read_text(record, field)])


def _outputs_of(record: SourceRecord) -> Iterator[Made]:
    """One model's answers, in the format of AlpacaEval and AutoArena."""
    question = record.need("prompt")
    model = read_name(record.get("model") or record.stem)
    messages = _asked_text(record, "prompt")
    if "instruction" in record.row and record.get("context") not in (None, question):
        question = f"{question}\n\n{read_text(record, 'context')}"  # Alpaca's input
        messages = user_messages([question])
    prompt = prompt_id(record, question)
    more = {name: record.get(name) for name in ("category", "reference")}
    yield prompt_row(messages, id=prompt, document=document_of(record), **more)
    if "response" in record.cells and record.cells["response"] is None:
        return  # a golden of DeepEval
    yield candidate_row(model)
    yield answer_row(model, prompt, read_text(record, "response", may_be_empty=True), "response")


LAYOUTS = layouts(
    """
mt-bench-questions: MT-Bench questions
    id=question_id turns category reference
    encoded turns
    needs id turns
    becomes prompts

mt-bench-answers: MT-Bench answers
    id=question_id model=model_id choices
    encoded choices
    needs id model choices
    becomes candidates responses

inspect: Inspect evaluation log
    input expected=target messages output epoch seconds=total_time
    needs input expected messages output
    inside samples
    becomes prompts candidates responses

openai-batch: OpenAI and Anthropic batch output
    id=custom_id response=response,result
    encoded response
    needs id response
    becomes candidates responses

openai-batch-input: OpenAI and Anthropic batch input
    id=custom_id body=body,params
    encoded body
    needs id body
    becomes prompts

openai-chat: chat messages
    messages=messages,conversations,conversation model id=question_id,id,prompt_id,instruction_id
    candidate user_template text reference rubric variables
    encoded messages
    needs messages
    without candidate user_template text reference rubric variables
    becomes prompts candidates responses

langsmith-runs: LangSmith runs
    input=inputs output=outputs kind=run_type name model extra start=start_time end=end_time
    tokens_in=prompt_tokens tokens_out=completion_tokens cost=total_cost
    seconds=latency,latency_seconds
    encoded input output
    needs input output kind|start
    becomes prompts candidates responses

langsmith-experiment: LangSmith and MLflow experiments
    input=inputs,inputs.,input. output=outputs,outputs.
    expected=reference_outputs,reference_output,expectations,reference. example=example_id,id
    seconds=latency,execution_time cost=total_cost
    encoded input output expected
    needs input output expected|example expected|seconds
    becomes prompts candidates responses

experiment: experiments of Phoenix and others
    input output expected=reference_output,reference_outputs,expected,expected_output,reference
    example=example_id,dataset_example_id start=start_time end=end_time model cost=total_cost,cost
    tokens_in=prompt_token_count,prompt_tokens tokens_out=completion_token_count,completion_tokens
    encoded_cells input output expected
    needs input output example
    inside data examples
    becomes prompts candidates responses

langsmith: LangSmith dataset
    id=id,example_id input=inputs expected=outputs
    encoded input expected
    needs input expected
    becomes prompts

openai-evals: OpenAI evals
    input expected=ideal id
    chat_cells input
    needs input expected
    becomes prompts

langfuse: Langfuse dataset
    id input expected=expectedoutput,expected_output
    dataset=datasetname,datasetid,dataset_name,dataset_id status output=output,actual_output
    encoded_cells input expected
    needs input expected|dataset
    without output
    inside items data
    becomes prompts

langfuse-traces: Langfuse traces
    input output model=model,providedmodelname,provided_model_name name seconds=latency
    cost=totalcost,calculatedtotalcost,total_cost kind=type usage=usage,usagedetails,usage_details
    tokens_in=inputtokens,prompttokens tokens_out=outputtokens,completiontokens
    end=endtime,end_time start=starttime,start_time,timestamp,traceid
    encoded input output
    needs input output seconds|cost|start
    inside data observations
    becomes prompts candidates responses

braintrust: Braintrust experiments, datasets and logs
    input output expected metadata scores span=span_attributes metrics
    encoded metadata scores span metrics
    chat_cells input output expected
    needs input output|expected metadata|scores|span
    inside data
    becomes prompts candidates responses

helm: HELM scenario state
    instance request result trial=train_trial_index
    encoded_cells instance request result
    needs instance request result
    inside request_states
    becomes prompts candidates responses

lm-eval: lm-evaluation-harness samples
    doc=doc_id expected=target input=arguments output=resps
    encoded_cells input output
    needs doc input output
    becomes prompts candidates responses

weave: Weave calls
    name=op_name input=inputs output start=started_at end=ended_at
    encoded_cells input
    chat_cells output
    needs name input output start
    becomes prompts candidates responses

langsmith-table: LangSmith dataset as a table
    input expected=output prompt=prompt,question,instruction model=model,candidate,generator
    chat_cells input
    needs input expected
    without prompt model
    becomes prompts

langsmith-csv: LangSmith dataset as CSV
    id=id,example_id input=input_ expected=output_
    needs input expected
    becomes prompts

alpaca-outputs: AlpacaEval outputs
    prompt=instruction response=output model=generator category=dataset id
    needs prompt response model
    becomes prompts candidates responses

answers: answers of one model (AutoArena)
    prompt=prompt,question,instruction,input,user_input
    response=response,answer,output,completion,actual_output,actualoutput,reply,model_output
    response=model_response,prediction,generated_text,generation model=model,candidate
    id=id,prompt_id category document=document,document_id,doc_id context=input
    reference=reference,ground_truth,expected_output,expectedoutput,expected
    needs prompt response
    inside testCases
    becomes prompts candidates responses

prompts: prompts
    id=id,prompt_id,external_id,uid text=text,prompt,question,input,user_input messages
    category=category,tag document=document,document_id,doc_id
    reference=reference,expected,expected_output,expected_answer rubric
    variables candidate=candidate,name,model answer=answer,response,output,completion,reply
    answer=model_output,model_response,prediction,generated_text,generation left=left,model_a,a
    winner=winner,outcome,preference,label,score,scores,rank,ranks,ranking,rating,chosen,rejected
    winner=answers,completions,responses,who_won,loser,result template=user_template,system_prompt
    table=[output],annotation_id,response1,response_1,response_a,answer1
    table=answer_1,answer_a,output1,output_1,output_a,completion_a,text1
    encoded messages variables
    needs text|messages
    without candidate answer left winner template table
    becomes prompts

openai-evals-items: OpenAI Evals API items
    item=item,datasource_item sample
    encoded item sample
    needs item
    inside data
    becomes prompts candidates responses

answers-wide: answers, a column for each candidate
    prompt=prompt,question,instruction,input,query,task,text id=id,question_id,prompt_id,uid
    category=category,topic
    needs prompt
    without winner
    several answer
    becomes prompts candidates responses
""",
    {
        "mt-bench-questions": _of_question,
        "mt-bench-answers": _of_model_answer,
        "inspect": _of_inspect_sample,
        "openai-batch": _of_batch_reply,
        "openai-batch-input": _of_batch_request,
        "openai-chat": _of_chat,
        "langsmith-runs": _of_trace,
        "langsmith-experiment": _of_experiment,
        "experiment": _of_trace,
        "langsmith": _of_example,
        "openai-evals": _of_example,
        "langfuse": _of_example,
        "langfuse-traces": _of_trace,
        "braintrust": _of_span,
        "helm": _of_helm_request,
        "lm-eval": _of_harness_sample,
        "weave": _of_weave_call,
        "langsmith-table": _of_example,
        "langsmith-csv": _of_download,
        "alpaca-outputs": _outputs_of,
        "answers": _outputs_of,
        "prompts": _of_prompt,
        "openai-evals-items": _of_evaluation,
        "answers-wide": of_wide_answers,
    },
    {"langsmith-experiment": {"members": OBJECTS}, "langsmith-csv": {"members": DOWNLOADED}},
)
