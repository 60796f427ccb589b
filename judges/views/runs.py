"""The list of an arena's judge runs, and the page of one: its progress, verdicts and controls."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from arena.actors import Actor, TeamPermission, actor_of, can_read_spending
from arena.errors import ServiceError
from arena.forms.base import SteerForm
from arena.models import Arena, Run
from arena.validation import in_dollars
from arena.views.runs import apply_action
from judges.models import Judgement
from judges.reports import RunReport, report_on
from judges.services import runs as run_service
from judges.services.orders import runs_in
from judges.tasks import enqueue_on_commit
from judges.views.access import (
    check_steering,
    find_any_run,
    find_arena,
    find_run,
    find_trial,
    operators_only,
    run_url,
    verdict_url,
)
from judges.views.judges import compare_rankings
from judges.views.verdict_list import VerdictFilter, with_excerpts
from judges.wording import REASON_HIDDEN
from ranking.models import Raters

PER_PAGE = 25
KEPT, RETRIED = "Verdicts so far are kept.", "Failed calls are being retried."
State = Judgement.State


@dataclass(frozen=True)
class FilterLink:
    url: str
    label: str
    chosen: bool


# -- Progress --------------------------------------------------------------------------------------


def progress_of(run: Run, now: datetime) -> dict[str, Any]:
    """The upper part of a run's page, which is polled while the run goes on."""
    report = report_on(run.pk, now)
    per_minute = report.per_minute(now)
    return {
        "arena": run.arena,
        "report": report,
        "run": report.run,
        "run_url": run_url(run),
        "jury_size": len(report.judges),
        "jury_rows": [(label, count) for _, label, count in report.jury_rows if count],
        "per_minute": per_minute,
        "seconds_left": _seconds_left(report, per_minute),
        "cap_in_dollars": in_dollars(report.run.cap),
        "can_retry": report.run.state == Run.State.DONE and report.failures > 0,
    }


def _seconds_left(report: RunReport, per_minute: float | None) -> float | None:
    left = report.total - report.settled
    return 60 * left / per_minute if report.goes_on and per_minute else None


# -- Verdicts --------------------------------------------------------------------------------------


def verdicts_of(report: RunReport, chosen: VerdictFilter, page: str | None) -> dict[str, Any]:
    """The lower part: the filters, and a page of the verdicts that pass them."""
    run = report.run
    verdicts = Paginator(with_excerpts(chosen.verdicts_of(run)), PER_PAGE).get_page(page)
    return {
        "page": verdicts,
        "verdicts": [
            (verdict, verdict_url(run, verdict.pk, chosen.query())) for verdict in verdicts
        ],
        "filter_query": chosen.query(),
        "state_links": _state_links(report, chosen),
        "judge_links": _judge_links(report, chosen),
        "flagged_links": _flagged_links(run, chosen),
    }


def _link(chosen: VerdictFilter, label: str, is_chosen: bool, **changes: object) -> FilterLink:
    return FilterLink(f"?{chosen.query(**changes)}#verdicts", label, is_chosen)


def _state_links(report: RunReport, chosen: VerdictFilter) -> list[FilterLink]:
    label = f"All {report.settled}{' so far' if report.goes_on else ''}"
    return [_link(chosen, label, not chosen.state, state="")] + [
        _link(chosen, f"{label} {count}", chosen.state == state, state=state)
        for state, label, count in report.state_rows
        if count and state != State.WAITING
    ]


def _judge_links(report: RunReport, chosen: VerdictFilter) -> list[FilterLink]:
    """By judge, where there are several."""
    if len(report.judges) < 2:
        return []
    return [_link(chosen, "All judges", chosen.judge is None, judge=None)] + [
        _link(chosen, str(judge.epoch), chosen.judge == judge.epoch.pk, judge=judge.epoch.pk)
        for judge in report.judges
    ]


def _flagged_links(run: Run, chosen: VerdictFilter) -> list[FilterLink]:
    """Pairs with a possible prompt injection, where there are any."""
    flagged = Judgement.objects.filter(run=run, flagged=True).exclude(state=State.WAITING).count()
    if not (flagged or chosen.flagged):
        return []
    return [
        _link(chosen, "All", not chosen.flagged, flagged=0),
        _link(chosen, f"Possible prompt injection {flagged}", chosen.flagged, flagged=1),
    ]


# -- Pages -----------------------------------------------------------------------------------------


@require_safe
def judge_runs(request: HttpRequest, slug: str) -> HttpResponse:
    """An arena's judge runs, newest first."""
    arena = find_arena(request, slug)
    page = Paginator(runs_in(arena), PER_PAGE).get_page(request.GET.get("page"))
    actor = actor_of(request)
    context = {
        "arena": arena,
        "page": page,
        "may_steer": run_service.can_steer(actor, arena),
        "is_operator": actor.is_operator,
        **_spending_context(actor, arena),
    }
    return render(request, "judges/runs.html", context)


@require_safe
@operators_only
def trial_runs(request: HttpRequest) -> HttpResponse:
    """Runs on labelled items: calibrations and drift checks."""
    page = Paginator(runs_in(None), PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "may_steer": True, **_spending_context(actor_of(request), None)}
    return render(request, "judges/runs.html", context)


def _spending_context(actor: Actor, arena: Arena | None) -> dict[str, Any]:
    return {"sees_money": can_read_spending(actor, arena), "reason_hidden": REASON_HIDDEN}


@require_safe
@vary_on_headers("HX-Request")
def judge_run(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    return _run_page(request, find_run(request, slug, pk))


@require_safe
@vary_on_headers("HX-Request")
@operators_only
def trial_run(request: HttpRequest, pk: int) -> HttpResponse:
    return _run_page(request, find_trial(pk))


def _run_page(request: HttpRequest, run: Run) -> HttpResponse:
    """The whole page; or, for htmx, its upper part alone, which is polled while the run goes on:
    so nobody who reads the verdicts below is interrupted."""
    actor = actor_of(request)
    context = progress_of(run, timezone.now()) | _spending_context(actor, run.arena)
    context["may_steer"] = run_service.can_steer(actor, run.arena)
    if request.headers.get("HX-Request"):
        context["state_changed"] = request.GET.get("seen") != context["run"].state
        return render(request, "judges/_progress.html", context)
    chosen = VerdictFilter.of(request.GET.dict())
    context |= verdicts_of(context["report"], chosen, request.GET.get("page"))
    context["decision_url"] = _decision_url(actor, run)
    context["rankings"] = compare_rankings(context["report"], request.GET.get("beside", ""))
    return render(request, "judges/run.html", context)


def _decision_url(actor: Actor, run: Run) -> str:
    """The decision page for this run's votes, for members of the arena's team; else ''."""
    team = run.arena.team if run.arena else None
    if run.arena is None or team is None or not actor.may(TeamPermission.READ, team):
        return ""
    raters = Raters.JURIES if run.jury_verdicts.exists() else Raters.JUDGES
    path = [team.slug, run.arena.slug]
    return reverse("decision", args=path, query={"raters": raters.value})


@require_POST
def steer_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Pause, resume or cancel a run, or retry its failures."""
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
        actor = actor_of(request)
        message = apply_action(run_service, run, actor, action, cap, kept=KEPT, retrying=RETRIED)
        messages.success(request, message)
    except ServiceError as error:
        messages.error(request, error.message)
    else:
        enqueue_on_commit()
