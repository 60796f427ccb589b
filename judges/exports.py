"""Judgements as training data for judge models: in the Prometheus format, and as preferences
between replies or between scored answers.

All follow Kim et al. 2024 (Prometheus 2): the feedback comes first, then `[RESULT]` and a letter
or a score from 1 to 5. Verdicts that the format does not support (ties, other scales, checklists)
are left out, and so are pairwise verdicts that changed with the order of the answers.
"""

import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from django.db.models import Max, Q, QuerySet

from arena.actors import Actor, TeamPermission
from arena.calls.models import Call
from arena.models import Arena, Prompt, Rater, Response
from arena.permissions import FieldVisibility
from arena.shown_text import as_read
from judges.core.parsing import final_text
from judges.core.prompts import (
    Material,
    MaterialError,
    criteria_of,
    neutralise,
    render_prompt,
    rubric_of,
    without_nonce,
)
from judges.core.rubric import Rubric, RubricError, load_rubric
from judges.core.spec import OUTCOMES, JudgeSpec
from judges.models import Judge, Judgement
from judges.permissions import can_read_rubric
from judges.services.rubrics import rubric_of_judge
from judges.services.subjects import read_subject
from ranking.exported_votes import assistant
from ranking.exports import Export, kinds_of
from ranking.preferences import Votes, count_preferences, readable_prompts
from ranking.streamed_files import Row

PROMPTS_AT_ONCE, JUDGEMENTS_AT_ONCE = 5, 200
SCALE = ("1", "2", "3", "4", "5")
FORMS = {"pairwise": "prometheus-relative", "direct": "prometheus-absolute"}
RESULT = re.compile(r"\[ ?result ?\]", re.IGNORECASE)
NO_REASON = "The judge gave no reasons."
SFT = {
    "format": "name",
    "messages": "messages",
    "instruction": "text",
    "output": "text",
    "feedback": "text",
    "verdict": "name",
    "people": "name",
    "consistent": "flag",
    "criteria": "text",
    "prompt_id": "name",
    "category": "name",
    "document": "name",
    "judge": "name",
}
PAIRS = {
    "prompt": "messages",
    "chosen": "messages",
    "rejected": "messages",
    "people": "name",
    "prompt_id": "name",
    "category": "name",
    "document": "name",
    "chosen_judge": "name",
    "rejected_judge": "name",
}
COLLECTION = {
    "orig_instruction": "text",
    "orig_response_A": "text",
    "orig_response_B": "text",
    "orig_reference_answer": "text",
    "orig_criteria": "text",
    "orig_score_A": "name",
    "orig_score_B": "name",
    "orig_feedback_A": "text",
    "orig_feedback_B": "text",
    "orig_preference": "name",
    "prompt_id": "name",
    "category": "name",
    "document": "name",
    "judge": "name",
}
States = Judgement.State


@dataclass(frozen=True)
class _Reading:
    """A judge's reply on answers in the order shown; `people` is the letter of the answer that more
    people prefer, None if they are level or nobody voted."""

    judge: Judge
    call: Call
    prompt: Prompt
    shown: tuple[int, ...]
    texts: tuple[str, ...]
    criteria: str
    consistent: bool
    people: str | None

    @property
    def verdict(self) -> str | None:
        """The verdict in the Prometheus format; None for one that it does not support."""
        verdict = self.call.verdict or {}
        if self.judge.protocol == Judge.Protocol.PAIRWISE:
            letter = OUTCOMES.get(verdict.get("outcome", ""))
            return letter if letter in ("A", "B") else None
        rubric = _rubric_or_none(self.judge)
        on_scale = rubric is not None and rubric.scale and tuple(rubric.scale.labels) == SCALE
        return str(verdict["label"]) if on_scale and "label" in verdict else None

    @property
    def feedback(self) -> str:
        """The reasoning without the verdict, and without the nonce that the judge was given."""
        text = final_text(self.call.reply).strip()
        if text.startswith(("{", "```")):
            text = _reasoning_in(text)
        lines = text.splitlines()
        if self.call.nonce:
            lines = [line for line in lines if self.call.nonce not in line]
        text = "\n".join(lines).strip().removeprefix("Feedback:")
        marks = list(RESULT.finditer(text))
        text = text[: marks[-1].start()] if marks else text
        return neutralise(without_nonce(text, self.call.nonce)).strip() or NO_REASON

    def material(self) -> Material:
        return Material(
            question="",
            criteria=self.criteria,
            prompt=self.prompt.text,
            answers=self.texts,
            reference=self.prompt.reference,
            rubric=self.prompt.rubric,
        )

    def reply(self) -> str:
        return f"Feedback: {self.feedback} [RESULT] {self.verdict}"


