"""One row of a file of labels, checked value by value."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arena.importers.base import BadRow, checked_name, checked_text, kind_of, shown

OUTCOMES = {
    "1": "left",
    "2": "right",
    "a": "left",
    "b": "right",
    "left": "left",
    "right": "right",
    "tie": "tie",
    "both_bad": "both_bad",
}
PAIR_COLUMNS = ("prompt", "response_1", "response_2", "label")
SCORE_COLUMNS = ("prompt", "response", "score")
FORMS = (
    "A label is {prompt, response_1, response_2, label} or {prompt, response, score}, each with "
    "an optional rater, category (or scenario), reference and rubric."
)


@dataclass(frozen=True)
class LabelRow:
    """What one person said: an `outcome` of two responses, or a `score` of one.

    `response_2` is '' where there is one, `rater` where the file names nobody.
    """

    prompt: str
    response_1: str
    response_2: str = ""
    reference: str = ""
    rubric: str = ""
    category: str = ""
    rater: str = ""
    outcome: str = ""
    score: float | None = None

    @property
    def kind(self) -> str:
        return "pairs" if self.outcome else "scores"

    @property
    def is_empty(self) -> bool:
        """Is there nothing to judge, because the prompt or an answer is blank?"""
        texts = [self.prompt, self.response_1]
        if self.outcome:
            texts.append(self.response_2)
        return not all(text.strip() for text in texts)


def checked_row(fields: Mapping[str, Any]) -> LabelRow:
    """Return the row that `fields` hold; raises BadRow with the column and the reason."""
    if "label" in fields and "score" in fields:
        raise BadRow(None, "has a label and a score; a file holds one or the other")
    is_pair = "label" in fields or "response_1" in fields
    for column in PAIR_COLUMNS if is_pair else SCORE_COLUMNS:
        if fields.get(column) is None:
            raise BadRow(column, f"is missing. {FORMS}")
    return LabelRow(
        prompt=checked_text(fields["prompt"], "prompt"),
        response_1=_text(fields, "response_1" if is_pair else "response"),
        response_2=_text(fields, "response_2") if is_pair else "",
        reference=_text(fields, "reference"),
        rubric=_text(fields, "rubric"),
        category=_category(fields),
        rater=_name(fields, "rater", 200),
        outcome=_outcome(fields["label"]) if is_pair else "",
        score=None if is_pair else _score(fields["score"]),
    )


def _text(fields: Mapping[str, Any], column: str) -> str:
    value = fields.get(column)
    return "" if value is None else checked_text(value, column)


def _name(fields: Mapping[str, Any], column: str, limit: int) -> str:
    value = fields.get(column)
    return "" if value is None else checked_name(value, column, limit=limit, required=False)


def _category(fields: Mapping[str, Any]) -> str:
    return _name(fields, "category", 100) or _name(fields, "scenario", 100)


def _outcome(value: Any) -> str:
    """1, A and left name the first response, 2, B and right the second, in any case of letters."""
    number = isinstance(value, int) and not isinstance(value, bool)
    said = str(value) if number else value
    outcome = OUTCOMES.get(said.strip().lower()) if isinstance(said, str) else None
    if outcome is None:
        raise BadRow("label", f"is {shown(value)}, which is none of {', '.join(OUTCOMES)}")
    return outcome


def _score(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadRow("score", f"is {kind_of(value)}, not a number")
    try:
        score = float(value)
    except (ValueError, OverflowError):
        raise BadRow("score", f"is {shown(value)}, not a number") from None
    if not math.isfinite(score):
        raise BadRow("score", f"is {shown(value)}, not a finite number")
    return score
