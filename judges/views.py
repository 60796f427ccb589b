"""The page of a judge's run."""

from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from arena.models import Arena, Run
from judges.models import Judgement
from judges.reports import report_on

PER_PAGE = 25


@require_safe
@vary_on_headers("HX-Request")
def judge_run(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """How a run stands, and every judgement with both verdicts and the judge's reasons.

    While the run is open the page asks for its upper part alone, so that a reader of the reasons
    below is not interrupted.
    """
    arena = get_object_or_404(Arena.objects.revealed(), slug=slug)
    run = get_object_or_404(Run, pk=pk, arena=arena, kind="judge", run_judges__isnull=False)
    context: dict[str, Any] = {"arena": arena, "report": report_on(run.pk, timezone.now())}
    if request.headers.get("HX-Request"):
        return render(request, "judges/_progress.html", context)
    chosen = request.GET.get("state", "")
    if chosen and chosen not in Judgement.State.values:
        raise Http404("There is no such state.")
    judgements = Judgement.objects.of_run(run).exclude(state=Judgement.State.WAITING)
    if chosen:
        judgements = judgements.filter(state=chosen)
    page = Paginator(judgements, PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "judges/run.html", context | {"page": page, "chosen": chosen})
