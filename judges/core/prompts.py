"""Prompts of judges: from a rubric, a prompt and its answers to the messages that are sent.

A rubric's templates are filled in one pass, so a placeholder inside someone's text stays text.
Prompts and answers are normalised and fenced with a nonce that their authors cannot know. The
Prometheus formats have neither nonce nor fences, because their models were trained without them;
there, whatever a text could forge is neutralised instead.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from arena.shown_text import name_pictures, without_thought
from judges.core.checklist import describe_items
from judges.core.rubric import Rubric, fill
from judges.core.spec import OUTCOMES, Example, JudgeSpec
from judges.core.verdict_format import (
    LETTERS,
    NOTE_OBJECT,
    can_show,
    how_to_repair,
    how_to_reply,
    reminder,
    schema_of,
)

LEVEL = re.compile(r"^Score ([^:\n]{1,60}):", re.MULTILINE)


class MaterialError(ValueError):
    """Material that a rubric cannot show; the message says why."""


class MissingMaterialError(MaterialError):
    """A rubric needs a reference answer or a grading note that is missing."""


@dataclass(frozen=True)
class Material:
    """One prompt and the answers to it, in the order in which they are shown.

    `answers` are without thought (`arena.shown_text`); pictures are named here, in all texts.
    `question` and `criteria` are the arena's ("" leaves the criteria to the rubric). `reference`,
    `rubric` (criterion and levels, `[criterion]` and `Score 1: ...` lines) and `note` (the judge's
    own grading note) belong to the prompt; its rubric replaces the arena's criteria.
    """

    question: str
    criteria: str
    prompt: str
    answers: tuple[str, ...]
    reference: str = ""
    rubric: str = ""
    note: str = ""


def check_material(rubric: Rubric, material: Material) -> None:
    """Raise MaterialError with a sentence unless `rubric` can show `material`."""
    n_answers = len(material.answers)
    if not can_show(rubric, n_answers):
        raise MaterialError(
            f"Rubric {rubric.slug} ({rubric.protocol}) cannot show {n_answers} answers at once."
        )
    check_reference(rubric, material)
    if rubric.note and not material.note.strip():
        raise MissingMaterialError(f"Rubric {rubric.slug} needs the judge's grading note first.")
    _check_levels(rubric, material)


def check_reference(rubric: Rubric, material: Material) -> None:
    """Raise MissingMaterialError if `rubric` needs a reference answer and there is none."""
    if rubric.reference == "required" and not material.reference.strip():
        raise MissingMaterialError(
            f"Rubric {rubric.slug} needs a reference answer, and this prompt has none."
        )


def criteria_of(rubric: Rubric, material: Material) -> str:
    """Return the criteria text: the prompt's own, else the arena's, else the rubric's.

    The Prometheus formats state a criterion in one line, and to compare two answers they leave the
    levels out: their models were trained on the criterion only.
    """
    general = material.criteria.strip() or rubric.criteria
    if not rubric.is_prometheus:
        return material.rubric.strip() or general
    return _criterion(material.rubric) or _in_one_line(general)


def rubric_of(rubric: Rubric, material: Material) -> str:
    """Return the criterion with a description per level: the prompt's own, or the rubric's.

    A prompt's rubric without levels is a criterion, to which the rubric's levels belong.
    """
    own = material.rubric.strip()
    if LEVEL.search(own):
        return own
    criterion = _criterion(own) or _in_one_line(material.criteria) or _in_one_line(rubric.criteria)
    labels = rubric.scale.labels if rubric.scale else ()
    levels = zip(labels, rubric.levels, strict=True)
    return "\n".join([f"[{criterion}]", *(f"Score {label}: {level}" for label, level in levels)])


def _check_levels(rubric: Rubric, material: Material) -> None:
    described = [label.strip() for label in LEVEL.findall(material.rubric)]
    if rubric.scale and described and set(described) != set(rubric.scale.labels):
        raise MaterialError(
            f"The prompt's own rubric describes the scores {', '.join(described)}; "
            f"rubric {rubric.slug} asks for {rubric.scale.describe()}."
        )


def _criterion(text: str) -> str:
    """Return what a prompt's rubric says before its levels, without the brackets."""
    first_level = LEVEL.search(text)
    criterion = _in_one_line(text[: first_level.start()] if first_level else text)
    return criterion.removeprefix("[").removesuffix("]")


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


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