def _reasoning_in(text: str) -> str:
    """The reasoning of a reply that is a JSON object; '' for none."""
    try:
        reply = json.loads(text.strip("`").removeprefix("json"))
    except (ValueError, RecursionError):
        return ""
    reasoning = reply.get("reasoning") if isinstance(reply, dict) else None
    return reasoning if isinstance(reasoning, str) else ""


def _rubric_or_none(judge: Judge) -> Rubric | None:
    try:
        return rubric_of_judge(judge)
    except RubricError:  # its folder was removed
        return None


def _readings(arena: Arena, actor: Actor) -> Iterator[list[_Reading]]:
    """Yield the replies about a few pairs of answers at a time, each call once."""
    for prompts in readable_prompts(arena, actor, PROMPTS_AT_ONCE):
        yield from _readings_on(prompts, arena, actor)


def _readings_on(
    prompts: Mapping[int, Prompt], arena: Arena, actor: Actor
) -> Iterator[list[_Reading]]:
    reader = FieldVisibility(actor, arena)
    people = count_preferences(arena, prompts, Rater.Kind.PERSON)
    scores_read: set[int] = set()
    for batch in _batches_of_judgements(arena, prompts):
        rows = Judgement.objects.select_related(
            "epoch__judge__rubric_version__rubric", "run", "forward", "reverse"
        )
        calls: dict[int, tuple[Judgement, Call]] = {}
        for judgement in rows.filter(pk__in=batch).order_by("responses", "pk"):
            for call in (judgement.forward, judgement.reverse):
                calls.setdefault(call.pk, (judgement, call))
        for pk in scores_read & calls.keys():  # of an answer that is in several pairs
            del calls[pk]
        scores_read |= {pk for pk, (_, call) in calls.items() if "," not in call.subject}
        texts = _known_answers(calls, reader)
        yield [
            reading
            for judgement, call in calls.values()
            if (reading := _read_call(judgement, call, texts, prompts, people, reader))
        ]


def _batches_of_judgements(arena: Arena, prompts: Mapping[int, Prompt]) -> Iterator[list[int]]:
    """Yield the ids of the judgements on these prompts, all those on a pair of answers together."""
    rows = Judgement.objects.filter(
        Q(state=States.VOTED) | Q(state=States.ABSTAINED),
        comparison__prompt__in=list(prompts),
        run__arena=arena,
        epoch__judge__protocol__in=list(FORMS),
    )
    ids, pair_ends, last = array("q"), array("q"), None
    for responses, pk in rows.order_by("responses", "pk").values_list("responses", "pk").iterator():
        if responses != last:
            pair_ends.append(len(ids))
        last = responses
        ids.append(pk)
    start = 0
    for end in [*pair_ends[1:], len(ids)] if ids else []:
        if end - start >= JUDGEMENTS_AT_ONCE or end == len(ids):
            yield ids[start:end].tolist()
            start = end


def _known_answers(
    calls: Mapping[int, tuple[Judgement, Call]], reader: FieldVisibility
) -> dict[int, Response]:
    """The answers shown in these calls, without those of candidates that are not disclosed."""
    ids = {pk for _, call in calls.values() for pk in read_subject(call.subject).shown}
    answers = Response.objects.select_related("candidate").defer("html").in_bulk(sorted(ids))
    return {pk: answer for pk, answer in answers.items() if reader.knows(answer.candidate)}


def _read_call(
    judgement: Judgement,
    call: Call,
    texts: Mapping[int, Response],
    prompts: Mapping[int, Prompt],
    people: Votes,
    reader: FieldVisibility,
) -> _Reading | None:
    answers = read_subject(call.subject).shown
    if call.state != Call.State.DONE or call.copied or not all(pk in texts for pk in answers):
        return None
    judge = judgement.epoch.judge
    rubric = _rubric_or_none(judge) if can_read_rubric(reader.actor, judge) else None
    votes = (people[answers], people[answers[::-1]]) if len(answers) == 2 else (0, 0)
    preferred = None if votes[0] == votes[1] else "A" if votes[0] > votes[1] else "B"
    return _Reading(
        judge=judge,
        call=call,
        prompt=prompts[texts[answers[0]].prompt_id],
        shown=answers,
        texts=tuple(as_read(texts[pk].text) for pk in answers),
        criteria=judgement.run.criteria or (rubric.criteria if rubric else ""),
        consistent=not judgement.flipped,
        people=preferred,
    )


def _rendered(reading: _Reading) -> tuple[JudgeSpec, list[dict[str, str]]] | None:
    """The request in the Prometheus format; None for a verdict or texts that it cannot show."""
    if reading.verdict is None:
        return None
    suffix = "-reference" if reading.prompt.reference.strip() else ""
    spec = JudgeSpec("", "", load_rubric(FORMS[reading.judge.protocol] + suffix))
    try:
        turns = render_prompt(spec, reading.material(), nonce=reading.call.nonce or "0" * 12)
    except MaterialError:
        return None
    return spec, [{"role": role, "content": text} for role, text in turns]


