"""Layouts with votes: battles, annotations, judgments and preference pairs of other tools.

Each names the documentation it follows.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from arena.conversations import Message, answer_fields, prompt_fields
from arena.files.rows import Values
from arena.formats.base import Layout, Made, SourceRecord, decoded, layouts
from arena.formats.pairs import SPELLINGS
from arena.formats.records import (
    INPUTS,
    OUTPUTS,
    answer_row,
    candidate_row,
    content_id,
    document_of,
    filled,
    messages_between,
    prompt_id,
    prompt_row,
    read_conversation,
    read_messages,
    read_name,
    read_number,
    read_text,
    read_time,
    read_turns,
    user_messages,
    written,
)
from arena.outcomes import LEFT, OUTCOMES, RIGHT, TIE
from arena.validation import InputError, quoted

# LMArena: huggingface.co/datasets/lmarena-ai (arena-human-preference), and FastChat's battles

_HEAD_TO_HEAD = {"prompt", "model_a", "model_b", "response_a", "response_b", "winner"}
_CONVERSATIONS = ("conversation_a", "conversation_b")
_BATTLE_TEXTS = ("response_a", "response_b", *_CONVERSATIONS)


def _battle_kinds(fields: set[str]) -> tuple[str, ...]:
    has_texts = fields.issuperset(_BATTLE_TEXTS[:2]) or fields.issuperset(_BATTLE_TEXTS[2:])
    return ("prompts", "candidates", "responses", "votes") if has_texts else ("votes",)


def _of_battle(record: SourceRecord) -> Iterator[Made]:
    left, right = (read_name(record.need(side)) for side in ("model_a", "model_b"))
    # A judge that contradicts itself once the answers are swapped has not voted.
    is_vote = str(record.get("winner")).strip().lower() != "tie (inconsistent)"
    vote: Values = {"a": left, "b": right, "outcome": _winner_of_battle(record) if is_vote else TIE}
    if any(record.get(name) is not None for name in _BATTLE_TEXTS):
        questions, answers = _question_and_sides(record)
        language = record.get("language")
        category = None if language == "unknown" else language
        by_model = dict(zip((left, right), answers, strict=True))
        vote["prompt"] = prompt = _shared_prompt(record, (questions, category), by_model)
        yield prompt_row(questions, id=prompt, category=category, document=document_of(record))
        for model, messages, side in zip((left, right), answers, ("a", "b"), strict=True):
            yield candidate_row(model)
            name = f"response_{side}"
            field = name if name in record.cells else f"conversation_{side}"
            yield answer_row(model, prompt, messages, field)
    elif record.get("id") is not None:
        vote["prompt"] = read_name(record.get("id"))
        vote |= filled({"document": document_of(record)})
    who = "rater" if record.get("judge") is None else "judge"
    vote |= filled({"rater": record.get(who), "cast_at": read_time(record.get("time"))})
    vote |= filled({n: record.get(n) for n in ("kind", "turn")} | {"question_id": record.get("id")})
    vote |= _autoarena_judge(record)
    names = {"a": "model_a", "b": "model_b", "outcome": "winner"}
    if is_vote:
        yield Made("votes", vote, names | {"rater": who, "cast_at": "time"})


def _autoarena_judge(record: SourceRecord) -> Values:
    """The model that judged, in what AutoArena downloads (its autoarena/api/router.py)."""
    judge = str(record.get("judge") or record.stem.rpartition("-judge-votes")[0])
    is_judge = {*record.row} - {"judge"} == _HEAD_TO_HEAD and judge.lower() not in ("", "human")
    return {"rater": read_name(judge), "kind": "judge"} if is_judge else {}


def _shared_prompt(
    record: SourceRecord, question: tuple[Any, ...], answers: Mapping[str, list[Message]]
) -> str:
    """Return the id of the file's first prompt that asks the same question; a new one if a model
    has answered that prompt in other words.
    """
    digests = {model: content_id(answer) for model, answer in answers.items()}
    own_id = prompt_id(record, *question, digests)
    first, before = record.seen.setdefault(content_id(*question), (own_id, digests))
    if all(before.get(model, answer) == answer for model, answer in digests.items()):
        before |= digests
        return str(first)
    return own_id if own_id != first else content_id(*question, digests)


def _winner_of_battle(record: SourceRecord) -> str:
    written = record.get("winner")
    if written is not None:
        name = str(written).strip().lower()
        outcome = TIE if name == "-" else SPELLINGS.get(name, name)  # AutoArena's dash
        if outcome not in OUTCOMES:
            raise InputError(
                f"is {quoted(written)}, which is not one of model_a, model_b, tie and tie "
                "(bothbad)",
                "winner",
            )
        return outcome
    flags = {
        outcome: record.get(name)
        for outcome, name in ((LEFT, "winner_a"), (RIGHT, "winner_b"), (TIE, "winner_tie"))
    }
    chosen = [
        outcome for outcome, flag in flags.items() if str(flag).lower() in ("1", "1.0", "true")
    ]
    if len(chosen) != 1:
        raise InputError(
            "and its neighbours mark no winner, or several; exactly one of winner_model_a, "
            "winner_model_b and winner_tie must be 1",
            "winner_a" if "winner_a" in record.cells else "winner",
        )
    return chosen[0]


def _question_and_sides(record: SourceRecord) -> tuple[list[Message], list[list[Message]]]:
    """Return the user's messages, and each side's messages from its first answer on."""
    if record.get("conversation_a") is not None:
        whole = [read_messages(record.need(name), name) for name in _CONVERSATIONS]
        roles = [turn["role"] for turn in whole[0]]
        first = roles.index("assistant") if "assistant" in roles else 0
        if not first:
            raise InputError("must begin with the user's message", "conversation_a")
        questions = [turn for turn in whole[0] if turn["role"] in ("system", "user")]
        return questions, [conversation[first:] for conversation in whole]
    cells = {name: record.need(name) for name in ("prompt", "response_a", "response_b")}
    if record.is_table and "winner_a" in record.cells:
        # Kaggle's table of battles writes all three as lists of turns; texts alone are taken as
        # they are.
        turns = {name: decoded(cell) for name, cell in cells.items()}
        cells = turns if set(map(type, turns.values())) == {list} else cells
    asked, *answers = (read_turns(cell, name) for name, cell in cells.items())
    return user_messages(asked), [messages_between(asked, answer) for answer in answers]


def _of_annotation(record: SourceRecord) -> Iterator[Made]:
    question = read_text(record, "prompt")
    prompt = prompt_id(record, question)
    models = [read_name(record.need(name)) for name in ("generator_1", "generator_2")]
    yield prompt_row(user_messages([question]), id=prompt, category=record.get("category"))
    for model, field in zip(models, ("output_1", "output_2"), strict=True):
        yield candidate_row(model)
        if record.get(field) is not None:
            yield answer_row(model, prompt, read_text(record, field), field)
    if record.get("preference") is None and "preference" in record.cells:
        return  # the annotator failed
    names = {"a": "generator_1", "b": "generator_2", "preference_b": "preference"}
    vote = {
        "a": models[0],
        "b": models[1],
        "prompt": prompt,
        "preference_b": _preference_b(record),
    }
    judge = record.get("annotator") or "AlpacaEval annotator"
    yield Made("votes", vote | {"judge": written(judge)}, names)


def _preference_b(record: SourceRecord) -> float:
    """Return the preference for the second answer; 1 is the first, 2 the second, 0 a draw."""
    given = record.need("preference")
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(given, bool) or not (number == 0 or 1 <= number <= 2):
        raise InputError(f"is {quoted(given)}, not a number from 1 to 2", "preference")
    return number - 1 if number else 0.5


def _name_of_judge(record: SourceRecord) -> str:
    judge = decoded(record.need("judge"))
    return read_name(judge[0] if isinstance(judge, list) and judge else judge)


def _of_judgment(record: SourceRecord) -> Iterator[Made]:
    judge = _name_of_judge(record)
    models = {name: read_name(record.need(name)) for name in ("model_1", "model_2")}
    games = (("g1_winner", "model_1", "model_2"), ("g2_winner", "model_2", "model_1"))
    for game, left, right in games:
        winner = record.get(game)
        if winner is None or winner == "error":
            continue
        outcome = {left: LEFT, right: RIGHT, "tie": TIE}.get(str(winner))
        if outcome is None:
            raise InputError(f"is {quoted(winner)}, not model_1, model_2 or tie", game)
        vote = {"a": models[left], "b": models[right], "outcome": outcome}
        vote |= {"prompt": read_name(record.need("id")), "judge": judge}
        vote |= filled({"cast_at": read_time(record.get("time")), "turn": record.get("turn")})
        yield Made("votes", vote, {"a": left, "b": right, "judge": "judge", "cast_at": "time"})


def _of_grade(record: SourceRecord) -> Iterator[Made]:
    """The judge's votes between this answer and those it graded before: the higher grade wins."""
    model, score = read_name(record.need("model")), read_number(record, "score")
    judge = _name_of_judge(record)
    prompt, turn = read_name(record.need("id")), record.get("turn")
    if score < 0:
        return  # its reply had no grade
    before = record.seen.setdefault((prompt, judge, str(turn)), {})
    if before.get(model, score) != score:
        raise InputError(f"differs from an earlier grade of {quoted(model)}", "score")
    for other, grade in before.items() if model not in before else ():
        outcome = LEFT if grade > score else RIGHT if score > grade else TIE
        vote = {"a": other, "b": model, "outcome": outcome, "prompt": prompt, "judge": judge}
        vote |= filled({"cast_at": read_time(record.get("time")), "turn": turn})
        names = {"b": "model", "judge": "judge", "cast_at": "time"}
        yield Made("votes", vote | {"grade_a": grade, "grade_b": score}, names)
    before[model] = score