def render_prompt(
    spec: JudgeSpec, material: Material, *, nonce: str, structured: bool = False
) -> Messages:
    """Return the (role, text) messages that ask for a verdict on `material`.

    `structured`: the reply will be held to `verdict_schema`. Raises MaterialError for material that
    the rubric cannot show (MissingMaterialError if something is missing), ValueError for an invalid
    nonce, and for a schema where the format has none.
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


def render_note(
    spec: JudgeSpec, material: Material, *, nonce: str, structured: bool = False
) -> Messages:
    """Return the request for the grading note: the prompt without the answers.

    `structured`: the reply will be held to `note_schema`. Raises MissingMaterialError for a missing
    reference, ValueError if the rubric has no note.
    """
    check_nonce(nonce)
    check_reference(spec.rubric, material)
    if not spec.rubric.note:
        raise ValueError(f"Rubric {spec.rubric.slug} asks for no grading note.")
    text = fill(spec.rubric.note, _fenced(spec.rubric, material, nonce))
    return [("user", f"{text}\n\n{NOTE_OBJECT}" if structured else text)]


def repair_message(spec: JudgeSpec, *, nonce: str, n_answers: int, structured: bool = False) -> str:
    """Return the user message of the one repair turn, which asks for nothing but the verdict."""
    check_nonce(nonce)
    return how_to_repair(spec.rubric, _checked(spec, n_answers), nonce, structured=structured)


def verdict_schema(spec: JudgeSpec, n_answers: int, *, repair: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a structured reply; raises ValueError if the format has none."""
    _check_schema(spec)
    return schema_of(spec.rubric, _checked(spec, n_answers), repair=repair)


def _check_schema(spec: JudgeSpec) -> None:
    if not spec.takes_schema:
        raise ValueError(f"Rubric {spec.rubric.slug} has its own reply format.")


def _checked(spec: JudgeSpec, n_answers: int) -> int:
    if not can_show(spec.rubric, n_answers):
        raise ValueError(f"Rubric {spec.rubric.slug} cannot show {n_answers} answers.")
    return n_answers


def _switched(spec: JudgeSpec) -> list[str]:
    return [LENGTH_NEUTRAL] if spec.is_length_neutral else []


def _fenced(rubric: Rubric, material: Material, nonce: str) -> dict[str, str]:
    """Return the values of the placeholders. The arena's own texts are instructions: not fenced."""
    instructions = {
        "question": material.question,
        "criteria": criteria_of(rubric, material),
        "rubric": rubric_of(rubric, material) if rubric.levels else "",
    }
    values = {name: without_nonce(normalise(text), nonce) for name, text in instructions.items()}
    for name in ("prompt", "reference", "note"):
        values[name] = fence(name, getattr(material, name), nonce)
    answers = dict(_fenced_answers(material.answers, nonce))
    values |= {f"answer_{letter.lower()}": text for letter, text in answers.items()}
    values["answer"] = answers.get("A", "")
    values["answers"] = "\n\n".join(f"Answer {letter}:\n{answers[letter]}" for letter in answers)
    return values | {"nonce": nonce, "items": describe_items(rubric.items)}


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
        answers = tuple(map(without_thought, example.answers))
        for letter, text in _fenced_answers(answers, nonce, prefix):
            parts += [f"Answer {letter}:" if len(example.answers) > 1 else "Answer:", text]
        if example.reason.strip():
            parts += ["Reasoning:", fence(f"{prefix}reason", example.reason, nonce)]
        yield "\n".join([*parts, f"Verdict: {_spelled(spec, example)}"])


def _spelled(spec: JudgeSpec, example: Example) -> str:
    return OUTCOMES[example.verdict] if spec.protocol == "pairwise" else example.verdict


