"""Protocols: how a prompt and the answers to it become the messages that a judge is sent.

A rubric's templates are filled in one pass, so a placeholder inside a stranger's text stays text.
Strangers' texts are normalised and fenced with a nonce that they cannot know. The Prometheus
formats have neither nonce nor fences, because their models were trained without: there, what a
text could forge is neutralised instead.
"""

from collections.abc import Iterator
from typing import Any

from judges.core.examples import Example
from judges.core.fencing import check_nonce, fence, neutralise, normalise, without_nonce
from judges.core.material import (
    Material,
    MaterialError,
    MissingMaterial,
    check_material,
    check_reference,
    criteria_of,
    rubric_of,
)
from judges.core.replying import LETTERS, can_show, how_to_repair, how_to_reply, reminder, schema_of
from judges.core.rubric import Rubric
from judges.core.spec import OUTCOMES, JudgeSpec
from judges.core.templates import fill

__all__ = [
    "Material",
    "MaterialError",
    "MissingMaterial",
    "render",
    "render_note",
    "repair_message",
    "verdict_schema",
]

Messages = list[tuple[str, str]]
LENGTH_NEUTRAL = (
    "Length earns nothing by itself: do not reward padding, and do not mark an answer down for "
    "being brief where it says enough."
)
EXAMPLES = (
    "People have judged the examples below. Judge by the same measure. The examples stand between "
    "tags as well: they are material, and their prompts and answers are not those to be judged now."
)
PROMETHEUS_REASONS = {
    "direct": "Measured by the score rubric, this response earns the score {verdict}.",
    "pairwise": "Measured by the score rubric, Response {verdict} is the better one.",
}


def render(
    spec: JudgeSpec, material: Material, *, nonce: str, structured: bool = False
) -> Messages:
    """Return the (role, text) messages that ask for a verdict on `material`.

    `structured` says that the endpoint will be held to `verdict_schema`. Raises MaterialError for
    material that the rubric cannot show (MissingMaterial where something lacks), ValueError for a
    nonce that is none and for a schema where the format has none.
    """
    check_nonce(nonce)
    check_material(spec.rubric, material)
    if structured:
        _check_schema(spec)
    if spec.rubric.is_prometheus:
        return _prometheus(spec, material)
    values = _fenced(spec.rubric, material, nonce)
    form = how_to_reply(spec.rubric, len(material.answers), nonce, structured=structured)
    values["how_to_reply"] = "\n\n".join([*_switched(spec), *_example_blocks(spec, nonce), form])
    values["reminder"] = reminder(nonce, structured=structured)
    return [("system", fill(spec.rubric.system, values)), ("user", fill(spec.rubric.user, values))]


def render_note(spec: JudgeSpec, material: Material, *, nonce: str) -> Messages:
    """Return the request for the grading note: the prompt without the answers.

    Raises MissingMaterial for a missing reference, ValueError where the rubric has no note.
    """
    check_nonce(nonce)
    check_reference(spec.rubric, material)
    if not spec.rubric.note:
        raise ValueError(f"Rubric {spec.rubric.slug} asks for no grading note.")
    return [("user", fill(spec.rubric.note, _fenced(spec.rubric, material, nonce)))]


def repair_message(spec: JudgeSpec, *, nonce: str, n_answers: int) -> str:
    """Return the user message of the one repair turn, which asks for the verdict line alone."""
    check_nonce(nonce)
    return how_to_repair(spec.rubric, _checked(spec, n_answers), nonce)


def verdict_schema(spec: JudgeSpec, n_answers: int) -> dict[str, Any]:
    """Return the JSON schema of a structured reply; ValueError where the format has none."""
    _check_schema(spec)
    return schema_of(spec.rubric, _checked(spec, n_answers))


def _check_schema(spec: JudgeSpec) -> None:
    if not spec.takes_schema:
        raise ValueError(f"Rubric {spec.rubric.slug} has a form of reply of its own.")


def _checked(spec: JudgeSpec, n_answers: int) -> int:
    if not can_show(spec.rubric, n_answers):
        raise ValueError(f"Rubric {spec.rubric.slug} cannot be shown {n_answers} answers.")
    return n_answers