# Preference pairs: huggingface.co/docs/trl, "Dataset formats"; RewardBench and Anthropic's
# hh-rlhf: their dataset cards

# Who speaks in a conversation that is one text.
_SPEAKER = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_SPEAKERS = {"Human": "user", "Assistant": "assistant"}


def _question_and_answers(record: SourceRecord) -> tuple[list[Message], dict[str, list[Message]]]:
    """Return the messages of the question, and those of `chosen` and `rejected` that follow it."""
    sides = {}
    for name in ("chosen", "rejected"):
        side = record.need(name)
        turns = (
            _SPEAKER.split(side) if isinstance(side, str) and record.get("prompt") is None else []
        )
        if len(turns) > 1 and not turns[0].strip():
            side = [
                {"role": _SPEAKERS[speaker], "content": text.strip()}
                for speaker, text in zip(turns[1::2], turns[2::2], strict=True)
            ]
        sides[name] = read_conversation(side, "assistant", OUTPUTS, name)
    if record.get("prompt") is not None:
        question = read_conversation(record.get("prompt"), "user", INPUTS, "prompt")
        answers = {
            name: side[len(question) :] if side[: len(question)] == question else side
            for name, side in sides.items()
        }
    else:
        shared = _shared_beginning(sides["chosen"], sides["rejected"])
        question = sides["chosen"][:shared]
        answers = {name: side[shared:] for name, side in sides.items()}
    if sides["chosen"] == sides["rejected"]:
        raise InputError("is the same as chosen; leave the pair out", "rejected")
    if not question or not all(answers.values()):
        raise InputError(
            "is missing, and the answers do not begin with the same question", "prompt"
        )
    return question, answers


