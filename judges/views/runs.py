"""Judge runs of an arena or on labelled items: their list, and the page of one run."""

from collections.abc import Iterable
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from arena.actors import Actor, TeamPermission, actor_of
from arena.models import Arena, Run
from arena.permissions import FieldVisibility, can_read_spending
from arena.views.runs import progress_of, steer
from judges.models import Judgement
from judges.permissions import can_steer
from judges.run_reports import CandidateCount, count_by_candidate, report_on
from judges.services.runs import runs_in
from judges.views.access import check_steering, find_any_run, find_run, find_trial, operators_only
from judges.views.addresses import run_url
from judges.views.arena_judges import measured_judges
from judges.views.verdict_list import PER_PAGE, VerdictFilter, names_of_sides, verdicts_of
from judges.views.verdicts import remember_names
from judges.wording import HOW_MANY, REASON_HIDDEN
from ranking import board_data
from ranking.models import Raters, Snapshot

KEPT, RETRIED = "Verdicts so far are kept.", "Failed calls are being retried."


@require_safe
def judge_runs(request: HttpRequest, slug: str) -> HttpResponse:
    """An arena's judge runs, newest first."""
    actor = actor_of(request)
    arena = board_data.find_arena(slug, actor)
    page = Paginator(runs_in(arena), PER_PAGE).get_page(request.GET.get("page"))
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    by_models = [s for s in snapshots if s.board.raters in (Raters.JUDGES, Raters.JURIES)]
    context = {
        "arena": arena,
        "page_links": board_data.page_links(
            arena, board_data.BoardQuery(), snapshots, "about", board_data.has_costs(arena)
        ),
        "is_judged": any(s.n_votes for s in by_models),
        "page": page,
        "can_steer": can_steer(actor, arena),
        "is_operator": actor.is_operator,
        "how_many": HOW_MANY,
        **measured_judges(arena, actor),
        **_spending_context(actor, arena),
    }
    return render(request, "judges/runs.html", context)


@require_safe
@operators_only
def trial_runs(request: HttpRequest) -> HttpResponse:
    """Runs on labelled items: calibrations and drift checks."""
    page = Paginator(runs_in(None), PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "can_steer": True, **_spending_context(actor_of(request), None)}
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
    """The whole page, from which htmx takes the list of verdicts every few seconds during the run;
    or, if the request says which state the page shows, only its upper part, which is polled too.
    """
    actor = actor_of(request)
    now = timezone.now()
    report = report_on(run.pk, now)
    context = progress_of(report, now) | _spending_context(actor, run.arena)
    context |= {
        "arena": run.arena,
        "run_url": run_url(run),
        "jury_size": len(report.judges),
        "jury_rows": [(label, count) for _, label, count in report.jury_rows if count],
        "can_steer": can_steer(actor, run.arena),
        "decision_url": _decision_url(actor, run),
        "candidates": _named_counts(actor, run),
    }
    if request.headers.get("HX-Request") and "seen" in request.GET:
        context["state_changed"] = request.GET["seen"] != context["run"].state
        return render(request, "judges/_progress.html", context)
    chosen = VerdictFilter.of(request.GET.dict())
    context |= verdicts_of(context["report"], chosen, request.GET.get("page"))
    context["names"] = _names_of_verdicts(request, run, context["page"])
    return render(request, "judges/run.html", context)


def _named_counts(actor: Actor, run: Run) -> list[tuple[str, CandidateCount]]:
    """The verdicts about each candidate, by the name that the reader may know."""
    if run.arena is None:
        return []
    reader = FieldVisibility(actor, run.arena)
    return [(reader.name_of(row.candidate), row) for row in count_by_candidate(run)]


def _names_of_verdicts(
    request: HttpRequest, run: Run, judgements: Iterable[Judgement]
) -> dict[int, tuple[str, str]]:
    """The left and the right name of each verdict whose answers' authors the reader may know.

    Whoever is shown them gets no vote on these answers, so visitors without an account, who could
    vote as well, have to ask for the names on a verdict's own page.
    """
    actor = actor_of(request)
    if run.arena is None or actor.user is None:
        return {}
    names = names_of_sides(judgements, run.arena, actor)
    remember_names(request, *(row.responses for row in judgements if row.pk in names))
    return names


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
    steer(request, run, kept=KEPT, retrying=RETRIED)
    return redirect(run_url(run))
