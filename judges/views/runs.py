"""An arena's runs of judges, and the page on which one is watched and steered."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from arena.access import Ability, Actor, actor_of, may_read_spending
from arena.calls.forms import SteerForm
from arena.models import Arena, Run
from arena.services.refusals import Refused
from arena.views.steering import act
from judges.pages.addresses import run_url
from judges.pages.beside import beside
from judges.pages.listing import NoSuchFilter, Shown
from judges.pages.runs import NOT_TOLD, progress_of, runs_in, verdicts_of
from judges.services import steering
from judges.views.access import (
    check_steering,
    find_any_run,
    find_arena,
    find_run,
    find_trial,
    operators_only,
)
from judges.views.bells import ring_on_commit
from ranking.models import Raters

PER_PAGE = 25
STAYS, AGAIN = "Its verdicts so far stay.", "The calls that failed are made again."


@require_safe
def judge_runs(request: HttpRequest, slug: str) -> HttpResponse:
    """An arena's runs of judges, newest first."""
    arena = find_arena(request, slug)
    page = Paginator(runs_in(arena), PER_PAGE).get_page(request.GET.get("page"))
    actor = actor_of(request)
    context = {
        "arena": arena,
        "page": page,
        "may_steer": steering.may_steer(actor, arena),
        "is_operator": actor.is_operator,
        **_told(actor, arena),
    }
    return render(request, "judges/runs.html", context)


@require_safe
@operators_only
def trial_runs(request: HttpRequest) -> HttpResponse:
    """Runs on labelled items: calibrations and canaries."""
    page = Paginator(runs_in(None), PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "may_steer": True, **_told(actor_of(request), None)}
    return render(request, "judges/runs.html", context)


def _told(actor: Actor, arena: Arena | None) -> dict[str, Any]:
    """What of money, and of servers' words, `actor` is told."""
    return {"sees_money": may_read_spending(actor, arena), "not_told": NOT_TOLD}


@require_safe
@vary_on_headers("HX-Request")
def judge_run(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """How a run stands, and its verdicts."""
    return _run_page(request, find_run(request, slug, pk))


@require_safe
@vary_on_headers("HX-Request")
@operators_only
def trial_run(request: HttpRequest, pk: int) -> HttpResponse:
    """The same for a run that tries a judge on labelled items."""
    return _run_page(request, find_trial(pk))


def _run_page(request: HttpRequest, run: Run) -> HttpResponse:
    """While the run goes on the page asks for its upper part alone, so that a reader of the
    verdicts below is not interrupted."""
    actor = actor_of(request)
    may_steer = steering.may_steer(actor, run.arena)
    context = progress_of(run, timezone.now()) | {"may_steer": may_steer} | _told(actor, run.arena)
    if request.headers.get("HX-Request"):
        changed = request.GET.get("seen") != context["run"].state
        return render(request, "judges/_progress.html", context | {"state_changed": changed})
    context |= verdicts_of(context["report"], _shown(request), request.GET.get("page"))
    context["decision_url"] = _decision_url(request, run)
    context["beside"] = beside(context["report"], request.GET.get("beside", ""))
    return render(request, "judges/run.html", context)


def _decision_url(request: HttpRequest, run: Run) -> str:
    """Where the arena's team reads what its votes decide; '' for everybody else."""
    team = run.arena.team if run.arena else None
    if run.arena is None or team is None or not actor_of(request).may(Ability.READ, team):
        return ""
    votes = Raters.JURIES if run.jury_verdicts.exists() else Raters.JUDGES
    query = {"raters": votes.value}
    return reverse("decision", args=[team.slug, run.arena.slug], query=query)


def _shown(request: HttpRequest) -> Shown:
    try:
        return Shown.of(request.GET.dict())
    except NoSuchFilter:
        raise Http404("There is no such state or judge.") from None


# -- Steering --------------------------------------------------------------------------------------


@require_POST
def steer_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Pause a run, let it go on, cancel it, or have its failures asked again."""
    run = find_any_run(request, pk)
    check_steering(request, run.arena)
    form = SteerForm(request.POST)
    if form.is_valid():
        _steer(request, run, **form.cleaned_data)
    else:
        for errors in form.errors.values():
            messages.error(request, " ".join(map(str, errors)))
    return redirect(run_url(run))


def _steer(request: HttpRequest, run: Run, action: str, cap: int | None) -> None:
    try:
        by = actor_of(request)
        said = act(steering, run, by, action, cap, stays=STAYS, again=AGAIN)
        messages.success(request, said)
    except Refused as refusal:
        messages.error(request, refusal.sentence)
    else:
        ring_on_commit()