def _pairs_of_texts(record: SourceRecord) -> Iterator[SourceRecord]:
    """Yield the record once for each chosen and each rejected text; RewardBench 2 has several."""
    texts = {name: _texts_of_cell(record, name) for name in ("chosen", "rejected")}
    count = sum(map(len, texts.values()))
    if count == 2:
        yield record
        return
    models = decoded(record.get("models"))
    are_names = isinstance(models, list) and len(set(map(str, models))) == len(models) == count
    names = iter(models if are_names and models else ())
    named = {
        name: [(text, next(names, f"{name} {n}")) for n, text in enumerate(texts[name], start=1)]
        for name in texts
    }
    for (chosen, chooser), (rejected, rejecter) in itertools.product(*named.values()):
        cells = {"chosen": chosen, "chosen_model": chooser}
        cells |= {"rejected": rejected, "rejected_model": rejecter}
        if record.get("id") is None and record.get("prompt") is not None:
            cells["id"] = content_id(record.get("prompt"), texts)
        yield replace(record, cells=record.cells | cells)


def _texts_of_cell(record: SourceRecord, name: str) -> list[Any]:
    """The texts of a cell; a conversation counts as one."""
    value = record.need(name)
    is_list = isinstance(value, list) and value and all(isinstance(v, str) for v in value)
    return value if is_list else [value]


