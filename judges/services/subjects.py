"""The subject of a call, as the ledger stores it: the answers in the order in which they are shown.

12,15         two answers of an arena, 12 first        12      one answer, to be scored
9,12,15       a list                                   note:7  the grading note of prompt 7
item:3:12     a labelled item, its first answer first  item:3:1, item:3:note

A judge that is asked several times has `~2` at the end of its second reading.

If the arena has its own criteria, `@` and a digest of them follow, because a verdict depends on
them.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import CharField, F, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat, Greatest, Least, Length, Substr

from arena.calls.execution import CannotAskCallError
from arena.conversations import Message, transcript
from arena.db import sql
from arena.db.sql import Row
from arena.models import Arena, Response, Vote
from arena.models.responses import ANSWER_DIGEST
from arena.outcomes import COUNTED
from arena.shown_text import as_read, without_thought
from judges.core.prompts import Material
from judges.core.spec import family_of
from judges.models import LabelItem, MergedModel

# Longer answers, in characters, may not fit in a model's context.
LONG = 100_000
# Only answers up to this length are checked for consisting of white space.
SHORT = 200
BATCH = 500
QUESTION = Arena._meta.get_field("question").default
FACTS = "a.question, a.criteria, p.text, p.reference, p.rubric"
PROMPT = f"""
    SELECT {FACTS} FROM arena_prompt p JOIN arena_arena a ON a.id = p.arena_id WHERE p.id = %s
"""  # noqa: S608  (made of constants alone)
# Written as SQL, and without the rendered HTML, because every call needs it.
ANSWERS = f"""
    SELECT o.id, o.text, o.messages, {FACTS} FROM arena_response o
    JOIN arena_prompt p ON p.id = o.prompt_id JOIN arena_arena a ON a.id = p.arena_id
    WHERE o.id IN ({{}})
"""  # noqa: S608  (made of constants alone)
GONE = "The prompt or an answer of this call was deleted or has no text."


@dataclass(frozen=True)
class CallTarget:
    """A parsed subject. `shown` are ids of responses, or 1 and 2 for the answers of an item."""

    shown: tuple[int, ...] = ()
    prompt: int | None = None
    item: int | None = None
    reading: int = 1

    @property
    def is_note(self) -> bool:
        return not self.shown


def criteria_suffix(criteria: str) -> str:
    """Return the suffix of subjects for an arena's criteria; '' without any."""
    return f"@{hashlib.sha256(criteria.encode()).hexdigest()[:12]}" if criteria else ""


def of_responses(shown: Sequence[int], suffix: str = "") -> str:
    return ",".join(str(response) for response in shown) + suffix


def of_note(prompt: int, suffix: str = "") -> str:
    return f"note:{prompt}{suffix}"


def of_item(item: int, shown: Sequence[int]) -> str:
    return f"item:{item}:" + "".join(str(answer) for answer in shown)


def of_item_note(item: int) -> str:
    return f"item:{item}:note"


def of_reading(subject: str, number: int) -> str:
    """Return the subject of a further reading; the first one has none of its own."""
    return subject if number == 1 else f"{subject}~{number}"


def first_reading(subject: str) -> str:
    return subject.partition("~")[0]


def key_of_pair(first: int, second: int) -> str:
    """Return the key of two responses, regardless of their order."""
    return f"{min(first, second)},{max(first, second)}"


def families_in(arena: Arena) -> dict[int, str]:
    """Map each candidate to the family of its model; '' if the model is not known.

    Scripts have no family: a scripted judge does not favour a scripted answer. Nor has another
    team's candidate before it is disclosed, because a quote would give away its model.
    """
    guests = ~Q(team=None) & ~Q(team=arena.team_id)
    disclosed = arena.candidates.exclude(guests, disclosed_at=None)
    rows = disclosed.values_list("pk", "model")
    merged = dict(MergedModel.objects.values_list("name", "family"))
    families = {
        pk: merged.get(model.rsplit("/", 1)[-1]) or family_of(model) if model else ""
        for pk, model in rows
    }
    return {pk: "" if family == "scripted" else family for pk, family in families.items()}


