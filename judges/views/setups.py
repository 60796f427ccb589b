"""The page that compares two setups of one model: rubrics, references, pairs or single answers."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from arena.actors import Actor, actor_of
from judges.models import Calibration, Judge
from judges.permissions import listed_calibrations, listed_judges


@dataclass(frozen=True)
class SetupRow:
    """Two judges of one model on the same items; `figures` are those of `PairedDifference`."""

    first: Judge
    second: Judge
    calibration: Calibration
    figures: dict[str, Any]


def setup_rows(judge: Judge, actor: Actor) -> list[SetupRow]:
    """Return the newest comparison of each two setups on the same labels or arena."""
    judges = listed_judges(actor).filter(endpoint=judge.endpoint, model=judge.model)
    known = {each.pk: each for each in judges}
    measured = listed_calibrations(actor).filter(epoch__judge__in=known, epoch__ended_at=None)
    rows: dict[tuple[Any, ...], SetupRow] = {}
    for calibration in measured.select_related("arena", "label_set").order_by("-made_at", "-pk"):
        for figures in calibration.report.get("setups", []):
            first, second = figures["judges"]
            if {first, second} <= known.keys():
                key = (calibration.arena_id, calibration.label_set_id, *sorted([first, second]))
                row = SetupRow(known[first], known[second], calibration, figures)
                rows.setdefault(key, row)
    return list(rows.values())


@require_safe
def setups(request: HttpRequest, pk: int) -> HttpResponse:
    actor = actor_of(request)
    judge = get_object_or_404(listed_judges(actor), pk=pk)
    context = {"judge": judge, "rows": setup_rows(judge, actor)}
    return render(request, "judges/setups.html", context)