def _of_preferred(record: SourceRecord) -> Iterator[Made]:
    for pair in _pairs_of_texts(record):
        yield from _preferred_pair(pair)


def _preferred_pair(record: SourceRecord) -> Iterator[Made]:
    question, answers = _question_and_answers(record)
    names = {name: read_name(record.get(f"{name}_model") or name) for name in answers}
    by_model = {names[name]: answer for name, answer in answers.items()}
    category = record.get("category")
    prompt = _shared_prompt(record, (question, category, record.get("id")), by_model)
    yield prompt_row(question, id=prompt, category=category, document=document_of(record))
    for name, answer in answers.items():
        yield candidate_row(names[name])
        yield answer_row(names[name], prompt, answer, name)
    pair = [names["chosen"], names["rejected"]]
    is_left = _goes_left(prompt)
    left, right = pair if is_left else pair[::-1]
    vote = {"a": left, "b": right, "prompt": prompt, "outcome": LEFT if is_left else RIGHT}
    if record.get("decided") == "juries":  # our own export
        vote |= {"kind": "jury", "rater": "juries"}
    labels = {"a": "chosen_model", "b": "rejected_model"}
    yield Made("votes", vote, labels if is_left else {"a": "rejected_model", "b": "chosen_model"})


def _of_unpaired(record: SourceRecord) -> Iterator[Made]:
    """An answer that is desirable or not, with a vote between it and each of the other kind."""
    question = read_conversation(record.need("prompt"), "user", INPUTS, "prompt")
    answer = read_conversation(record.need("completion"), "assistant", OUTPUTS, "completion")
    label, prompt = str(record.need("label")).strip().lower(), content_id(question)
    if label not in ("true", "false", "1", "0"):
        raise InputError(f"is {quoted(record.get('label'))}, not true or false", "label")
    is_desirable = label in ("true", "1")
    both: dict[bool, dict[str, str]] = record.seen.setdefault(prompt, {True: {}, False: {}})
    alike, others = both[is_desirable], both[not is_desirable]
    text = content_id(answer)
    if text in others:
        raise InputError("contradicts an earlier row with the same answer", "label")
    is_new, name = text not in alike, "desirable" if is_desirable else "undesirable"
    name = alike.setdefault(text, f"{name} {len(alike) + 1}" if alike else name)
    yield prompt_row(question, id=prompt)
    yield candidate_row(name)
    yield answer_row(name, prompt, answer, "completion")
    for other in others.values() if is_new else ():
        is_left = _goes_left(prompt, name, other)
        left, right = (name, other) if is_left else (other, name)
        outcome = LEFT if is_left == is_desirable else RIGHT
        yield Made("votes", {"a": left, "b": right, "prompt": prompt, "outcome": outcome})


