"""What a judge is shown, as plain strings, and what of it a rubric cannot do without."""

import re
from dataclasses import dataclass

from judges.core.replying import can_show
from judges.core.rubric import Rubric

LEVEL = re.compile(r"^Score ([^:\n]{1,60}):", re.MULTILINE)


class MaterialError(ValueError):
    """Material that a rubric cannot show; the message says why."""


class MissingMaterial(MaterialError):
    """A rubric needs something that this prompt does not have."""


@dataclass(frozen=True)
class Material:
    """One prompt and the answers to it, in the order in which they are shown.

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
    shown = len(material.answers)
    if not can_show(rubric, shown):
        raise MaterialError(
            f"Rubric {rubric.slug} ({rubric.protocol}) cannot be shown {shown} answers at once."
        )
    check_reference(rubric, material)
    if rubric.note and not material.note.strip():
        raise MissingMaterial(f"Rubric {rubric.slug} needs the judge's grading note first.")
    _check_levels(rubric, material)


def check_reference(rubric: Rubric, material: Material) -> None:
    """Raise MissingMaterial if `rubric` needs a reference answer that is not there."""
    if rubric.reference == "required" and not material.reference.strip():
        raise MissingMaterial(
            f"Rubric {rubric.slug} needs a reference answer, and this prompt has none."
        )


def criteria_of(rubric: Rubric, material: Material) -> str:
    """Return the criteria text: the prompt's own, else the arena's, else the rubric's.

    The Prometheus formats state a criterion in one line, and to compare two answers they leave the
    levels out: their models were trained on the criterion alone.
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
