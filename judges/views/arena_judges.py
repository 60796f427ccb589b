"""The judges of one arena: where each is trusted, and how well several do together."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from kombu.exceptions import OperationalError

from arena.actors import Actor
from arena.models import Arena
from judges.models import Calibration, Epoch
from judges.permissions import listed_calibrations
from judges.services.trust import trust_profile
from judges.services.voted_pairs import judged_where_people_voted
from judges.tasks import measure_judge
from judges.views.access import for_judging

BEING_MEASURED = "The judges are being measured. Reload this page in a minute."
NOTHING_TO_MEASURE = "No judge has judged a pair here that people voted on, so none was measured."
BROKER_DOWN = "The judges could not be measured: the site’s queue cannot be reached."


@dataclass(frozen=True)
class PanelRow:
    """One way to ask judges, in words; `order` is the query that fills in the order form."""

    name: str
    option: dict[str, Any]
    over: str
    order: str


def judges_in(arena: Arena) -> "QuerySet[Epoch]":
    """The judges used in an arena, in their present epochs."""
    asked = Epoch.objects.open().filter(run_judges__run__arena=arena).distinct()
    return asked.select_related("judge", "rater").order_by("pk")


def measured_judges(arena: Arena, actor: Actor) -> dict[str, Any]:
    """What is known about the judges used in an arena: where each is trusted, which were not
    measured here, and how well several do together."""
    epochs = judges_in(arena)
    seen: dict[int, list[Calibration]] = {epoch.pk: [] for epoch in epochs}
    listed = listed_calibrations(actor) | Calibration.objects.filter(arena=arena)
    newest_first = listed.filter(epoch__in=epochs).select_related("arena", "label_set", "epoch")
    for calibration in newest_first.order_by("-made_at", "-pk"):
        seen[calibration.epoch_id].append(calibration)
    places, unmeasured = [], []
    for epoch in epochs:
        profile = trust_profile(epoch, seen[epoch.pk]) if seen[epoch.pk] else []
        here = [measured for measured in profile if measured.arena == arena]
        places += here
        unmeasured += [] if here or epoch.judge.is_jury else [epoch]
    places.sort(key=lambda place: (not place.is_trusted, str(place.calibration)))
    measured_here = [each for own in seen.values() for each in own if each.arena == arena]
    panels = [each for each in measured_here if each.report.get("panel")]
    newest = max(panels, key=attrgetter("pk"), default=None)
    panel = newest.report["panel"] if newest else None
    return {
        "places": places,
        "unmeasured": unmeasured,
        "panel": panel,
        "panel_rows": _panel_rows(panel) if panel else [],
    }


def _panel_rows(panel: dict[str, Any]) -> list[PanelRow]:
    """The ways that are offered, the cheapest first, then the others."""
    names = [_panel_name(option, panel["names"]) for option in panel["options"]]
    ways = list(zip(names, panel["options"], strict=True))
    ways.sort(key=lambda way: (not way[1]["offered"], way[1]["cost"]))
    rows = []
    for name, option in ways:
        over = "" if option["over"] is None else names[option["over"]]
        first = option["members"][:1] if option["kind"] == "cascade" else option["members"]
        query = [("judge", panel["names"][member]) for member in first]
        query += [("weigh", "1")] if option["kind"] == "weighted" else []
        rows.append(PanelRow(name, option, over, urlencode(query)))
    return rows


def _panel_name(option: dict[str, Any], judges: Sequence[str]) -> str:
    everybody = "both" if len(judges) == 2 else f"all {len(judges)}"
    if option["kind"] == "majority":
        return f"Jury of {everybody}, by majority"
    if option["kind"] == "weighted":
        return f"Jury of {everybody}, weighed by accuracy"
    first, *second = (judges[member] for member in option["members"])
    return f"{first}, then {second[0]} where it has no verdict" if second else first


@require_POST
@for_judging
def measure_judges(request: HttpRequest, arena: Arena) -> HttpResponse:
    """Have each judge of an arena measured by its verdicts on pairs that people voted on."""
    epochs = list(judged_where_people_voted(judges_in(arena), arena))
    try:
        for epoch in epochs:
            measure_judge.delay(epoch.pk, arena.pk)
    except OperationalError:
        messages.error(request, BROKER_DOWN)
    else:
        if epochs:
            messages.success(request, BEING_MEASURED)
        else:
            messages.error(request, NOTHING_TO_MEASURE)
    return redirect(f"{reverse('judge_runs', args=[arena.slug])}#main")