def _shared_beginning(first: list[Message], second: list[Message]) -> int:
    """The number of messages with which both conversations begin."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return len(list(pairs))


def _goes_left(*of: object) -> bool:
    """Whether the first of two answers goes left; their content decides, half of the time each
    way.
    """
    return int(content_id(*of), 16) % 2 == 0


FEEDBACK = "Prometheus feedback"


def _of_prometheus(record: SourceRecord) -> Iterator[Made]:
    question = read_text(record, "prompt")
    texts = [read_text(record, name) for name in ("response_a", "response_b")]
    outcome = _preferred_side(record)
    reference, rubric = record.get("reference"), record.get("rubric")
    prompt = prompt_id(record, question, texts, rubric)
    yield prompt_row(user_messages([question]), id=prompt, reference=reference, rubric=rubric)
    for name, text, field in zip("AB", texts, ("response_a", "response_b"), strict=True):
        yield candidate_row(f"Response {name}")
        yield answer_row(f"Response {name}", prompt, text, field)
    vote = {"a": "Response A", "b": "Response B", "prompt": prompt, "outcome": outcome}
    yield Made("votes", vote | {"judge": FEEDBACK})


def _refusal(why: str, *fields: str) -> Callable[[SourceRecord], Iterator[Made]]:
    """Return the converter of records that are not votes: it says why, about the first of these
    fields.
    """

    def refuse(record: SourceRecord) -> Iterator[Made]:
        raise InputError(why, next((name for name in fields if name in record.cells), fields[0]))
        yield  # a generator, like the others

    return refuse


def _preferred_side(record: SourceRecord) -> str:
    label = str(record.need("preference")).strip().upper()
    if label not in ("A", "B", "TIE"):
        raise InputError(f"is {quoted(record.get('preference'))}, not A, B or tie", "preference")
    return {"A": LEFT, "B": RIGHT, "TIE": TIE}[label]


def _of_exported_vote(record: SourceRecord) -> Iterator[Made]:
    vote: Values = {"a": read_name(record.need("left")), "b": read_name(record.need("right"))}
    vote["outcome"] = record.need("outcome")
    vote |= filled({"kind": record.need("rater_kind"), "rater": record.get("rater")})
    vote |= filled({"cast_at": record.get("cast_at"), "comparison": record.get("comparison")})
    if record.get("prompt") is not None:
        vote["prompt"] = read_name(record.get("prompt"))
        vote |= filled({"document": document_of(record)})
    if record.get("preference") is not None:
        vote["preference_a"] = read_number(record, "preference")
    origin: Values = filled({"channel": record.get("channel")})
    if record.get("seconds") is not None:
        origin["seconds"] = read_number(record, "seconds")
    if record.get("network") is not None:
        origin["network"] = read_name(record.get("network"))
    state = record.get("state")
    if state == "voided":
        origin["voided_at"] = record.get("cast_at")
    elif state not in (None, "counted", "capped"):
        origin["uncounted"] = state
    names = {"a": "left", "b": "right", "preference_a": "preference", "kind": "rater_kind"}
    names |= {f"provenance.{name}": name for name in ("channel", "seconds", "network")}
    names |= {"provenance.uncounted": "state", "provenance.voided_at": "cast_at"}
    yield Made("votes", vote | filled({"provenance": origin}), names)


def _preferred_label(record: SourceRecord) -> Iterator[Made]:
    is_blank = any(_is_blank_text(record.cells.get(name)) for name in ("chosen", "rejected"))
    for pair in [record] if is_blank else _pairs_of_texts(record):
        yield _label_of_pair(pair)


def _label_of_pair(record: SourceRecord) -> Made:
    names = ["chosen", "rejected"]
    if any(_is_blank_text(record.cells.get(name)) for name in ("prompt", *names)):
        texts = dict.fromkeys(names, "")
        prompt = ""
    else:
        question, answers = _question_and_answers(record)
        prompt = prompt_fields(question)["text"]
        texts = {name: answer_fields(answer)["text"] for name, answer in answers.items()}
    # Only the content decides, so the same pair has the same order in every file.
    is_left = _goes_left(prompt, texts)
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
    label = {name: _cell_of(record, field) for name, field in names.items()}
    label |= {"label": _preferred_side(record), "rater": FEEDBACK}
    yield Made("labels", label | filled({n: record.get(n) for n in ("reference", "rubric")}), names)


def _prometheus_score(record: SourceRecord) -> Iterator[Made]:
    label = {name: _cell_of(record, name) for name in ("prompt", "response", "score")}
    levels = [(n, record.get(f"level_{n}")) for n in range(1, 6)]
    rubric = [f"Score {n}: {written(level)}" for n, level in levels if level is not None]
    if record.get("rubric") is not None:
        rubric.insert(0, written(record.get("rubric")))
    label |= filled({"reference": record.get("reference"), "rubric": "\n".join(rubric)})
    yield Made("labels", label | {"rater": FEEDBACK})


def _cell_of(record: SourceRecord, name: str) -> object:
    """The cell of a field, which may be blank; raises InputError if it is missing."""
    value = record.cells.get(name)
    return record.need(name) if value is None else value


LAYOUTS = layouts(
    """
mt-bench-judgments: MT-Bench judgments
    id=question_id judge model_1 model_2 g1_winner g2_winner turn time=tstamp
    needs id judge g1_winner
    becomes votes

mt-bench-grades: MT-Bench grades of single answers
    id=question_id judge model score turn time=tstamp
    needs id judge model score
    becomes votes

