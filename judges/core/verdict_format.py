"""Verdict formats: the verdicts a judge may give, the instructions that ask for one, the schema.

The texts here are sent to models. Changing one changes every judge: raise `spec.PROMPT_VERSION`.
"""

import json
import string
from typing import Any

from judges.core import checklist
from judges.core.checklist import HOW_TO_REPLY, item_lines
from judges.core.rubric import Rubric

LETTERS = string.ascii_uppercase
PAIRWISE = ("A", "B", "TIE")
FEWEST_LISTED = 2  # a labelled pair; lists in an arena have at least three
LINE = (
    "First write your reasoning, briefly. Then end with one last line, alone, in exactly one of "
    "these forms:\n{lines}"
)
LISTED_LINE = (
    "First write your reasoning, briefly. Then end with one last line, alone, that names every "
    "answer from {letters} exactly once, the best first, with > between a better and a worse "
    "answer and = between two that are equally good. Two examples of the form:\n{lines}"
)
OBJECT = (
    'Reply with one JSON object and nothing else. It has two keys, in this order: "reasoning", '
    'which is your reasoning in a few sentences, and "verdict", which is one of {verdicts}.'
)
LISTED_OBJECT = (
    'Reply with one JSON object and nothing else. It has two keys, in this order: "reasoning", '
    'which is your reasoning in a few sentences, and "verdict", which is a list of groups of '
    "letters that names every answer from {letters} exactly once: the best group first, and in one "
    "group those answers that are equally good. For example, the form is {groups}."
)
CHECKED_OBJECT = (
    'Reply with one JSON object and nothing else. It has two keys, in this order: "reasoning", '
    'which is your reasoning in a few sentences, item by item, and "verdict", which is an object '
    "with one key for each item, its number, and true for yes or false for no: {answers}."
)
LINE_REMINDER = (
    "Give your reasoning first. Then end with your verdict on a last line of its own, in the form "
    "that was described: VERDICT-{nonce}, a colon, the verdict."
)
OBJECT_REMINDER = "Give the JSON object that was described, with your reasoning and your verdict."
REPAIR = (
    "No verdict can be read from your reply. Do not judge anew: put the verdict that you reached "
    "into one line, and write nothing else. Write exactly one of these forms:\n{lines}"
)
LISTED_REPAIR = (
    "No order can be read from your reply. Do not judge anew: put the order that you reached into "
    "one line, and write nothing else. Name every answer from {letters} exactly once, the best "
    "first, with > or = between them. Two examples of the form:\n{lines}"
)
OBJECT_REPAIR = (
    "No verdict can be read from your reply. Do not judge anew: reply with one JSON object and "
    'nothing else, with the verdict that you reached as its only key, "verdict". Its form is '
    "{form}."
)
NOTE_OBJECT = 'Reply with one JSON object and nothing else, with the note as its only key, "note".'
LONGEST_NOTE = 6_000
PROMETHEUS_REPAIR = (
    "No result can be read from your reply. Do not judge anew: write the result that you reached, "
    "and nothing else. The output format should look as follows: "
    '"[RESULT] ({verdicts})"'
)


def can_show(rubric: Rubric, n_answers: int) -> bool:
    """Whether a judge with this rubric can be shown that many answers."""
    if rubric.protocol == "listwise":
        return FEWEST_LISTED <= n_answers <= len(LETTERS)
    return n_answers == (1 if rubric.protocol == "direct" else 2)


def how_to_reply(rubric: Rubric, n_answers: int, nonce: str, *, structured: bool) -> str:
    """Return the closing instruction: reasoning first, then a verdict line or a JSON object."""
    if rubric.items and structured:
        return CHECKED_OBJECT.format(answers=_some_answers(len(rubric.items)))
    if rubric.items:
        return HOW_TO_REPLY.format(lines=item_lines(len(rubric.items), nonce))
    form = (OBJECT, LISTED_OBJECT) if structured else (LINE, LISTED_LINE)
    return _worded(form, rubric, n_answers, nonce)


def reminder(nonce: str, *, structured: bool) -> str:
    """Return the reminder at the end of a long request, far below the instruction."""
    return OBJECT_REMINDER if structured else LINE_REMINDER.format(nonce=nonce)