def _switched(spec: JudgeSpec) -> list[str]:
    return [LENGTH_NEUTRAL] if spec.is_length_neutral else []


# -- Fenced ----------------------------------------------------------------------------------------


def _fenced(rubric: Rubric, material: Material, nonce: str) -> dict[str, str]:
    """Return the values of the placeholders. The arena's words are instructions and not fenced."""
    said = {
        "question": material.question,
        "criteria": criteria_of(rubric, material),
        "rubric": rubric_of(rubric, material) if rubric.levels else "",
    }
    values = {name: without_nonce(normalise(text), nonce) for name, text in said.items()}
    for name in ("prompt", "reference", "note"):
        values[name] = fence(name, getattr(material, name), nonce)
    answers = dict(_fenced_answers(material.answers, nonce))
    values |= {f"answer_{letter.lower()}": text for letter, text in answers.items()}
    values["answer"] = answers.get("A", "")
    values["answers"] = "\n\n".join(f"Answer {letter}:\n{answers[letter]}" for letter in answers)
    return values | {"nonce": nonce}


def _fenced_answers(
    answers: tuple[str, ...], nonce: str, prefix: str = ""
) -> Iterator[tuple[str, str]]:
    for letter, text in zip(LETTERS, answers, strict=False):
        yield letter, fence(f"{prefix}answer-{letter.lower()}", text, nonce)


def _example_blocks(spec: JudgeSpec, nonce: str) -> Iterator[str]:
    if spec.examples:
        yield EXAMPLES
    for number, example in enumerate(spec.examples, start=1):
        prefix = f"example-{number}-"
        parts = [f"Example {number}", "Prompt:", fence(f"{prefix}prompt", example.prompt, nonce)]
        if spec.rubric.reference == "required":
            reference = fence(f"{prefix}reference", example.reference, nonce)
            parts += ["Reference answer:", reference]
        for letter, text in _fenced_answers(example.answers, nonce, prefix):
            parts += [f"Answer {letter}:" if len(example.answers) > 1 else "Answer:", text]
        if example.reason.strip():
            parts += ["Reasoning:", fence(f"{prefix}reason", example.reason, nonce)]
        yield "\n".join([*parts, f"Verdict: {_spelled(spec, example)}"])


def _spelled(spec: JudgeSpec, example: Example) -> str:
    return OUTCOMES[example.verdict] if spec.protocol == "pairwise" else example.verdict


# -- The Prometheus formats ------------------------------------------------------------------------


def _prometheus(spec: JudgeSpec, material: Material) -> Messages:
    """Examples are earlier turns of the same conversation, in the format that was trained."""
    rubric = spec.rubric
    turns: Messages = []
    for example in spec.examples:
        shown = Material(
            material.question, material.criteria, example.prompt, example.answers, example.reference
        )
        turns.append(("user", fill(rubric.user, _neutral(rubric, shown))))
        turns.append(("assistant", _prometheus_reply(spec, example)))
    values = _neutral(rubric, material)
    system = "\n\n".join([fill(rubric.system, values), *_switched(spec)])
    return [("system", system), *turns, ("user", fill(rubric.user, values))]


def _neutral(rubric: Rubric, material: Material) -> dict[str, str]:
    values = {
        "question": material.question,
        "criteria": criteria_of(rubric, material),
        "rubric": rubric_of(rubric, material) if rubric.levels else "",
        "prompt": material.prompt,
        "reference": material.reference,
        "note": material.note,
        "answer": material.answers[0],
        "answer_a": material.answers[0],
        "answer_b": material.answers[-1],
    }
    return {name: neutralise(text) for name, text in values.items()}


def _prometheus_reply(spec: JudgeSpec, example: Example) -> str:
    verdict = _spelled(spec, example)
    measured = PROMETHEUS_REASONS[spec.protocol].format(verdict=verdict)
    return f"Feedback: {neutralise(example.reason).strip() or measured} [RESULT] {verdict}"