def _prometheus(spec: JudgeSpec, material: Material) -> Messages:
    """Examples are earlier turns of the conversation, in the format the models were trained on."""
    rubric = spec.rubric
    turns: Messages = []
    for example in spec.examples:
        answers = tuple(map(without_thought, example.answers))
        neutral = Material(
            material.question, material.criteria, example.prompt, answers, example.reference
        )
        turns.append(("user", fill(rubric.user, _neutral(rubric, neutral))))
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


# Texts are normalised, and fenced or neutralised, for the judge only: people and exports get them
# unchanged.

KEPT_CONTROLS = {"\n", "\t"}
UNWANTED = {"Cc", "Cf", "Cs", "Co", "Cn"}
# Characters that show nothing although they count as letters or marks. The two variation
# selectors that choose between text and emoji are in use and stay.
BLANK = {*map(chr, [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0])} | {
    *map(chr, range(0xFE00, 0xFE0E)),
    *map(chr, range(0xE0100, 0xE01F0)),
}
LINE_END = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
# Plain letters and digits in place of these would say something else: x2 is not x².
MEANINGFUL = ("<super>", "<sub>", "<fraction>")
NONCE = re.compile(r"[0-9a-f]{8,32}")
# The marks of the Prometheus formats. A Markdown heading, with a space after its hashes, keeps
# them; one without a space, or with a name that the format uses, does not.
RESULT_MARK = re.compile(r"\[\s*+(result)\s*+\]", re.IGNORECASE)
OWN_HEADING = re.compile(
    r"(?<!#)#{3,}+(\s*+(?:task description|the instruction to evaluate|instruction|response"
    r"|reference answer|score rubrics?|feedback)\b)",
    re.IGNORECASE,
)
GLUED_HEADING = re.compile(r"(?<!#)(#{3,}+)(?=\S)")


def check_nonce(nonce: str) -> None:
    """Raise ValueError unless `nonce` can stand in a tag."""
    if not NONCE.fullmatch(nonce):
        raise ValueError("A nonce is 8 to 32 hexadecimal digits.")


def fence(name: str, text: str, nonce: str) -> str:
    """Put `text` between tags that it cannot close."""
    return f"<{name}-{nonce}>\n{without_nonce(normalise(text), nonce)}\n</{name}-{nonce}>"


def without_nonce(text: str, nonce: str) -> str:
    """Return `text` with every `nonce` replaced, so that none is left or newly formed."""
    return re.sub(re.escape(nonce), "[...]", text, flags=re.IGNORECASE)


def normalise(text: str) -> str:
    """Return `text` in NFKC without control, zero-width and other invisible characters, its
    pictures named.

    Superscripts, subscripts and fractions stay: they are seldom decoration.
    """
    text = _without_hidden(LINE_END.sub("\n", name_pictures(text)))
    if unicodedata.is_normalized("NFKC", text):
        return text
    staying = "".join(filter(_is_meaningful, set(text)))
    parts = re.split(f"([{staying}]+)", text) if staying else [text]
    return "".join(
        part if position % 2 else unicodedata.normalize("NFKC", part)
        for position, part in enumerate(parts)
    )


def neutralise(text: str) -> str:
    """Return `text` normalised, without what the Prometheus formats would take for their marks.

    `[RESULT]` becomes `(RESULT)`; a heading without a space gets one (`### Title`), as in Markdown;
    one named like a section of the format gets two hashes instead of three. Everything else stays.
    """
    text = RESULT_MARK.sub(r"(\1)", normalise(text))
    return GLUED_HEADING.sub(r"\1 ", OWN_HEADING.sub(r"##\1", text))


def _without_hidden(text: str) -> str:
    return text.translate({ord(char): None for char in set(text) if not _is_shown(char)})


def _is_shown(character: str) -> bool:
    if character in KEPT_CONTROLS:
        return True
    return unicodedata.category(character) not in UNWANTED and character not in BLANK


def _is_meaningful(character: str) -> bool:
    return unicodedata.decomposition(character).startswith(MEANINGFUL)
