"""Layouts of ranked or scored answers, each ranking as the votes of one rater on one prompt.

Each names the documentation it follows.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from arena.conversations import Message
from arena.files.rows import Values
from arena.formats.base import Made, SourceRecord, decoded, layouts
from arena.formats.records import (
    INPUTS,
    OUTPUTS,
    Place,
    answer_row,
    candidate_row,
    category_of,
    content_id,
    filled,
    inside,
    name_of_prompt,
    prompt_id,
    prompt_row,
    rater_of,
    read_conversation,
    read_name,
    read_place,
    voted,
    written,
)
from arena.formats.winners import SKIP, read_winner
from arena.outcomes import LEFT, outcome_of_lead
from arena.validation import InputError, join_names, quoted

MOST_RANKED = 50


def votes_of_ranking(
    record: SourceRecord, places: Mapping[str, Place], vote: Values, field: str
) -> Iterator[Made]:
    """Yield the votes between all candidates with a place, of which the higher one wins.

    Raises InputError for more than MOST_RANKED.
    """
    placed = [name for name, place in places.items() if place is not None]
    if len(placed) > MOST_RANKED:
        raise InputError(f"ranks {len(placed)} answers; at most {MOST_RANKED} are allowed", field)
    for a, b in itertools.combinations(placed, 2):
        outcome = outcome_of_lead((places[a] or 0.0) - (places[b] or 0.0))
        yield from voted(
            record,
            vote | {"a": a, "b": b, "outcome": outcome},
            {"a": field, "b": field},
            is_one=False,
        )


def _rank(value: Any, field: str) -> Place:
    """A rank, of which 1 is the best, as a place."""
    if isinstance(value, str):
        value = re.sub(r"(?<=\d)(?:st|nd|rd|th)$|^#", "", value.strip())
    place = read_place(value, field)
    return None if place is None else -place


NAMES = ("model", "model_name", "model_id", "name", "candidate", "generator", "system", "id")
TEXTS = ("answer", "response", "output", "completion", "text", "content", "actual_output")
SCORES = ("overall_score", "score", "rating", "reward", "grade", "points")
RANKS = ("rank", "ranking", "place", "position")


def _first_of(entry: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _entries(record: SourceRecord) -> list[dict[str, Any]]:
    """The answers of a record, each an object, or lists of texts, models, scores and ranks."""
    answers = record.need("answers")
    if isinstance(answers, dict):
        answers = [
            {"model": name} | (entry if isinstance(entry, dict) else {"text": entry})
            for name, entry in answers.items()
        ]
    if not isinstance(answers, list) or not answers:
        raise InputError("is not a list of answers", "answers")
    if all(isinstance(answer, dict) for answer in answers):
        return answers
    entries = [{"text": answer} for answer in answers]
    for name, field in (("model", "models"), ("score", "scores"), ("rank", "ranks")):
        values = record.get(field)
        if isinstance(values, list) and len(values) == len(entries):
            entries = [entry | {name: value} for entry, value in zip(entries, values, strict=True)]
    return entries


def _of_rated_answers(record: SourceRecord) -> Iterator[Made]:
    """Answers of several models to a prompt, each with a rank or a score, or one of them the
    winner: Nectar, UltraFeedback, DeepEval and the like."""
    entries = _entries(record)
    question = read_conversation(_without_speakers(record.need("prompt")), "user", INPUTS, "prompt")
    prompt = prompt_id(record, question)
    yield prompt_row(question, id=prompt, category=category_of(record, "category"))
    places, texts = dict[str, Place](), set[str]()
    for number, entry in enumerate(entries, start=1):
        named = _first_of(entry, NAMES)
        name = f"answer {number}" if named is None else read_name(named)
        if name in places:
            raise InputError(f"has two answers of {quoted(name)}; leave one out", "answers")
        rank = _rank(_first_of(entry, RANKS), "answers")
        places[name] = read_place(_first_of(entry, SCORES), "answers") if rank is None else rank
        yield candidate_row(name)
        text = _first_of(entry, TEXTS)
        if text is not None:
            texts.add(name)
            answer = read_conversation(text, "assistant", OUTPUTS, "answers") if text else ""
            yield answer_row(name, prompt, answer, "answers")
    vote = {"prompt": prompt} | rater_of(record)
    if record.get("winner") is not None:
        yield from _votes_for_winner(record, list(places), vote)
    elif not texts and all(place is None for place in places.values()):
        raise InputError("have neither texts, nor ranks or scores", "answers")
    else:
        yield from votes_of_ranking(record, places, vote, "answers")


_SPEAKERS = re.compile(r"\s*Human: (.*?)\s*Assistant:\s*", re.DOTALL)


def _without_speakers(value: Any) -> Any:
    match = _SPEAKERS.fullmatch(value) if isinstance(value, str) else None
    return match[1].strip() if match else value


def _votes_for_winner(
    record: SourceRecord, names: list[str], vote: Values, headings: Mapping[str, str] | None = None
) -> Iterator[Made]:
    """Yield the winner's votes against each other candidate; about the others nothing is known.

    Of two candidates, the winner is read as that of a pair; of more, it is a name or a heading.
    """
    if len(names) == 2:
        winner = read_winner(read_name(record.need("winner")), names[0], names[1], record.values)
        outcome: Values = {"outcome": winner.outcome}
        if winner.preference is not None:
            outcome = {"preference_a": winner.preference}
        if winner.outcome != SKIP:
            yield from voted(record, vote | {"a": names[0], "b": names[1]} | outcome, {})
        return
    cell = " ".join(written(record.need("winner")).split())
    won = record.values.get(cell, cell).casefold()
    if won == SKIP:
        return
    known = {name.casefold(): name for name in names}
    known |= {heading.casefold(): name for name, heading in (headings or {}).items()}
    if won in ("tie", "draw", "all", "equal", "same"):
        yield from votes_of_ranking(record, dict.fromkeys(names, 0.0), vote, "winner")
        return
    if won not in known:
        raise InputError(
            f"is {quoted(record.get('winner'))}, which is none of {', '.join(map(quoted, names))}",
            "winner",
        )
    for name in names:
        if name != known[won]:
            outcome = {"a": known[won], "b": name, "outcome": LEFT}
            yield from voted(record, vote | outcome, {}, is_one=False)


def of_wide_answers(record: SourceRecord) -> Iterator[Made]:
    """A spreadsheet with a column of answers for each candidate, and perhaps a winner."""
    answers = record.each("answer")
    question = read_conversation(record.need("prompt"), "user", INPUTS, "prompt")
    prompt = prompt_id(record, question)
    yield prompt_row(question, id=prompt, category=category_of(record, "category"))
    for name, text in answers.items():
        yield candidate_row(name)
        yield answer_row(name, prompt, written(text or ""), f"answer:{name}")
    if record.get("winner") is not None:
        vote = {"prompt": prompt} | rater_of(record)
        headings = {name: record.columns[f"answer:{name}"] for name in answers}
        try:
            yield from _votes_for_winner(record, list(answers), vote, headings)
        except InputError as error:
            raise InputError(error.reason, "winner") from None


def _of_wide_ratings(record: SourceRecord) -> Iterator[Made]:
    """A row with a score or a rank for each candidate."""
    read = {"rating": read_place, "rank": _rank}
    places = {
        name: read[family](cell, f"{family}:{name}")
        for family in read
        for name, cell in record.each(family).items()
    }
    yield from votes_of_ranking(record, places, _of_prompt_or_line(record), "rating")


def _of_prompt_or_line(record: SourceRecord) -> Values:
    """The fields of a ranking's votes: its rater, and the prompt, or the line if there is none."""
    prompt = record.get("prompt") if record.get("prompt") is not None else record.get("id")
    name = f"line {record.line}" if prompt is None else name_of_prompt(record, prompt)
    return {"prompt": name} | rater_of(record)