def human_labels(arena: Arena) -> QuerySet[Vote]:
    """Return the votes of people who had read no judge's reasoning.

    A pair that was issued without being drawn was requested from a verdict's page, so a vote on it
    is not an independent label.
    """
    unread = Q(comparison__issued_at=None) | Q(comparison__draw_probability__isnull=False)
    votes = arena.votes.live().of_people()
    return votes.filter(unread, comparison__left_response__isnull=False, outcome__in=COUNTED)


def labelled_pairs(arena: Arena) -> "QuerySet[Vote, str]":
    """Return the keys of the pairs that people voted on, as `key_of_pair` makes them."""
    left, right = F("comparison__left_response"), F("comparison__right_response")
    key = Concat(Least(left, right), Value(","), Greatest(left, right), output_field=CharField())
    return human_labels(arena).values_list(key, flat=True)


def ids_of(key: str) -> tuple[int, int]:
    """Return the two responses of a key of a pair, the lower first."""
    low, high = read_subject(key).shown
    return low, high


def key_of_item(item: int) -> str:
    return f"item:{item}"


def read_subject(subject: str) -> CallTarget:
    """Parse a subject; raises ValueError for one that this module did not write."""
    subject, _, number = subject.partition("~")
    if number:
        return replace(read_subject(subject), reading=int(number))
    kind, _, rest = subject.partition("@")[0].partition(":")
    if kind == "note":
        return CallTarget(prompt=int(rest))
    if kind == "item":
        item, _, answers = rest.partition(":")
        return CallTarget(
            item=int(item), shown=() if answers == "note" else tuple(map(int, answers))
        )
    return CallTarget(shown=tuple(int(part) for part in kind.split(",")))


@dataclass(frozen=True)
class ArenaAnswers:
    """The answers of an arena that can be judged; `left_out` explains what can't, in sentences.

    `by_candidate` maps candidate -> prompt -> response; `lengths` maps a response to its
    characters, and `digests` to a digest of them.
    """

    by_candidate: dict[int, dict[int, int]]
    lengths: dict[int, int]
    digests: dict[int, str]
    left_out: list[str] = field(default_factory=list)

    def are_equal(self, first: int, second: int) -> bool:
        return self.digests[first] == self.digests[second]

    def by_prompt(self) -> dict[int, list[int]]:
        responses: dict[int, list[int]] = {}
        for candidate in sorted(self.by_candidate):
            for prompt, response in self.by_candidate[candidate].items():
                responses.setdefault(prompt, []).append(response)
        return responses


def answers_in(arena: Arena, *, needs_reference: bool = False) -> ArenaAnswers:
    """Return the readable answers of active candidates to active prompts."""
    rows = (
        Response.objects.revealed()
        .filter(candidate__arena=arena, candidate__retired_at=None, prompt__retired_at=None)
        .exclude(prompt__text="")
        .annotate(
            size=Length("text"),
            start=Cast(Substr("text", 1, SHORT), CharField()),
            has_reference=Length(F("prompt__reference")),
            digest=ANSWER_DIGEST,
        )
        .values_list("candidate", "prompt", "pk", "size", "start", "has_reference", "digest")
    )
    answers = ArenaAnswers({}, {}, {})
    dropped: Counter[str] = Counter()
    for candidate, prompt, response, size, start, has_reference, digest in rows:
        if not start.strip() and size <= SHORT:
            dropped["empty"] += 1
        elif needs_reference and not has_reference:
            dropped["reference"] += 1
        else:
            answers.by_candidate.setdefault(candidate, {})[prompt] = response
            answers.lengths[response] = size
            answers.digests[response] = digest
    answers.left_out.extend(_left_out(arena, answers, dropped))
    return answers


