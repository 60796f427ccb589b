"""The judges of one arena: where each is trusted, and which can vote as a weighted jury."""

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


def judges_in(arena: Arena) -> "QuerySet[Epoch]":
    """The judges used in an arena, in their present epochs."""
    asked = Epoch.objects.open().filter(run_judges__run__arena=arena).distinct()
    return asked.select_related("judge", "rater").order_by("pk")


def measured_judges(arena: Arena, actor: Actor) -> dict[str, Any]:
    """What is known about the judges used in an arena: where each is trusted, which were not
    measured here, and which were measured together, as a weighted jury needs it."""
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
    together = newest.report["panel"]["judges"] if newest else []
    names = sorted(epoch.judge.name for epoch in epochs if epoch.pk in together)
    query = urlencode([*(("judge", name) for name in names), ("weigh", "1")])
    is_whole = bool(names) and len(names) == len(together)
    return {
        "places": places,
        "unmeasured": unmeasured,
        "weighable": {"names": names, "query": query} if is_whole else None,
    }


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