def _of_long_rating(record: SourceRecord) -> Iterator[Made]:
    """A rater's score or rank of one candidate: its votes against those before in the file."""
    name = read_name(record.need("model"))
    rank = _rank(record.get("rank"), "rank")
    place = read_place(record.need("score"), "score") if rank is None else rank
    vote = _of_prompt_or_line(record)
    if record.get("id") is None and record.get("prompt") is None:
        vote["prompt"] = "all"  # a rater's one rating of each
    if record.get("text") is not None and record.get("prompt") is not None:
        question = read_conversation(record.get("prompt"), "user", INPUTS, "prompt")
        vote["prompt"] = content_id(question)  # an id may be the row's
        yield prompt_row(question, id=vote["prompt"], category=category_of(record, "category"))
        yield candidate_row(name)
        yield answer_row(name, vote["prompt"], written(record.get("text")), "text")
    before = record.seen.setdefault((vote["prompt"], vote.get("rater")), {})
    if len(before) >= MOST_RANKED and name not in before:
        raise InputError(f"is one of more than {MOST_RANKED} for this prompt", "model")
    if name in before and before[name] != place:
        raise InputError(f"rates {quoted(name)} a second time, and differently", "model")
    for other, earlier in before.items() if name not in before and place is not None else ():
        outcome = outcome_of_lead(earlier - place)
        yield from voted(
            record, vote | {"a": other, "b": name, "outcome": outcome}, {"b": "model"}, is_one=False
        )
    if place is not None:
        before[name] = place


