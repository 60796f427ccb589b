"""Layouts of labels, which people gave to answers and judges are measured against.

Each names the documentation it follows.
"""

import re
from collections.abc import Iterator
from typing import Any

from arena.conversations import answer_fields, prompt_fields
from arena.formats.base import Made, SourceRecord, layouts
from arena.formats.battles import (
    FEEDBACK,
    goes_left,
    pairs_of_texts,
    preferred_side,
    question_and_answers,
)
from arena.formats.records import (
    INPUTS,
    category_of,
    filled,
    inside,
    read_conversation,
    read_name,
    written,
)
from arena.formats.winners import SKIP, read_winner
from arena.outcomes import LEFT, RIGHT
from arena.validation import InputError


def _preferred_label(record: SourceRecord) -> Iterator[Made]:
    is_blank = any(_is_blank_text(record.cells.get(name)) for name in ("chosen", "rejected"))
    for pair in [record] if is_blank else pairs_of_texts(record):
        yield _label_of_pair(pair)


def _label_of_pair(record: SourceRecord) -> Made:
    names = ["chosen", "rejected"]
    if any(_is_blank_text(record.cells.get(name)) for name in ("prompt", *names)):
        texts = dict.fromkeys(names, "")
        prompt = ""
    else:
        question, answers = question_and_answers(record)
        prompt = prompt_fields(question)["text"]
        texts = {name: answer_fields(answer)["text"] for name, answer in answers.items()}
    # Only the content decides, so the same pair has the same order in every file.
    is_left = goes_left(prompt, texts)
    left, right = names if is_left else names[::-1]
    label = {"prompt": prompt, "response_1": texts[left], "response_2": texts[right]}
    models = {f"model_{n}": f"{side}_model" for n, side in ((1, left), (2, right))}
    more = {name: record.get(column) for name, column in models.items()}
    label |= filled(more | {"category": record.get("category")})
    columns = {"response_1": left, "response_2": right, "label": "chosen"} | models
    return Made("labels", label | {"label": LEFT if is_left else RIGHT}, columns)


def _is_blank_text(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def _prometheus_label(record: SourceRecord) -> Iterator[Made]:
    names = {"prompt": "prompt", "response_1": "response_a", "response_2": "response_b"}
    label = {name: record.answer(field) for name, field in names.items()}
    label |= {"label": preferred_side(record), "rater": FEEDBACK}
    yield Made("labels", label | filled({n: record.get(n) for n in ("reference", "rubric")}), names)


def _prometheus_score(record: SourceRecord) -> Iterator[Made]:
    label = {name: record.answer(name) for name in ("prompt", "response", "score")}
    levels = [(n, record.get(f"level_{n}")) for n in range(1, 6)]
    rubric = [f"Score {n}: {written(level)}" for n, level in levels if level is not None]
    if record.get("rubric") is not None:
        rubric.insert(0, written(record.get("rubric")))
    label |= filled({"reference": record.get("reference"), "rubric": "\n".join(rubric)})
    yield Made("labels", label | {"rater": FEEDBACK})


def _label_of_two(record: SourceRecord) -> Iterator[Made]:
    """Two answers in columns of their own, and which one is better."""
    label: dict[str, Any] = {"prompt": _asked(record)}
    label |= {name: record.answer(name) for name in ("response_1", "response_2")}
    try:
        winner = read_winner(read_name(record.need("winner")), "", "", record.values)
    except InputError as error:
        raise InputError(error.reason, error.column or "winner") from None
    more = {name: record.get(name) for name in ("reference", "rubric", "model_1", "model_2")}
    more |= {"rater": record.get("rater"), "category": category_of(record, "category")}
    columns = {"label": "winner"}
    if winner.outcome != SKIP:
        yield Made("labels", label | filled(more) | {"label": winner.outcome}, columns)


def _asked(record: SourceRecord) -> Any:
    """The prompt, messages as one text, with the input that an instruction is about."""
    prompt, context = record.answer("prompt"), record.get("context")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], dict):
        prompt = prompt_fields(read_conversation(prompt, "user", INPUTS, "prompt"))["text"]
    return prompt if context in (None, prompt) else f"{prompt}\n\n{written(context)}"


def _label_of_one(record: SourceRecord) -> Iterator[Made]:
    label = {name: record.answer(name) for name in ("prompt", "response", "score")}
    names = ("reference", "rubric", "rater", "category")
    yield Made("labels", label | filled({name: record.get(name) for name in names}))


# HHH: huggingface.co/datasets/HuggingFaceH4/hhh_alignment


def _label_of_choices(record: SourceRecord) -> Iterator[Made]:
    """Two choices, of which one has the label 1."""
    choices = inside(record.need("targets"), "choices")
    marks = inside(record.need("targets"), "labels")
    if not (isinstance(choices, list) and isinstance(marks, list)) or sorted(marks) != [0, 1]:
        raise InputError("is not two choices with the labels 1 and 0", "targets")
    label = {"prompt": record.need("prompt"), "response_1": choices[0], "response_2": choices[1]}
    yield Made("labels", label | {"label": LEFT if marks[0] else RIGHT})


