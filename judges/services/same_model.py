"""Judges of the same model, compared on the items that both have settled."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from arena.models import Arena
from judges.core.calibration.items import PairItem
from judges.core.calibration.pairs import paired_difference
from judges.core.rubric import RubricError, load_rubric
from judges.models import Epoch, Judge, Judgement, LabelSet
from judges.services.calibration_items import arena_items, pair_items

MOST_COMPARED = 5
DIRECT = Judge.Protocol.DIRECT


def compare_same_model(
    epoch: Epoch, items: Sequence[PairItem], measured: Q, against: LabelSet | Arena
) -> list[dict[str, Any]]:
    """Compare with other judges of the same model on the items that both have settled.

    `measured` selects the judgements on `against`. The newest judges, in their open epochs.
    """
    judge = epoch.judge
    if judge.is_jury:
        return []
    settled = Judgement.objects.settled().filter(measured, sample=0)
    others = (
        Epoch.objects.open()
        .filter(judge__endpoint=judge.endpoint, judge__model=judge.model)
        .exclude(judge=judge)
        .filter(pk__in=settled.values("epoch"))
        .select_related("judge")
        .order_by("-pk")[:MOST_COMPARED]
    )
    comparisons = []
    for other in others:
        if isinstance(against, LabelSet):
            other_items = pair_items(other, against)
        else:
            other_items = arena_items(other, against)
        first, second = (judge, items), (other.judge, other_items)
        if judge.protocol != DIRECT and other.judge.protocol == DIRECT:  # as in Direct2Pair
            first, second = second, first
        difference = paired_difference(first[1], second[1])
        if difference.n_items:
            comparisons.append(
                {
                    "judge": other.judge.name,
                    "epoch": other.pk,
                    "what": _what_differs(first[0], second[0]),
                    "difference": difference.to_json(),
                }
            )
    return comparisons


def _what_differs(judge: Judge, other: Judge) -> str:
    """Name the first difference between two judges of one model."""
    if judge.protocol != other.protocol:
        return f"{judge.get_protocol_display()} minus {other.get_protocol_display().lower()}"
    if _reference(judge) != _reference(other):
        return f"{_reference(judge)} minus {_reference(other)}"
    if judge.rubric != other.rubric:
        return f"Rubric {judge.rubric} minus {other.rubric}"
    return "Other options"


def _reference(judge: Judge) -> str:
    try:
        needed = load_rubric(judge.rubric).reference == "required"
    except RubricError:
        return "with an unknown rubric"
    return "with reference" if needed else "without reference"