def _long_kinds(fields: set[str]) -> tuple[str, ...]:
    has_texts = {"text", "prompt"} <= fields
    return ("prompts", "candidates", "responses", "votes") if has_texts else ("votes",)


def _of_ranking(record: SourceRecord) -> Iterator[Made]:
    """A row with names in order, the best first: `oak > elm = fir`, a list, or a column each."""
    if record.get("ranking") is not None:
        ranking = decoded(record.get("ranking"))
        if isinstance(ranking, str):
            separator = next((sign for sign in (">", ";", "|", ",") if sign in ranking), "\n")
            ranking = ranking.split(separator)
        if not isinstance(ranking, list):
            raise InputError(f"is {quoted(ranking)}, not names in order", "ranking")
    else:
        ranking = [record.get(f"place_{n}") for n in range(1, 6)]
    places: dict[str, Place] = {}
    for rank, names in enumerate(ranking):
        for name in names if isinstance(names, list) else str(names or "").split("="):
            name = re.sub(r"^\d+[.)]\s+", "", read_name(name))
            if name in places:
                raise InputError(f"names {quoted(name)} twice", "ranking")
            if name:
                places[name] = -float(rank)
    if len(places) < 2:
        raise InputError("ranks fewer than two candidates", "ranking")
    if all(name.isdecimal() for name in places):
        raise InputError("has numbers; name the candidates in their order", "ranking")
    yield from votes_of_ranking(record, places, _of_prompt_or_line(record), "ranking")


# Arena-Hard's judgments: github.com/lmarena/arena-hard-auto
_SCORE = {">>": 1.0, ">": 0.75, "=": 0.5, "<": 0.25, "<<": 0.0}
HARD_BASELINE = "baseline"


def _of_games(record: SourceRecord) -> Iterator[Made]:
    """Both games against the baseline, which is Assistant A in the first one."""
    model = read_name(record.need("model"))
    baseline = read_name(record.get("baseline") or HARD_BASELINE)
    games = record.need("games")
    for number, game in enumerate(games if isinstance(games, list) else []):
        score = str(inside(game, "score") or "").strip("[] ").upper()
        sign = score.replace("A", "").replace("B", "")
        if not sign or sign not in _SCORE:
            continue  # the judge's reply had no verdict
        preference = _SCORE[sign] if score[0] == "A" else 1 - _SCORE[sign]
        pair = (baseline, model) if number == 0 else (model, baseline)
        vote = {"a": pair[0], "b": pair[1], "preference_a": preference, "kind": "judge"}
        vote |= {"prompt": read_name(record.need("id")), "rater": read_name(record.need("judge"))}
        yield from voted(record, vote, {}, is_one=False)