# prometheus-eval's benchmarks: github.com/prometheus-eval/prometheus-eval, eval/benchmark/data

_REQUEST = re.compile(
    r".*###The instruction to evaluate:\n(?P<prompt>.*?)\s*###Response to evaluate:\n"
    r"(?P<response>.*?)\s*(?:###Reference Answer \(Score 5\):\n(?P<reference>.*?)\s*)?"
    r"###Score Rubrics:\n(?P<rubric>.*?)\s*###Feedback:\s*",
    re.DOTALL,
)


def _requested(record: SourceRecord, field: str) -> dict[str, str]:
    """What a request to Prometheus quotes."""
    request = _REQUEST.fullmatch(written(record.need(field)))
    if request is None:
        raise InputError("is not a request to Prometheus, with its headings", field)
    return filled(request.groupdict())


def _requests_of_pair(record: SourceRecord) -> Iterator[Made]:
    chosen, rejected = (_requested(record, name) for name in ("chosen", "rejected"))
    answers = [chosen.pop("response"), rejected["response"]]
    is_left = goes_left(chosen["prompt"], answers)
    first, second = answers if is_left else answers[::-1]
    label = chosen | {"response_1": first, "response_2": second}
    label |= filled({"category": category_of(record, "category")})
    yield Made("labels", label | {"label": LEFT if is_left else RIGHT})


def _requests_with_scores(record: SourceRecord) -> Iterator[Made]:
    """One request with the scores of several runs of a model, each as a rater."""
    label = _requested(record, "request") | filled({"category": category_of(record, "category")})
    scores = record.need("scores")
    for run, score in enumerate(scores if isinstance(scores, list) else [scores], start=1):
        if score is not None:
            yield Made("labels", label | {"score": score, "rater": f"GPT-4, run {run}"})


# Tried in this order.
LAYOUTS = layouts(
    """
prometheus: Prometheus preferences
    prompt=orig_instruction,instruction response_a=orig_response_a,response_a
    response_b=orig_response_b,response_b preference=orig_preference,preference
    reference=orig_reference_answer,reference_answer rubric=orig_criteria,rubric id
    needs prompt response_a response_b preference
    becomes labels

prometheus-requests: Prometheus benchmark with scores
    request=instruction,prometheus_prompt scores=gpt4_score,gpt4_scores_3_runs,human_score
    category
    needs request scores
    becomes labels

prometheus-pairs: Prometheus benchmark of pairs
    chosen=chosen_instruction rejected=rejected_instruction category=source,category
    needs chosen rejected
    becomes labels

prometheus-scores: Prometheus scores
    prompt=orig_instruction,instruction response=orig_response,response score=orig_score,score
    reference=orig_reference_answer,reference_answer rubric=orig_criteria,criteria,rubric
    level_1=orig_score1_description level_2=orig_score2_description
    level_3=orig_score3_description level_4=orig_score4_description
    level_5=orig_score5_description
    needs prompt response score
    becomes labels

preferences: preference pairs
    prompt=prompt,question,instruction,input chosen=chosen,preferred_output,chosen_response
    rejected=rejected,non_preferred_output,rejected_response models
    chosen_model=chosen_model,chosen_candidate rejected_model=rejected_model,rejected_candidate
    category=subset,category
    chat_cells prompt chosen rejected
    needs chosen rejected
    becomes labels

hhh: helpful, honest and harmless choices
    prompt=input targets
    encoded_cells targets
    needs prompt targets
    becomes labels

shp: Stanford Human Preferences
    prompt=history response_1=human_ref_a response_2=human_ref_b winner=labels category=domain
    values 1=left 0=right
    needs prompt response_1 response_2 winner
    becomes labels

helpsteer: HelpSteer preferences
    prompt=context response_1=response1 response_2=response2 winner=overall_preference
    category=domain
    chat_cells prompt
    values -3=left -2=left -1=left 0=tie 1=right 2=right 3=right
    needs prompt response_1 response_2 winner
    becomes labels

pairs: two answers with a label
    prompt=prompt,question,instruction,input,query response_1=response_@a,answer_@a,output_@a
    response_1=completion_@a,text_@a response_2=response_@b,answer_@b,output_@b,completion_@b
    response_2=text_@b winner=label,winner,preference,preferred,verdict context=input
    model_1=model_@a model_2=model_@b rater=rater,annotator,worker reference rubric
    category=category,scenario,subset,source,domain
    chat_cells prompt
    values 1=left 2=right
    needs prompt response_1 response_2 winner
    becomes labels

scores: one answer with a score
    prompt=prompt,question,instruction,input response=response,answer,output score=score,rating
    reference rubric rater=rater,annotator,worker category=category,scenario
    needs prompt response score
    becomes labels
""",
    {
        "prometheus": _prometheus_label,
        "prometheus-requests": _requests_with_scores,
        "prometheus-pairs": _requests_of_pair,
        "prometheus-scores": _prometheus_score,
        "preferences": _preferred_label,
        "hhh": _label_of_choices,
        "shp": _label_of_two,
        "helpsteer": _label_of_two,
        "pairs": _label_of_two,
        "scores": _label_of_one,
    },
)
