"""Two setups of one model, compared on the items that both have settled."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Q

from arena.models import Arena
from judges.core.calibration.items import PairItem
from judges.core.calibration.pairs import paired_difference
from judges.core.rubric import RubricError
from judges.models import Epoch, Judge, Judgement, LabelSet
from judges.services.calibration_items import arena_items, pair_items
from judges.services.rubrics import rubric_of_judge

MOST_COMPARED = 5
DIRECT = Judge.Protocol.DIRECT


def compare_setups(
    epoch: Epoch, items: Sequence[PairItem], measured: Q, against: LabelSet | Arena
) -> list[dict[str, Any]]:
    """Compare with the newest other judges of the same model, in their open epochs.

    `measured` selects the judgements on `against`. Each row has the ids of the two `judges`, a word
    about `what` differs, and the figures of `PairedDifference`.
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
    rows = []
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
            setups = {
                "judges": [first[0].pk, second[0].pk],
                "what": _what_differs(judge, other.judge),
            }
            rows.append(setups | difference.to_json())
    return rows


def _what_differs(judge: Judge, other: Judge) -> str:
    """Name the first difference between two judges of one model."""
    if judge.protocol != other.protocol:
        return "Protocol"
    if judge.rubric == other.rubric:
        return "Switches"
    return "Reference" if _needs_reference(judge) != _needs_reference(other) else "Rubric"


def _needs_reference(judge: Judge) -> bool:
    try:
        return rubric_of_judge(judge).reference == "required"
    except RubricError:  # its folder was removed
        return False