# Open WebUI's export of feedback: docs.openwebui.com, "Evaluation"


def _of_feedback(record: SourceRecord) -> Iterator[Made]:
    """A thumb for a model, up or down, next to the models that answered the same message."""
    data = record.need("data")
    model, rating = inside(data, "model_id"), inside(data, "rating")
    others = inside(data, "sibling_model_ids")
    if not isinstance(others, list) or not others or model is None or rating is None:
        return  # a thumb for one answer alone compares nothing
    place = read_place(rating, "data") or 0.0
    if place == 0:
        return
    prompt = inside(record.get("meta"), "message_id") or record.get("id")
    vote = filled({"prompt": prompt and read_name(prompt), "rater": record.get("rater")})
    for other in dict.fromkeys(map(read_name, others)):
        if other != model:
            side = {"a": read_name(model), "b": other, "outcome": outcome_of_lead(place)}
            yield from voted(record, vote | side, {}, is_one=False)


# Argilla: docs.argilla.io, "Export a dataset"


def _of_argilla(record: SourceRecord) -> Iterator[Made]:
    """A record with each annotator's ranking, rating or choice of its fields."""
    fields, responses = record.need("fields"), record.get("responses") or []
    if not isinstance(fields, dict):
        raise InputError("is not an object", "fields")
    prompt_field = next((name for name in fields if name.lower() in (*INPUTS, "context")), "")
    question = fields.get(prompt_field) or f"record {record.line}"
    messages = read_conversation(question, "user", INPUTS, "fields")
    prompt = prompt_id(record, messages)
    names = {
        field: _model_of_field(record, field, number)
        for number, field in enumerate((f for f in fields if f != prompt_field), start=1)
    }
    yield prompt_row(messages, "fields", id=prompt)
    for field, name in names.items():
        yield candidate_row(name)
        yield answer_row(name, prompt, written(fields[field] or ""), "fields")
    rankings = [*_argilla_rankings(responses, names), *_argilla_ratings(responses, names)]
    if not rankings and "submitted" in json.dumps(responses):
        raise InputError("have no ranking, rating or choice of the answers", "responses")
    for rater, places in rankings:
        vote = filled({"prompt": prompt, "rater": rater})
        yield from votes_of_ranking(record, places, vote, "responses")


def _model_of_field(record: SourceRecord, field: str, number: int) -> str:
    """The model that wrote a field, by the metadata beside it; else the field's name."""
    metadata = record.get("metadata")
    ends = (field, field.replace("response", "model"), f"model-{number}", f"model_{number}")
    named = inside(metadata, "models", number - 1) or next(
        (inside(metadata, end) for end in ends if inside(metadata, end)), None
    )
    return field if named is None else read_name(named)


def _argilla_rankings(
    responses: Any, names: Mapping[str, str]
) -> Iterator[tuple[Any, dict[str, Place]]]:
    """Each submitted ranking: lists of values, or of one value by question (Argilla 2)."""
    by_question = responses.items() if isinstance(responses, dict) else ()
    given = [
        (one.get("user_id"), one.get("value"))
        for _, ones in by_question
        for one in (ones if isinstance(ones, list) else [])
        if isinstance(one, dict) and one.get("status", "submitted") == "submitted"
    ]
    for response in responses if isinstance(responses, list) else ():
        if inside(response, "status") in (None, "submitted"):
            values = inside(response, "values")
            given += [
                (inside(response, "user_id"), inside(one, "value"))
                for one in (values.values() if isinstance(values, dict) else ())
            ]
    for rater, value in given:
        ranked = value if isinstance(value, list) else []
        places = {
            names[inside(one, "value")]: _rank(inside(one, "rank"), "responses")
            for one in ranked
            if inside(one, "value") in names
        }
        if len(names) == 2 and isinstance(value, str):
            first, second = names
            with_names = read_winner(value, first, second, {})
            lead = {"left": 1.0, "tie": 0.0, "right": -1.0}.get(with_names.outcome)
            places = {} if lead is None else {names[first]: lead, names[second]: 0.0}
        if len(places) > 1:
            yield rater, places


