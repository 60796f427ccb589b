"""The texts behind a call: what a judge is shown, in the order of the call's subject."""

from arena.calls.making import CannotAskThis
from arena.models import Arena
from arena.services import statements
from arena.services.statements import Row
from judges.core.protocols import Material
from judges.models import LabelItem
from judges.services.subjects import Subject

QUESTION = Arena._meta.get_field("question").default
FACTS = "a.question, a.criteria, p.text, p.reference, p.rubric"
PROMPT = f"""
    SELECT {FACTS} FROM arena_prompt p JOIN arena_arena a ON a.id = p.arena_id WHERE p.id = %s
"""  # noqa: S608  (made of constants alone)
# Written out and without the pages' HTML, since every call asks for it.
ANSWERS = f"""
    SELECT o.id, o.text, {FACTS} FROM arena_response o
    JOIN arena_prompt p ON p.id = o.prompt_id JOIN arena_arena a ON a.id = p.arena_id
    WHERE o.id IN ({{}})
"""  # noqa: S608  (made of constants alone)
GONE = "What this call asks about is not there any more, or has no text."


def material_for(subject: Subject, *, note: str = "") -> Material:
    """Load the texts of a subject in one query; raises CannotAskThis where one is missing."""
    if subject.item is not None:
        return of_item(_item(subject.item), subject.shown, note=note)
    if subject.prompt is not None:
        return _of_prompt(_prompt(subject.prompt), (), note)
    rows = statements.rows(ANSWERS.format(", ".join(["%s"] * len(subject.shown))), *subject.shown)
    texts = {pk: text for pk, text, *_ in rows}
    if len(texts) < len(set(subject.shown)):
        raise CannotAskThis(GONE)
    return _of_prompt(rows[0][2:], tuple(texts[pk] for pk in subject.shown), note)


def _of_prompt(facts: Row, answers: tuple[str, ...], note: str) -> Material:
    question, criteria, prompt, reference, rubric = facts
    if not prompt or not all(answers):
        raise CannotAskThis(GONE)
    return Material(question, criteria, prompt, answers, reference, rubric, note)


def of_item(item: LabelItem, shown: tuple[int, ...], *, note: str = "") -> Material:
    """Return the texts of a labelled item; its traps may be empty answers."""
    answers = {1: item.response_1, 2: item.response_2}
    return Material(
        question=QUESTION,
        criteria="",
        prompt=item.prompt,
        answers=tuple(answers[number] for number in shown),
        reference=item.reference,
        rubric=item.rubric,
        note=note,
    )


def _prompt(pk: int) -> Row:
    row = statements.one(PROMPT, pk)
    if row is None:
        raise CannotAskThis(GONE)
    return row


def _item(pk: int) -> LabelItem:
    found = LabelItem.objects.filter(pk=pk).first()
    if found is None:
        raise CannotAskThis(GONE)
    return found
