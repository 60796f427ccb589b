"""The texts behind a call: what a judge is shown, in the order of the call's subject."""

from arena.calls.making import CannotAsk
from arena.models import Arena, Prompt, Response
from judges.core.protocols import Material
from judges.models import LabelItem
from judges.services.subjects import Subject

QUESTION = Arena._meta.get_field("question").default
GONE = "What this call asks about is not there any more, or has no text."


def material_for(subject: Subject, *, note: str = "") -> Material:
    """Load the texts of a subject in one query; raises CannotAsk where one is missing."""
    if subject.item is not None:
        return of_item(_item(subject.item), subject.shown, note=note)
    if subject.prompt is not None:
        return _of_prompt(_prompt(subject.prompt), (), note)
    found = Response.objects.select_related("prompt__arena").in_bulk(subject.shown)
    if len(found) < len(set(subject.shown)):
        raise CannotAsk(GONE)
    answers = tuple(found[pk].text for pk in subject.shown)
    return _of_prompt(found[subject.shown[0]].prompt, answers, note)


def _of_prompt(prompt: Prompt, answers: tuple[str, ...], note: str) -> Material:
    if not prompt.text or not all(answers):
        raise CannotAsk(GONE)
    return Material(
        question=prompt.arena.question,
        criteria=prompt.arena.criteria,
        prompt=prompt.text,
        answers=answers,
        reference=prompt.reference,
        rubric=prompt.rubric,
        note=note,
    )


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


def _prompt(pk: int) -> Prompt:
    found = Prompt.objects.select_related("arena").filter(pk=pk).first()
    if found is None:
        raise CannotAsk(GONE)
    return found


def _item(pk: int) -> LabelItem:
    found = LabelItem.objects.filter(pk=pk).first()
    if found is None:
        raise CannotAsk(GONE)
    return found
