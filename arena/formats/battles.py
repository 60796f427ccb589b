"""Layouts with votes: battles, annotations, judgments and preference pairs of other tools.

Each names the documentation it follows.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from arena.conversations import Message
from arena.files.rows import Values
from arena.formats.base import Made, SourceRecord, decoded, layouts
from arena.formats.records import (
    INPUTS,
    OUTPUTS,
    answer_row,
    candidate_row,
    category_of,
    content_id,
    document_of,
    filled,
    inside,
    messages_between,
    name_of_prompt,
    prompt_id,
    prompt_row,
    rater_of,
    read_conversation,
    read_messages,
    read_name,
    read_number,
    read_text,
    read_time,
    read_turns,
    user_messages,
    voted,
    written,
)
from arena.formats.winners import SKIP, Winner, read_winner
from arena.outcomes import LEFT, RIGHT, TIE, Uncounted, outcome_of_lead
from arena.validation import InputError, quoted

# LMArena: huggingface.co/datasets/lmarena-ai (arena-human-preference), and FastChat's battles

_HEAD_TO_HEAD = {"prompt", "model_a", "model_b", "response_a", "response_b", "winner"}
_CONVERSATIONS = ("conversation_a", "conversation_b")
_BATTLE_TEXTS = ("response_a", "response_b", *_CONVERSATIONS)


def _battle_kinds(fields: set[str]) -> tuple[str, ...]:
    has_texts = fields.issuperset(_BATTLE_TEXTS[:2]) or fields.issuperset(_BATTLE_TEXTS[2:])
    return ("prompts", "candidates", "responses", "votes") if has_texts else ("votes",)


def _of_battle(record: SourceRecord, details: Values | None = None) -> Iterator[Made]:
    left, right = _names_of_sides(record)
    winner = _winner_of_battle(record, left, right)
    vote: Values = {"a": left, "b": right, "outcome": winner.outcome}
    if winner.preference is not None:
        vote = {"a": left, "b": right, "preference_a": winner.preference}
    if any(record.get(name) is not None for name in _BATTLE_TEXTS):
        questions, answers = _question_and_sides(record)
        category = category_of(record, "category") or category_of(record, "language")
        by_model = dict(zip((left, right), answers, strict=True))
        vote["prompt"] = prompt = _shared_prompt(record, (questions, category), by_model)
        yield prompt_row(questions, id=prompt, category=category, document=document_of(record))
        for model, answer, side in zip((left, right), answers, ("a", "b"), strict=True):
            yield candidate_row(model)
            name = f"response_{side}"
            field = name if name in record.cells else f"conversation_{side}"
            yield answer_row(model, prompt, answer, field)
    elif (prompt := record.get("id") or record.get("prompt")) is not None:
        vote["prompt"] = name_of_prompt(record, prompt)
        vote |= filled({"document": document_of(record)})
    vote |= rater_of(record)
    if details is None:
        vote |= filled({name: record.get(name) for name in ("kind", "turn")})
        vote |= filled({"question_id": record.get("id")})
        vote |= _autoarena_judge(record)
    if str(record.get("blind")).strip().lower() in ("false", "0"):
        vote["provenance"] = {"uncounted": Uncounted.CHOSEN}
    names = {"a": "model_a", "b": "model_b", "outcome": "winner", "rater": "rater"}
    if winner.outcome != SKIP:
        yield from voted(record, vote, names, details)


def _of_plain_vote(record: SourceRecord) -> Iterator[Made]:
    """A row of nothing but a vote, whose further columns are its details."""
    return _of_battle(record, record.rest)


def _names_of_sides(record: SourceRecord) -> tuple[str, str]:
    """The two candidates: their names, or else what their answers' columns are called."""
    names = []
    for side in ("a", "b"):
        name = record.get(f"model_{side}")
        if name is None and f"model_{side}" not in record.cells:
            name = record.columns.get(f"response_{side}")
        names.append(read_name(record.need(f"model_{side}") if name is None else name))
    return names[0], names[1]