def _left_out(arena: Arena, answers: ArenaAnswers, dropped: Counter[str]) -> list[str]:
    notes = []
    if dropped["empty"]:
        notes.append(f"{_count_answers(dropped['empty'])} blank and left out.")
    if dropped["reference"]:
        notes.append(
            f"{_count_answers(dropped['reference'])} left out: the prompts lack the reference "
            "answer that this rubric needs."
        )
    if long := sum(size > LONG for size in answers.lengths.values()):
        notes.append(
            f"{_count_answers(long)} longer than {LONG:,} characters: expensive, and possibly too "
            "long for the model."
        )
    prompts = len(answers.by_prompt())
    for candidate in arena.candidates.filter(retired_at=None).order_by("pk"):
        missing = prompts - len(answers.by_candidate.get(candidate.pk, {}))
        if missing:
            notes.append(
                f"{candidate} has no answer to {missing} of {prompts} prompts and is not judged "
                "there."
            )
    return notes


def _count_answers(count: int) -> str:
    return "1 answer is" if count == 1 else f"{count} answers are"


def material_for(subject: CallTarget, *, note: str = "") -> Material:
    """Load the texts of a subject in one query; raises CannotAskCallError if one is missing."""
    if subject.item is not None:
        item = LabelItem.objects.filter(pk=subject.item).first()
        if item is None:
            raise CannotAskCallError(GONE)
        return material_of_item(item, subject.shown, note=note)
    if subject.prompt is not None:
        row = sql.one(PROMPT, subject.prompt)
        if row is None:
            raise CannotAskCallError(GONE)
        return _material(row, (), note)
    rows = sql.rows(ANSWERS.format(", ".join(["%s"] * len(subject.shown))), *subject.shown)
    texts = {pk: transcript_of(messages) or as_read(text) for pk, text, messages, *_ in rows}
    if len(texts) < len(set(subject.shown)):
        raise CannotAskCallError(GONE)
    return _material(rows[0][3:], tuple(texts[pk] for pk in subject.shown), note)


def transcript_of(messages: Any) -> str:
    """Return the transcript of an answer's steps as a raw query returns them, without thought; ''
    for none."""
    if not messages:
        return ""
    steps = json.loads(messages) if isinstance(messages, str) else messages
    return transcript([_without_thought(step) for step in steps])


def _without_thought(step: Message) -> Message:
    if step["role"] != "assistant":
        return step
    return step | {"content": without_thought(step["content"])}


def _material(facts: Row, answers: tuple[str, ...], note: str) -> Material:
    question, criteria, prompt, reference, rubric = facts
    if not prompt or not all(answers):
        raise CannotAskCallError(GONE)
    return Material(question, criteria, prompt, answers, reference, rubric, note)


def texts_as_given(calls: Iterable[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the prompt, its reference and the answers of what these calls show, as they are stored:
    each answer and each item once. A honeypot has no answers, because it is shown as it is stored.
    """
    targets = [read_subject(name) for name in calls]
    for ids in _batches({pk for target in targets if not target.item for pk in target.shown}):
        answers = Response.objects.filter(pk__in=ids).select_related("prompt").defer("html")
        for answer in answers:
            steps = (step["content"] for step in answer.messages or ())
            yield answer.prompt.text, answer.prompt.reference, (answer.text, *steps)
    for ids in _batches({target.item for target in targets if target.item}):
        for item in LabelItem.objects.filter(pk__in=ids):
            answers_of_item = () if item.trap else (item.response_1, item.response_2)
            yield item.prompt, item.reference, answers_of_item


def _batches(ids: Iterable[int]) -> Iterator[list[int]]:
    in_order = sorted(ids)
    for start in range(0, len(in_order), BATCH):
        yield in_order[start : start + BATCH]


def material_of_item(item: LabelItem, shown: tuple[int, ...], *, note: str = "") -> Material:
    """Return the texts of a labelled item.

    The fake answer of a honeypot may be empty, or pose as a judge's thought: it is shown whole,
    because it tests what becomes of a judge that does see it.
    """
    answers = {1: item.response_1, 2: item.response_2}
    if not item.trap:
        answers = {number: as_read(text) for number, text in answers.items()}
    return Material(
        question=QUESTION,
        criteria="",
        prompt=item.prompt,
        answers=tuple(answers[number] for number in shown),
        reference=item.reference,
        rubric=item.rubric,
        note=note,
    )