lmarena: LMArena battles
    id=question_id,id,evaluation_session_id model_a model_b winner winner_a=winner_model_a
    winner_b=winner_model_b winner_tie prompt response_a response_b rater=rater,worker
    conversation_a=conversation_a,messages_a conversation_b=conversation_b,messages_b
    judge=judge,judge_hash,evaluator kind=rater_kind language document turn
    time=tstamp,timestamp
    encoded conversation_a conversation_b
    needs model_a model_b winner|winner_a response_a|conversation_a|judge|time|winner_a
    becomes prompts candidates responses votes

battles: Ringside export of votes
    left right outcome preference prompt document rater_kind rater cast_at comparison channel
    seconds network state
    needs left right outcome rater_kind rater cast_at
    becomes votes

alpaca-annotations: AlpacaEval annotations
    prompt=instruction,prompt output_1 output_2 generator_1 generator_2 preference annotator
    category=dataset
    needs prompt generator_1 generator_2 preference
    becomes prompts candidates responses votes

prometheus: Prometheus preferences
    prompt=orig_instruction,instruction response_a=orig_response_a,response_a
    response_b=orig_response_b,response_b preference=orig_preference,preference
    reference=orig_reference_answer,reference_answer rubric=orig_criteria,rubric id
    needs prompt response_a response_b preference
    becomes prompts candidates responses votes

prometheus-scores: Prometheus scores
    prompt=orig_instruction response=orig_response score=orig_score
    needs prompt response score
    becomes votes

preferences: preference pairs
    prompt=prompt,question,instruction,input chosen=chosen,preferred_output,chosen_response
    rejected=rejected,non_preferred_output,rejected_response models
    chosen_model=chosen_model,chosen_candidate rejected_model=rejected_model,rejected_candidate
    category=subset,category document id=id,prompt_id
    decided=decided_by
    chat_cells prompt chosen rejected
    needs chosen rejected
    becomes prompts candidates responses votes

judgements: Ringside export of judgements
    feedback verdict messages
    needs feedback verdict messages
    becomes votes

preferences-unpaired: unpaired preferences
    prompt completion label
    chat_cells prompt completion
    needs prompt completion label
    becomes prompts candidates responses votes

annotations: Label Studio or Argilla annotations
    annotations=annotations,annotation_id annotator data fields responses
    needs annotations|fields annotator|data|responses
    becomes votes
""",
    {
        "mt-bench-judgments": _of_judgment,
        "mt-bench-grades": _of_grade,
        "lmarena": _of_battle,
        "battles": _of_exported_vote,
        "alpaca-annotations": _of_annotation,
        "prometheus": _of_prometheus,
        "prometheus-scores": _refusal(
            "is a score for a single answer, not a vote; use it to measure a judge with manage.py "
            "calibrate JUDGE --labels FILE",
            "score",
        ),
        "preferences": _of_preferred,
        "judgements": _refusal(
            "is a judgement to train a judge model with, not an answer; import battles.jsonl or "
            "the arena's zip file instead",
            "verdict",
        ),
        "preferences-unpaired": _of_unpaired,
        "annotations": _refusal(
            "does not say which answer is on which side; save the columns prompt, model_a, "
            "model_b, response_a, response_b and winner as CSV",
            "annotations",
            "responses",
        ),
    },
    {"lmarena": {"kinds": _battle_kinds, "has_plain_votes": True}},
)
[SCORES] = layouts(
    """
prometheus-scores: Prometheus scores
    prompt=orig_instruction,instruction response=orig_response,response score=orig_score,score
    reference=orig_reference_answer,reference_answer rubric=orig_criteria,criteria,rubric
    level_1=orig_score1_description level_2=orig_score2_description
    level_3=orig_score3_description level_4=orig_score4_description
    level_5=orig_score5_description
    needs prompt response score
    becomes labels
""",
    {"prometheus-scores": _prometheus_score},
)


def _for_labels(name: str, convert: Callable[[SourceRecord], Iterator[Made]]) -> Layout:
    """The layout of votes with this name, whose records are converted to labels."""
    of_votes = next(layout for layout in LAYOUTS if layout.name == name)
    return replace(of_votes, convert=convert, kinds=SCORES.kinds)


# Tried in this order; a file of Ringside's own labels fits none of them.
LABEL_LAYOUTS = (
    _for_labels("prometheus", _prometheus_label),
    SCORES,
    _for_labels("preferences", _preferred_label),
)