def _autoarena_judge(record: SourceRecord) -> Values:
    """The model that judged, in what AutoArena downloads (its autoarena/api/router.py)."""
    judge = str(record.get("judge") or record.stem.rpartition("-judge-votes")[0])
    is_judge = {*record.row} - {"judge"} == _HEAD_TO_HEAD and judge.lower() not in ("", "human")
    return {"rater": read_name(judge), "kind": "judge"} if is_judge else {}


def _shared_prompt(
    record: SourceRecord, question: tuple[Any, ...], answers: Mapping[str, str | list[Message]]
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


def _winner_of_battle(record: SourceRecord, left: str, right: str) -> Winner:
    written = record.get("winner")
    if written is not None:
        try:
            return read_winner(read_name(written), left, right, record.values)
        except InputError as error:
            raise InputError(error.reason, "winner") from None
    if record.get("score_a") is not None or "score_b" in record.cells:
        scores = [read_number(record, name) for name in ("score_a", "score_b")]
        return Winner(outcome_of_lead(scores[0] - scores[1]))
    flags = {
        outcome: record.get(name)
        for outcome, name in ((LEFT, "winner_a"), (RIGHT, "winner_b"), (TIE, "winner_tie"))
    }
    chosen = [
        outcome for outcome, flag in flags.items() if str(flag).lower() in ("1", "1.0", "true")
    ]
    if len(chosen) == 1:
        return Winner(chosen[0])
    if not chosen and "winner_a" not in record.cells:
        record.need("winner")
    raise InputError(
        "and its neighbours mark no winner, or several; exactly one of winner_model_a, "
        "winner_model_b and winner_tie must be 1",
        "winner_a" if "winner_a" in record.cells else "winner",
    )


def _question_and_sides(
    record: SourceRecord,
) -> tuple[list[Message], list[str | list[Message]]]:
    """Return the user's messages, and each side's messages from its first answer on."""
    if record.get("conversation_a") is not None:
        whole, answers = [], list[str | list[Message]]()
        for name in _CONVERSATIONS:
            conversation, is_empty = _without_empty_answer(record.need(name))
            whole.append(read_messages(conversation, name))
            roles = [turn["role"] for turn in whole[-1]] + ["assistant"] * is_empty
            first = roles.index("assistant") if "assistant" in roles else 0
            if not first:
                raise InputError("must begin with the user's message", name)
            answers.append(whole[-1][first:] or "")
        questions = [turn for turn in whole[0] if turn["role"] in ("system", "user")]
        return questions, answers
    cells = {"prompt": record.need("prompt")}
    cells |= {name: record.cells.get(name) or "" for name in ("response_a", "response_b")}
    if record.is_table and "winner_a" in record.cells:
        # Kaggle's table of battles writes all three as lists of turns; texts alone are taken as
        # they are.
        turns = {name: decoded(cell) for name, cell in cells.items()}
        cells = turns if set(map(type, turns.values())) == {list} else cells
    if isinstance(cells["prompt"], list) and isinstance(next(iter(cells["prompt"]), ""), dict):
        question = read_conversation(cells.pop("prompt"), "user", INPUTS, "prompt")
        return question, [written(cell) for cell in cells.values()]
    asked, left, right = (read_turns(cell, name) for name, cell in cells.items())
    return user_messages(asked), [messages_between(asked, answer) for answer in (left, right)]


def _without_empty_answer(conversation: Any) -> tuple[Any, bool]:
    """The messages without a last one of the assistant that is empty, and whether there was one."""
    last = conversation[-1] if isinstance(conversation, list) and conversation else None
    is_empty = (
        isinstance(last, dict)
        and last.get("role") == "assistant"
        and not last.get("tool_calls")
        and (last.get("content") is None or not str(last["content"]).strip())
    )
    return (conversation[:-1] if is_empty else conversation), is_empty


def _of_chat_vote(record: SourceRecord) -> Iterator[Made]:
    """A vote in FastChat's log of conversations; other events are no votes."""
    kind = str(record.need("winner"))
    states = record.need("states")
    if not kind.endswith("vote") or not isinstance(states, list) or len(states) != 2:
        return
    cells: Values = {"winner": kind, "time": record.get("time"), "rater": record.get("rater")}
    for side, state in zip(("a", "b"), states, strict=True):
        cells[f"model_{side}"] = inside(state, "model_name")
        spoken = inside(state, "messages")
        roles = inside(state, "roles") or []
        cells[f"conversation_{side}"] = [
            {"role": "user" if roles[:1] == [who] else "assistant", "content": text}
            for who, text in (spoken if isinstance(spoken, list) else [])
        ]
    if not all(cells[f"model_{side}"] for side in ("a", "b")):
        raise InputError("have no model_name", "states")
    yield from _of_battle(replace(record, cells=cells))


def _of_result_of_two(record: SourceRecord) -> Iterator[Made]:
    """A winner and a loser, without sides: a coin that is their content decides these."""
    winner, loser = (read_name(record.need(name)) for name in ("winner", "loser"))
    prompt = record.get("id") or record.get("prompt")
    is_left = goes_left(winner, loser, record.line)
    left, right = (winner, loser) if is_left else (loser, winner)
    is_tie = str(record.get("tie")).strip().lower() in ("1", "1.0", "true", "yes", "tie", "draw")
    vote = {"a": left, "b": right, "outcome": TIE if is_tie else LEFT if is_left else RIGHT}
    vote |= {} if prompt is None else {"prompt": name_of_prompt(record, prompt)}
    names = {"a": "winner", "b": "loser"} if is_left else {"a": "loser", "b": "winner"}
    yield from voted(record, vote | rater_of(record), names)


def _of_annotation(record: SourceRecord) -> Iterator[Made]:
    question = read_text(record, "prompt")
    prompt = prompt_id(record, question)
    models = [
        read_name(record.get(f"generator_{n}") or record.columns[f"output_{n}"]) for n in (1, 2)
    ]
    yield prompt_row(user_messages([question]), id=prompt, category=record.get("category"))
    for model, field in zip(models, ("output_1", "output_2"), strict=True):
        yield candidate_row(model)
        if isinstance(record.cells.get(field), str):
            yield answer_row(model, prompt, record.cells[field], field)
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


def question_and_answers(record: SourceRecord) -> tuple[list[Message], dict[str, list[Message]]]:
    """Return the messages of the question, and those of `chosen` and `rejected` that follow it."""
    sides = {}
    for name in ("chosen", "rejected"):
        side = record.answer(name)
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


def pairs_of_texts(record: SourceRecord) -> Iterator[SourceRecord]:
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
    value = record.answer(name)
    is_list = isinstance(value, list) and value and all(isinstance(v, str) for v in value)
    return value if is_list else [value]


def _of_preferred(record: SourceRecord) -> Iterator[Made]:
    for pair in pairs_of_texts(record):
        yield from _preferred_pair(pair)


def _preferred_pair(record: SourceRecord) -> Iterator[Made]:
    question, answers = question_and_answers(record)
    names = {name: read_name(record.get(f"{name}_model") or name) for name in answers}
    by_model = {names[name]: answer for name, answer in answers.items()}
    category = record.get("category")
    prompt = _shared_prompt(record, (question, category, record.get("id")), by_model)
    yield prompt_row(question, id=prompt, category=category, document=document_of(record))
    for name, answer in answers.items():
        yield candidate_row(names[name])
        yield answer_row(names[name], prompt, answer, name)
    pair = [names["chosen"], names["rejected"]]
    is_left = goes_left(prompt)
    left, right = pair if is_left else pair[::-1]
    vote = {"a": left, "b": right, "prompt": prompt, "outcome": LEFT if is_left else RIGHT}
    if record.get("decided") == "juries":  # our own export
        vote |= {"kind": "jury", "rater": "juries"}
    labels = {"a": "chosen_model", "b": "rejected_model"}
    yield Made("votes", vote, labels if is_left else {"a": "rejected_model", "b": "chosen_model"})


def _of_unpaired(record: SourceRecord) -> Iterator[Made]:
    """An answer that is desirable or not, with a vote between it and each of the other kind."""
    question = read_conversation(record.need("prompt"), "user", INPUTS, "prompt")
    answer = read_conversation(record.answer("completion"), "assistant", OUTPUTS, "completion")
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
        is_left = goes_left(prompt, name, other)
        left, right = (name, other) if is_left else (other, name)
        outcome = LEFT if is_left == is_desirable else RIGHT
        yield Made("votes", {"a": left, "b": right, "prompt": prompt, "outcome": outcome})


def _shared_beginning(first: list[Message], second: list[Message]) -> int:
    """The number of messages with which both conversations begin."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return len(list(pairs))


def goes_left(*of: object) -> bool:
    """Whether the first of two answers goes left; their content decides, half of the time each
    way.
    """
    return int(content_id(*of), 16) % 2 == 0


FEEDBACK = "Prometheus feedback"


def _of_prometheus(record: SourceRecord) -> Iterator[Made]:
    question = read_text(record, "prompt")
    texts = [read_text(record, name, may_be_empty=True) for name in ("response_a", "response_b")]
    outcome = preferred_side(record)
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


def preferred_side(record: SourceRecord) -> str:
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
    id=question_id,id,evaluation_session_id model_a=model_a,model_a_name
    model_b=model_b,model_b_name winner=winner,chosen_model_name winner_a=winner_model_a
    winner_b=winner_model_b winner_tie=winner_tie,both_equal prompt response_a response_b
    rater=rater,worker,visitor_id
    conversation_a=conversation_a,messages_a conversation_b=conversation_b,messages_b
    judge=judge,judge_hash,evaluator kind=rater_kind language document turn
    time=tstamp,timestamp blind=anony category
    encoded conversation_a conversation_b
    needs model_a model_b winner|winner_a response_a|conversation_a|judge|time|winner_a
    becomes prompts candidates responses votes

fastchat-log: FastChat conversation logs
    winner=type states models time=tstamp rater=ip
    needs winner states models
    becomes prompts candidates responses votes

battles: Ringside export of votes
    left right outcome preference prompt document rater_kind rater cast_at comparison channel
    seconds network state
    needs left right outcome rater_kind rater cast_at
    becomes votes

alpaca-annotations: AlpacaEval annotations
    prompt=instruction,prompt output_1 output_2 generator_1 generator_2 preference
    annotator=annotator,annotator_index category=dataset
    needs prompt output_1|generator_1 output_2|generator_2 preference
    becomes prompts candidates responses votes

shp: Stanford Human Preferences
    id=post_id prompt=history response_a=human_ref_a response_b=human_ref_b winner=labels
    category=domain
    values 1=left 0=right
    needs prompt response_a response_b winner
    becomes prompts candidates responses votes

helpsteer: HelpSteer preferences
    prompt=context response_a=response1 response_b=response2 winner=overall_preference
    category=domain language
    chat_cells prompt
    values -3=1 -2=0.83 -1=0.67 0=tie 1=0.33 2=0.17 3=0
    needs prompt response_a response_b winner
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

winners-and-losers: winners and losers
    winner=winner,winner_id,model_chosen,chosen_model,winning_model,winner_name,better,preferred_model
    loser=loser,loser_id,model_rejected,rejected_model,losing_model,loser_name,worse,other_model
    tie=tie,draw id=id,question_id,prompt_id,task prompt=prompt,text,question
    rater=rater,worker,user,annotator,worker_id,user_id
    time=cast_at,tstamp,timestamp,date judge count=count,counts,n,times
    needs winner loser
    becomes votes

scored-pairs: pairs with a score for each
    model_a=left,model_@a,candidate_@a,item_@a,system_@a model_b=right,model_@b,candidate_@b
    model_b=item_@b,system_@b score_a=score_@a,rating_@a,points_@a,score_left
    score_b=score_@b,rating_@b,points_@b,score_right prompt=prompt,question,task
    id=question_id,prompt_id,id,uid
    response_a=response_@a,answer_@a,output_@a,reply_@a,completion_@a,text_@a,@a_response,@a_answer
    response_b=response_@b,answer_@b,output_@b,reply_@b,completion_@b,text_@b,@b_response,@b_answer
    rater=rater,worker,annotator,user judge time=cast_at,tstamp,timestamp,created_at,date
    count=count,counts,weight,weights,times
    needs model_a model_b score_a score_b
    without winner
    becomes prompts candidates responses votes

two-answers: two answers and a winner
    prompt=prompt,question,instruction,input,query,task,history,context
    model_a=model_@a,generator_@a,candidate_@a,system_@a,@a_model model_b=model_@b,generator_@b
    model_b=candidate_@b,system_@b,@b_model
    response_a=response_@a,answer_@a,output_@a,reply_@a,completion_@a,text_@a,@a_response,@a_answer
    response_b=response_@b,answer_@b,output_@b,reply_@b,completion_@b,text_@b,@b_response,@b_answer
    winner=winner,label,labels,preferred,pairwise,verdict,vote,choice,result,flag,better,best,pw
    winner=chosen_model_name,overall_preference,human_preference,preference,who_won,winning_model
    winner=preferred_model,preferred_answer,preferred_response,better_answer,better_response
    winner=which_is_better,which_answer_is_better,which_response_is_better,which_reply_is_better
    winner=which_one_is_better,which_model_is_better,which_do_you_prefer,your_choice,decision
    winner=chosen,chosen_model,chosen_side,selected,selected_model,human_label,annotation,winner_name
    id=question_id,prompt_id,id,uid category=category,domain,subset language document
    rater=rater,worker,annotator,user,username,evaluator,email,email_address judge blind=anony
    time=cast_at,tstamp,timestamp,created_at,date count=count,counts
    chat_cells prompt
    needs prompt response_a response_b winner
    becomes prompts candidates responses votes

pairs: votes as a table
    model_a=left,model_@a,candidate_@a,item_@a,system_@a,option_@a,variant_@a,player_@a,assistant_@a
    model_a=generator_@a,model_name_@a,@a_model,name_@a,white,a
    model_b=right,model_@b,candidate_@b,item_@b,system_@b,option_@b
    model_b=variant_@b,player_@b,assistant_@b,generator_@b,model_name_@b,@b_model,name_@b,black,b
    winner=winner,label,labels,preferred,pairwise,verdict,vote,choice,result,flag,better,best,pw
    winner=chosen_model_name,overall_preference,human_preference,preference,who_won,winning_model
    winner=preferred_model,preferred_answer,preferred_response,better_answer,better_response
    winner=which_is_better,which_answer_is_better,which_response_is_better,which_reply_is_better
    winner=which_one_is_better,which_model_is_better,which_do_you_prefer,your_choice,decision
    winner=chosen,chosen_model,chosen_side,selected,selected_model,human_label,annotation,winner_name
    winner_a=winner_model_a,model_a_wins,a_wins,left_wins
    winner_b=winner_model_b,model_b_wins,b_wins,right_wins winner_tie=winner_tie,both_equal,tie
    id=prompt_id,question_id,uid prompt=prompt,task,question document
    rater=worker,rater,annotator,user,username,worker_id,workerid,annotator_id,rater_id,user_id
    rater=respondent_id,email_address judge blind=anony
    time=cast_at,timestamp,tstamp,created_at,time,date,startdate count=count,counts,weight,weights
    needs model_a model_b winner|winner_a
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
        "fastchat-log": _of_chat_vote,
        "shp": _of_battle,
        "helpsteer": _of_battle,
        "scored-pairs": _of_battle,
        "two-answers": _of_battle,
        "winners-and-losers": _of_result_of_two,
        "pairs": _of_plain_vote,
    },
    {
        "lmarena": {"kinds": _battle_kinds},
        "scored-pairs": {"kinds": _battle_kinds},
        "pairs": {"keeps_rest": True},
    },
)