def _argilla_ratings(responses: Any, names: Mapping[str, str]) -> Iterator[tuple[Any, Any]]:
    """Each submitted rating of single answers: questions that end with an answer's number."""
    fields = list(names)
    for response in responses if isinstance(responses, list) else ():
        values = inside(response, "values")
        if inside(response, "status") not in (None, "submitted") or not isinstance(values, dict):
            continue
        ends = {re.sub(r".*\D(?=\d+$)", "", name): name for name in values}
        numbered = {end: inside(values[name], "value") for end, name in ends.items()}
        places = {
            names[fields[int(n) - 1]]: float(value)
            for n, value in numbered.items()
            if n.isdecimal() and 0 < int(n) <= len(fields) and isinstance(value, int | float)
        }
        if len(places) > 1:
            yield inside(response, "user_id"), places


# Label Studio: labelstud.io/guide/export, "JSON" and "JSON_MIN"


def _of_label_studio(record: SourceRecord) -> Iterator[Made]:
    """A task with its annotations: a pairwise choice, or a ranker's list."""
    data, annotations = record.need("data"), record.need("annotations")
    if not isinstance(data, dict) or not isinstance(annotations, list):
        raise InputError("is not a list of annotations of a task's data", "annotations")
    question = next((data[name] for name in data if name.lower() in INPUTS), None)
    answers = {name: text for name, text in data.items() if _ANSWER.fullmatch(name)}
    listed = next((value for value in data.values() if isinstance(value, list)), [])
    answers |= {
        str(inside(one, "id") or n): inside(one, "body")
        or inside(one, "html")
        or inside(one, "text")
        for n, one in enumerate(listed, start=1)
        if isinstance(one, dict)
    }
    names = {
        name: read_name(data.get(re.sub(r"^[a-z]+", "model", name.lower())) or name)
        for name in answers
    }
    if len(names) < 2:
        raise InputError("has no two answers, such as answer1 and answer2", "data")
    messages = read_conversation(question or f"task {record.line}", "user", INPUTS, "data")
    prompt = prompt_id(record, messages)
    yield prompt_row(messages, "data", id=prompt)
    for field, name in names.items():
        yield candidate_row(name)
        yield answer_row(name, prompt, written(answers[field] or ""), "data")
    for annotation in annotations:
        if inside(annotation, "was_cancelled"):
            continue
        rater = inside(annotation, "completed_by")
        rater = inside(rater, "email") if isinstance(rater, dict) else rater
        vote = filled({"prompt": prompt, "rater": rater if rater is None else read_name(rater)})
        results = [r for r in inside(annotation, "result") or () if isinstance(r, dict)]
        rankings = [places for one in results if (places := _labelled_places(one, names))]
        if results and not rankings:
            kinds = join_names(sorted({str(one.get("type")) for one in results}))
            raise InputError(f"say nothing that ranks two answers ({kinds})", "annotations")
        for places in rankings:
            yield from votes_of_ranking(record, places, vote, "annotations")


_ANSWER = re.compile(
    r"(?:answer|response|text|output|completion|reply|prompt)[ _-]?(?:[1-9]|[a-f]|left|right)",
    re.IGNORECASE,
)


def _labelled_places(result: Any, names: Mapping[str, str]) -> dict[str, Place]:
    """What one result says of the answers."""
    value, fields = inside(result, "value") or {}, list(names)
    side = inside(value, "selected") or inside(value, "choices", 0)
    if side is not None and len(fields) == 2:
        winner = read_winner(side, fields[0], fields[1], {})
        lead = {"left": 1.0, "tie": 0.0, "right": -1.0}.get(winner.outcome)
        return {} if lead is None else {names[fields[0]]: lead, names[fields[1]]: 0.0}
    ranked = inside(value, "ranker")
    order = next(iter(ranked.values()), None) if isinstance(ranked, dict) else ranked
    if not isinstance(order, list):
        return {}
    return {names[str(one)]: -float(n) for n, one in enumerate(order) if str(one) in names}