def training_examples(arena: Arena, actor: Actor) -> Iterator[Row]:
    """Yield judgements as examples for supervised fine-tuning. `people` says which answer more
    people prefer, so that verdicts with which people disagree can be left out."""
    for readings in _readings(arena, actor):
        for reading in readings:
            rendered = _rendered(reading)
            if rendered is None or (len(reading.shown) == 2 and not reading.consistent):
                continue
            spec, turns = rendered
            state = criteria_of if len(reading.shown) == 2 else rubric_of
            yield _named(reading) | {
                "format": reading.judge.protocol,
                "messages": [*turns, *assistant(reading.reply())],
                "instruction": turns[-1]["content"],
                "output": reading.reply(),
                "feedback": reading.feedback,
                "verdict": reading.verdict,
                "people": reading.people,
                "consistent": reading.consistent,
                "criteria": state(spec.rubric, reading.material()),
                "judge": str(reading.judge),
            }


def verdict_pairs(arena: Arena, actor: Actor) -> Iterator[Row]:
    """Yield two replies to the same request: one with which most people agree, and one with which
    they do not. Each reply is in at most one pair."""
    for readings in _readings(arena, actor):
        sides: dict[tuple[int, ...], tuple[list[_Reading], list[_Reading]]] = {}
        for reading in readings:
            if reading.people is not None and reading.verdict is not None:
                right, wrong = sides.setdefault(reading.shown, ([], []))
                (right if reading.verdict == reading.people else wrong).append(reading)
        for right, wrong in sides.values():
            for chosen, rejected in zip(right, wrong, strict=False):
                if (rendered := _rendered(chosen)) is not None:
                    yield _named(chosen) | {
                        "prompt": rendered[1],
                        "chosen": assistant(chosen.reply()),
                        "rejected": assistant(rejected.reply()),
                        "people": chosen.people,
                        "chosen_judge": str(chosen.judge),
                        "rejected_judge": str(rejected.judge),
                    }


def preference_collection(arena: Arena, actor: Actor) -> Iterator[Row]:
    """Yield pairs of answers to one prompt to which one judge gave different scores, as in the
    Preference Collection: ten of five answers, one for each score. Of several answers with the same
    score the first counts."""
    for prompts in readable_prompts(arena, actor, PROMPTS_AT_ONCE):
        scored: dict[tuple[int, int], dict[str, _Reading]] = {}
        for readings in _readings_on(prompts, arena, actor):
            for reading in sorted(readings, key=lambda reading: reading.shown):
                if len(reading.shown) == 1 and reading.verdict is not None:
                    of_prompt = scored.setdefault((reading.prompt.pk, reading.judge.pk), {})
                    of_prompt.setdefault(reading.verdict, reading)
        for (prompt, _), by_score in sorted(scored.items()):
            pairs = combinations(sorted(by_score.items()), 2)
            for number, (worse, better) in enumerate(pairs, start=prompt):
                sides = (better, worse) if number % 2 else (worse, better)
                yield _pair_of_scores(sides, "A" if number % 2 else "B")


def _pair_of_scores(sides: Sequence[tuple[str, _Reading]], preference: str) -> Row:
    (score_a, first), (score_b, second) = sides
    return {
        "orig_instruction": first.prompt.text,
        "orig_response_A": first.texts[0],
        "orig_response_B": second.texts[0],
        "orig_reference_answer": first.prompt.reference,
        "orig_criteria": rubric_of(load_rubric(FORMS["direct"]), first.material()),
        "orig_score_A": score_a,
        "orig_score_B": score_b,
        "orig_feedback_A": first.feedback,
        "orig_feedback_B": second.feedback,
        "orig_preference": preference,
        "judge": str(first.judge),
    } | _named(first)


def _named(reading: _Reading) -> dict[str, Any]:
    prompt = reading.prompt
    return {
        "prompt_id": prompt.external_id,
        "category": prompt.category,
        "document": prompt.document,
    }


EXPORTS = {
    "judgements": Export(SFT, training_examples),
    "judge-pairs": Export(PAIRS, verdict_pairs),
    "preference-collection": Export(COLLECTION, preference_collection),
}


def judgements_in(arena: Arena) -> QuerySet[Judgement]:
    return Judgement.objects.filter(run__arena=arena).order_by()


def last_settled(arena: Arena) -> str:
    """Judgements without a vote change these files, too."""
    return str(judgements_in(arena).aggregate(last=Max("settled_at"))["last"])


KINDS = kinds_of(
    EXPORTS,
    reads=lambda arena: [judgements_in(arena)],
    passes=0,
    permission=TeamPermission.READ,
    state=last_settled,
)
