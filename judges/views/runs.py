"""An arena's runs of judges, and the page on which one is watched and steered."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from arena.models import Run
from judges.forms import SteerForm
from judges.pages.addresses import run_url
from judges.pages.beside import beside
from judges.pages.listing import NoSuchFilter, Shown
from judges.pages.runs import progress_of, runs_in, verdicts_of
from judges.services import steering
from judges.services.registering import JudgeRefused
from judges.views.access import find_any_run, find_arena, find_run, find_trial, staff_only
from judges.views.bells import ring_on_commit

PER_PAGE = 25


@require_safe
def judge_runs(request: HttpRequest, slug: str) -> HttpResponse:
    """An arena's runs of judges, newest first."""
    arena = find_arena(slug)
    page = Paginator(runs_in(arena), PER_PAGE).get_page(request.GET.get("page"))
    context = {"arena": arena, "page": page, "may_steer": steering.may_steer(request.user)}
    return render(request, "judges/runs.html", context)


@require_safe
@staff_only
def trial_runs(request: HttpRequest) -> HttpResponse:
    """Runs on labelled items: calibrations and canaries."""
    page = Paginator(runs_in(None), PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "judges/runs.html", {"page": page, "may_steer": True})


@require_safe
@vary_on_headers("HX-Request")
def judge_run(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """How a run stands, and its verdicts."""
    return _run_page(request, find_run(slug, pk))


@require_safe
@vary_on_headers("HX-Request")
@staff_only
def trial_run(request: HttpRequest, pk: int) -> HttpResponse:
    """The same for a run that tries a judge on labelled items."""
    return _run_page(request, find_trial(pk))


def _run_page(request: HttpRequest, run: Run) -> HttpResponse:
    """While the run goes on the page asks for its upper part alone, so that a reader of the
    verdicts below is not interrupted."""
    context = progress_of(run, timezone.now()) | {"may_steer": steering.may_steer(request.user)}
    if request.headers.get("HX-Request"):
        changed = request.GET.get("seen") != context["run"].state
        return render(request, "judges/_progress.html", context | {"state_changed": changed})
    context |= verdicts_of(context["report"], _shown(request), request.GET.get("page"))
    context["beside"] = beside(context["report"], request.GET.get("beside", ""))
    return render(request, "judges/run.html", context)


def _shown(request: HttpRequest) -> Shown:
    try:
        return Shown.of(request.GET.dict())
    except NoSuchFilter:
        raise Http404("There is no such state or judge.") from None


# -- Steering --------------------------------------------------------------------------------------


@require_POST
@staff_only
def steer_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Pause a run, let it go on, cancel it, or have its failures asked again."""
    run = find_any_run(pk)
    form = SteerForm(request.POST)
    if form.is_valid():
        _steer(request, run, **form.cleaned_data)
    else:
        for errors in form.errors.values():
            messages.error(request, " ".join(map(str, errors)))
    return redirect(run_url(run))


def _steer(request: HttpRequest, run: Run, action: str, cap: int | None) -> None:
    try:
        messages.success(request, _act(request.user, run, action, cap))
    except JudgeRefused as refusal:
        messages.error(request, str(refusal))
    else:
        ring_on_commit()


def _act(user: Any, run: Run, action: str, cap: int | None) -> str:
    now = timezone.now()
    if action == "pause":
        steering.pause(run=run, by=user.get_username())
        return "The run is paused. Calls that are under way end as they will."
    if action == "resume":
        steering.resume(run=run, now=now, cap=cap)
        return "The run goes on."
    if action == "cancel":
        steering.cancel(run=run, now=now)
        return "The run is cancelled. Its verdicts so far stay."
    steering.ask_failures_again(run=run, now=now)
    return "The calls that failed are made again."