# OpenAssistant: huggingface.co/datasets/OpenAssistant/oasst1


def _of_message(record: SourceRecord) -> Iterator[Made]:
    """A message of a tree: replies to one message are ranked from 0, the best. No model wrote
    them, so the candidates are their ranks."""
    text, parent = written(record.cells.get("text") or ""), record.get("parent")
    role = "assistant" if str(record.need("role")) == "assistant" else "user"
    before: list[Message] = record.seen.get(parent, []) if parent else []
    record.seen[record.need("id")] = [*before, {"role": role, "content": text}]
    rank = read_place(record.get("rank"), "rank")
    if role != "assistant" or rank is None or not before:
        return
    prompt, name = read_name(parent), f"ranked {int(rank) + 1}"
    yield prompt_row(before, "text", id=prompt, category=category_of(record, "category"))
    yield candidate_row(name)
    yield answer_row(name, prompt, text, "text")
    ranked = record.seen.setdefault(("ranked", parent), {})
    for other, place in ranked.items():
        vote = {"a": other, "b": name, "outcome": outcome_of_lead(rank - place), "prompt": prompt}
        yield from voted(record, vote, {}, is_one=False)
    ranked[name] = rank


LAYOUTS = layouts(
    """
arena-hard: Arena-Hard judgments
    id=question_id,uid model judge games baseline
    needs id model judge games
    becomes votes

open-webui: Open WebUI feedback
    id data meta rater=user_id time=created_at type snapshot
    needs data meta type
    becomes votes

argilla: Argilla annotations
    id fields responses metadata
    needs fields responses
    becomes prompts candidates responses votes

label-studio: Label Studio annotations
    id data annotations
    needs data annotations
    becomes prompts candidates responses votes

oasst: OpenAssistant messages
    id=message_id parent=parent_id text role rank category=lang
    needs id parent text role rank
    becomes prompts candidates responses votes

rated-answers: ranked or scored answers
    $prompt answers=answers,completions,responses,outputs,contestants,generations,candidates
    models=models,model_names,generation_models scores=scores,ratings,rewards
    ranks=ranks,rankings,ranking winner $id $rater judge $time category=category,source,domain
    encoded_cells answers models scores ranks
    needs prompt answers
    becomes prompts candidates responses votes

rankings: rankings
    ranking=ranking,ranked,order,ranked_models,model_ranking $prompt $id $rater judge $time $count
    place_1=rank_1,1st,first,1st_choice,first_choice,1st_place,best
    place_2=rank_2,2nd,second,2nd_choice,second_choice,2nd_place
    place_3=rank_3,3rd,third,3rd_choice,third_choice,3rd_place
    place_4=rank_4,4th,fourth,4th_choice place_5=rank_5,5th,fifth,5th_choice
    needs ranking|place_1 ranking|place_2
    becomes votes

answers-and-winner: a column of answers for each candidate
    $prompt $winner $id $category $rater judge $time $count
    needs prompt winner
    several answer
    becomes prompts candidates responses votes

ratings: ratings, one in a row
    model=model,candidate,generator,model_name,system,name score=score,rating,grade,stars,points
    score=overall_score,overall rank=rank,place,position $prompt $id $category $rater judge $time
    text=response,answer,output,completion winner
    needs model score|rank prompt|id|rater
    without winner
    becomes votes

ratings-wide: a rating for each candidate
    $prompt $id $rater judge $time $count
    several rating
    becomes votes

ranks-wide: a rank for each candidate
    $prompt $id $rater judge $time $count
    several rank
    becomes votes
""",
    {
        "arena-hard": _of_games,
        "open-webui": _of_feedback,
        "argilla": _of_argilla,
        "label-studio": _of_label_studio,
        "oasst": _of_message,
        "rated-answers": _of_rated_answers,
        "rankings": _of_ranking,
        "answers-and-winner": of_wide_answers,
        "ratings": _of_long_rating,
        "ratings-wide": _of_wide_ratings,
        "ranks-wide": _of_wide_ratings,
    },
    {"ratings": {"kinds": _long_kinds}},
)