def how_to_repair(rubric: Rubric, n_answers: int, nonce: str, *, structured: bool = False) -> str:
    """Return the message after an unreadable reply, which asks for nothing but the verdict."""
    if structured:
        return OBJECT_REPAIR.format(form=_form_alone(rubric, n_answers))
    if rubric.items:
        return checklist.REPAIR.format(lines=item_lines(len(rubric.items), nonce))
    if not rubric.is_prometheus:
        return _worded((REPAIR, LISTED_REPAIR), rubric, n_answers, nonce)
    verdicts = rubric.scale.describe() if rubric.scale else "A or B"
    return PROMETHEUS_REPAIR.format(verdicts=verdicts)


def schema_of(rubric: Rubric, n_answers: int, *, repair: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a reply: `reasoning`, then `verdict`; to repair one, `verdict`.

    A listwise verdict is an array of arrays of letters, best first; those of one array are equal.
    A checklist's is an object of booleans by the items' numbers.
    """
    reasoning = {} if repair else {"reasoning": {"type": "string"}}
    if rubric.items:
        answers = {str(n): {"type": "boolean"} for n in range(1, len(rubric.items) + 1)}
        return _object({**reasoning, "verdict": _object(answers)})
    verdict: dict[str, Any] = {"type": "string", "enum": list(verdicts_of(rubric, n_answers))}
    if rubric.protocol == "listwise":
        group = {"type": "array", "items": verdict, "minItems": 1, "maxItems": n_answers}
        verdict = {"type": "array", "items": group, "minItems": 1, "maxItems": n_answers}
    return _object({**reasoning, "verdict": verdict})


def note_schema() -> dict[str, Any]:
    """Return the JSON schema of a grading note: one string of bounded length."""
    return _object({"note": {"type": "string", "maxLength": LONGEST_NOTE}})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def verdicts_of(rubric: Rubric, n_answers: int) -> tuple[str, ...]:
    """Return the possible verdicts, or for a list the letters of its answers."""
    if rubric.scale:
        return rubric.scale.labels
    if rubric.protocol == "listwise":
        return tuple(LETTERS[:n_answers])
    return PAIRWISE[:2] if rubric.is_prometheus else PAIRWISE


def is_order(verdict: str, n_answers: int) -> bool:
    """Whether `verdict` names the letters of all answers once, with " > " or " = " between them."""
    words = verdict.split(" ")
    named, marks = words[::2], words[1::2]
    return sorted(named) == list(LETTERS[:n_answers]) and set(marks) <= {">", "="}


def _worded(forms: tuple[str, str], rubric: Rubric, n_answers: int, nonce: str) -> str:
    """Fill in the form for a choice (the first one), or for an order (the second)."""
    verdicts = verdicts_of(rubric, n_answers)
    is_list = rubric.protocol == "listwise"
    endings = _some_orders(verdicts) if is_list else verdicts
    return forms[is_list].format(
        lines="\n".join(f"VERDICT-{nonce}: {ending}" for ending in endings),
        verdicts=", ".join(json.dumps(verdict, ensure_ascii=False) for verdict in verdicts),
        letters=f"{verdicts[0]} to {verdicts[-1]}",
        groups=json.dumps([group.split(" = ") for group in endings[0].split(" > ")]),
    )


def _some_answers(n: int) -> str:
    return json.dumps({str(number): number % 2 == 1 for number in range(1, n + 1)})


def _form_alone(rubric: Rubric, n_answers: int) -> str:
    """Return what an object with the verdict alone may look like."""
    verdicts = verdicts_of(rubric, n_answers)
    if rubric.items:
        return f'{{"verdict": {_some_answers(len(rubric.items))}}}, with your own answers'
    if rubric.protocol == "listwise":
        groups = [group.split(" = ") for group in _some_orders(verdicts)[0].split(" > ")]
        return f'{{"verdict": {json.dumps(groups)}}}, with your own order'
    return " or ".join(json.dumps({"verdict": each}, ensure_ascii=False) for each in verdicts)


def _some_orders(letters: tuple[str, ...]) -> tuple[str, str]:
    """Return two example orders that show both signs and contradict each other.

    A judge that repeats both of them therefore gives no verdict.
    """
    backward, rotated = letters[::-1], letters[1:] + letters[:1]
    return f"{' > '.join(backward[:-1])} = {backward[-1]}", " > ".join(rotated)
