"""The experiments of an arena, and the page of one: drafts, a try, the measurement, the verdict."""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.actors import TeamPermission, actor_of
from arena.errors import ServiceError
from arena.forms.base import CapForm, add_service_error, errors_as_messages, visibility_text
from arena.models import Candidate, Prompt
from arena.permissions import visible_arenas
from arena.services.budgets import budget_left
from arena.tasks import enqueue_on_commit
from arena.views.arena_context import READ_ONLY, ArenaContext, require_permission
from arena.views.prompts import limit_upload
from judges.experiment_forms import (
    DraftForm,
    EnterForm,
    ExperimentForm,
    PlanForm,
    PromoteForm,
    TryForm,
)
from judges.experiment_page import (
    SizeOffer,
    best_of,
    changes_of,
    results_of,
    scale_of,
    try_of,
)
from judges.experiment_report import ExperimentReport, check_promotable, report_on
from judges.models import Experiment
from judges.models.experiments import MOST_DRAFTS
from judges.services import experiments as services
from judges.services.decisions import baseline_of, baselines_in
from judges.services.experiments import suggested_prompts, touch

PER_PAGE = 10
CENT = 10**7
USED_EVERY = timedelta(hours=1)
STEPS = {
    Experiment.State.DRAFT: "Measure",
    Experiment.State.RUNNING: "Measuring",
    Experiment.State.DONE: "Measured",
    Experiment.State.STOPPED: "Stopped",
}
View = Callable[..., HttpResponse]


class ExperimentAccess:
    """An experiment, and what the reader may do with it."""

    def __init__(self, request: HttpRequest, slug: str) -> None:
        self.request, self.actor = request, actor_of(request)
        rows = Experiment.objects.select_related(
            *("arena__team", "arena__origin", "baseline", "copy", "promoted", "promoted_by")
        )
        self.experiment: Experiment = get_object_or_404(
            rows, arena__slug=slug, arena__in=visible_arenas(self.actor)
        )
        team = self.experiment.team
        self.can_submit = self.actor.may(TeamPermission.SUBMIT, team)
        self.can_judge = self.can_submit and self.actor.may(TeamPermission.JUDGE, team)

    def draft(self, pk: int) -> Candidate:
        draft: Candidate = get_object_or_404(self.experiment.drafts, pk=pk)
        return draft


def for_experiment(permission: str = "") -> Callable[[View], View]:
    """Hand a view an ExperimentAccess in place of the slug; to outsiders there is none."""

    def decorate(view: View) -> View:
        @never_cache
        @wraps(view)
        def guarded(request: HttpRequest, slug: str, **kwargs: Any) -> HttpResponse:
            access = ExperimentAccess(request, slug)
            if permission and not getattr(access, permission):
                raise PermissionDenied(READ_ONLY)
            return view(request, access, **kwargs)

        return guarded

    return decorate


def for_origin(view: View) -> View:
    """Admit arenas of teams; the address of an experiment's own arena leads to the experiment."""

    @wraps(view)
    def guarded(request: HttpRequest, context: ArenaContext) -> HttpResponse:
        if context.arena.origin_id is not None:
            return redirect("experiment", context.arena.slug)
        if context.arena.team_id is None:
            raise Http404("Experiments belong to a team’s own arena.")
        return view(request, context)

    return guarded


@require_permission("can_read")
@require_safe
@for_origin
def experiments(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    rows = Experiment.objects.filter(arena__origin=context.arena).order_by("-pk")
    rows = rows.select_related("arena__team", "arena__origin", "baseline", "copy", "promoted")
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    reports = [report_on(experiment) for experiment in page]
    return context.render(
        "judges/experiments.html",
        tab="experiments",
        page=page,
        rows=[(report, best_of(report)) for report in reports],
        has_baseline=baselines_in(context.arena).exists(),
    )


@limit_upload
@require_permission("can_submit")
@require_http_methods(["GET", "HEAD", "POST"])
@for_origin
def new_experiment(request: HttpRequest, context: ArenaContext) -> HttpResponse:
    """Drafts of a baseline, which `?baseline=` names; a POST creates the experiment."""
    arena, now = context.arena, timezone.now()
    candidates = list(baselines_in(arena))
    asked = request.POST.get("baseline") or request.GET.get("baseline", "")
    named = next((one for one in candidates if str(one.pk) == asked), None)
    baseline = named or baseline_of(arena)
    if baseline is None:
        messages.info(request, "An experiment compares drafts with a candidate. Add one first.")
        return redirect("new_candidate", arena.slug)
    data = request.POST if request.method == "POST" else None
    form = ExperimentForm(data, arena=arena, baseline=baseline, now=now)
    if form.is_ready:
        try:
            made = services.create_experiment(
                origin=arena,
                baseline=baseline,
                by=context.actor,
                now=now,
                drafts=form.content_of_drafts(),
                name=form.cleaned_data["title"] or changes_of(baseline, form.drafts[0]).name,
                prompts=form.prompts,
            )
        except ServiceError as error:
            add_service_error(form, error)
        else:
            return redirect(f"{made.get_absolute_url()}#main")
    return context.render(
        "judges/experiment_form.html",
        tab="experiments",
        form=form,
        baseline=baseline,
        candidates=candidates,
        most=MOST_DRAFTS,
    )


@for_experiment()
@require_safe
def experiment(request: HttpRequest, access: ExperimentAccess) -> HttpResponse:
    """Its page; `?prompt=` chooses one of the prompts that drafts are tried on."""
    now = timezone.now()
    if request.GET.get("seen", access.experiment.state) != access.experiment.state:
        return HttpResponse(headers={"HX-Refresh": "true"})  # there is more to do on it now
    if "HX-Request" not in request.headers and access.experiment.used_at < now - USED_EVERY:
        touch(access.experiment, now)
        access.experiment.used_at = now
    return _render(request, access)


def _render(
    request: HttpRequest,
    access: ExperimentAccess,
    *,
    plan: PlanForm | None = None,
    drafts: dict[int, DraftForm] | None = None,
    **forms: Any,
) -> HttpResponse:
    experiment = access.experiment
    report = report_on(experiment)
    best = best_of(report)
    copy = experiment.copy
    tried = try_of(experiment, request.GET.get("prompt", ""))
    changes = [changes_of(copy, draft.candidate) for draft in report.drafts] if copy else []
    context = {
        "experiment": experiment,
        "arena": experiment.arena,
        "origin": experiment.origin,
        "report": report,
        "access": access,
        "baseline": copy,
        "drafts": _with_forms(access, changes, drafts or {}),
        "can_add": len(changes) < MOST_DRAFTS,
        "step": STEPS[Experiment.State(experiment.state)],
        "tried": tried,
        "refreshes_prices": "trying" in request.GET and not tried.goes_on,
        "results": results_of(report),
        "best": best,
        "scale": scale_of(best.claim) if best and experiment.registered_at else None,
        "margin": round(100 * experiment.margin),
        "prompts": experiment.arena.prompts.active().count(),
        "saved": _not_needed(report),
        "twin_cap": f"{-(-(experiment.at_most or 0) // CENT) / 100:.2f}",
        "readers": visibility_text(experiment.origin),
        "kept_days": settings.EXPERIMENT_DAYS,
        "base_url": request.build_absolute_uri("/").rstrip("/"),
    }
    if experiment.is_open:
        context["try_form"] = TryForm(arena=experiment.arena)
    if experiment.is_open and access.can_judge:
        form = plan or PlanForm(experiment=experiment, actor=access.actor)
        context["offer"] = _offer_of(form, access)
    if access.can_judge:
        context |= {"budget_left": budget_left(experiment.team), "cap_form": CapForm()}
    return render(request, "judges/experiment.html", context | forms)


def _with_forms(
    access: ExperimentAccess, changes: list[Any], given: dict[int, DraftForm]
) -> list[dict[str, Any]]:
    experiment = access.experiment
    is_shown = experiment.is_open and access.can_submit
    return [
        {
            "changes": change,
            "form": given.get(change.candidate.pk)
            or (_draft_form(experiment, change.candidate) if is_shown else None),
            "is_open": change.candidate.pk in given or not change.is_changed,
        }
        for change in changes
    ]


def _draft_form(experiment: Experiment, draft: Candidate, data: Any = None) -> DraftForm:
    return DraftForm(
        data,
        instance=draft,
        arena=experiment.arena,
        now=timezone.now(),
        prefix=f"draft-{draft.pk}",
    )


def _offer_of(form: PlanForm, access: ExperimentAccess) -> SizeOffer:
    """The sizes with their prices, or the reason why there are none."""
    offered = SizeOffer(form, access.experiment, access.actor)
    if form.errors.keys() <= {"cap", "people", "__all__"}:  # no price depends on them
        try:
            offered.quote_sizes()
        except ServiceError as error:
            offered.problem = error.message
    return offered


def _not_needed(report: ExperimentReport) -> int:
    """How many registered prompts were not judged, because the verdict was clear before."""
    experiment = report.experiment
    is_over = experiment.state == Experiment.State.DONE and bool(experiment.judges)
    return experiment.size - report.looked_at if is_over and report.looked_at else 0


@require_POST
@for_experiment("can_submit")
def add_draft(request: HttpRequest, access: ExperimentAccess) -> HttpResponse:
    with errors_as_messages(request):
        services.add_draft(experiment=access.experiment, by=access.actor, now=timezone.now())
    return redirect(f"{access.experiment.get_absolute_url()}#draft")


@limit_upload
@require_POST
@for_experiment("can_submit")
def save_draft(request: HttpRequest, access: ExperimentAccess, pk: int) -> HttpResponse:
    """Change a draft, and try it at once if that was pressed; or remove it."""
    experiment, draft, now = access.experiment, access.draft(pk), timezone.now()
    do, by = request.POST.get("do", ""), access.actor
    if do == "remove":
        with errors_as_messages(request):
            services.remove_draft(experiment=experiment, draft=draft, by=by, now=now)
        return redirect(f"{experiment.get_absolute_url()}#draft")
    form = _draft_form(experiment, draft, request.POST)
    if form.is_valid():
        try:
            services.change_draft(
                experiment=experiment, draft=draft, by=by, now=now, **form.changes
            )
        except ServiceError as error:
            add_service_error(form, error)
    if form.errors:
        return _render(request, access, drafts={draft.pk: form})
    return _try(request, access, []) if do == "try" else redirect(experiment)


@require_POST
@for_experiment("can_submit")
def try_drafts(request: HttpRequest, access: ExperimentAccess) -> HttpResponse:
    """Generate the missing answers to the prompts chosen, or to those suggested."""
    form = TryForm(request.POST, arena=access.experiment.arena)
    if not form.is_valid():
        messages.error(request, "Choose prompts of this experiment.")
        return redirect(f"{access.experiment.get_absolute_url()}#try")
    return _try(request, access, form.cleaned_data["prompts"])


def _try(request: HttpRequest, access: ExperimentAccess, chosen: list[str]) -> HttpResponse:
    experiment = access.experiment
    prompts: list[Prompt] = list(experiment.arena.prompts.filter(pk__in=chosen).order_by("pk"))
    with errors_as_messages(request):
        services.try_drafts(
            experiment=experiment,
            prompts=prompts or suggested_prompts(experiment),
            by=access.actor,
            now=timezone.now(),
        )
        enqueue_on_commit()
    shown = f"?prompt={prompts[0].pk}" if prompts else ""
    return redirect(f"{experiment.get_absolute_url()}{shown}#try")


@require_POST
@for_experiment("can_judge")
def start(request: HttpRequest, access: ExperimentAccess) -> HttpResponse:
    """Begin the measurement, or go on with one that was stopped. `do=price` only quotes."""
    experiment = access.experiment
    if not experiment.is_open:
        return _go_on(request, access)
    form = PlanForm(request.POST, experiment=experiment, actor=access.actor)
    is_sent = request.POST.get("do") != "price" and form.is_valid()
    if is_sent and _started(request, access, form):
        return redirect(f"{experiment.get_absolute_url()}#measure")
    return _render(request, access, plan=form)


def _started(request: HttpRequest, access: ExperimentAccess, form: PlanForm) -> bool:
    try:
        services.start_experiment(
            experiment=access.experiment, plan=form.plan(), by=access.actor, now=timezone.now()
        )
    except ServiceError as error:
        add_service_error(form, error)
        return False
    enqueue_on_commit()
    return True


def _go_on(request: HttpRequest, access: ExperimentAccess) -> HttpResponse:
    form = CapForm(request.POST)
    if not form.is_valid():
        return _render(request, access, cap_form=form)
    try:
        services.start_experiment(
            experiment=access.experiment,
            plan=services.MeasurementPlan(cap=form.cleaned_data["cap"]),
            by=access.actor,
            now=timezone.now(),
        )
    except ServiceError as error:
        add_service_error(form, error)
        return _render(request, access, cap_form=form)
    enqueue_on_commit()
    return redirect(f"{access.experiment.get_absolute_url()}#measure")


@require_POST
@for_experiment("can_submit")
def stop(request: HttpRequest, access: ExperimentAccess) -> HttpResponse:
    with errors_as_messages(request):
        services.stop_experiment(experiment=access.experiment, by=access.actor, now=timezone.now())
    return redirect(f"{access.experiment.get_absolute_url()}#measure")


@require_POST
@for_experiment("can_judge")
def start_twin(request: HttpRequest, access: ExperimentAccess) -> HttpResponse:
    """Measure the baseline against a second generation of itself."""
    form = CapForm(request.POST)
    if not form.is_valid():
        messages.error(request, "The cap must be an amount in dollars, such as 1.50.")
        return redirect(f"{access.experiment.get_absolute_url()}#twin")
    with errors_as_messages(request):
        twin = services.start_twin(
            experiment=access.experiment,
            cap=form.cleaned_data["cap"],
            by=access.actor,
            now=timezone.now(),
        )
        enqueue_on_commit()
        return redirect(twin)
    return redirect(f"{access.experiment.get_absolute_url()}#twin")


@require_POST
@for_experiment("can_submit")
def promote(request: HttpRequest, access: ExperimentAccess, pk: int) -> HttpResponse:
    """Make a draft the team's baseline; the reason is for the team."""
    draft, form = access.draft(pk), PromoteForm(request.POST)
    if not form.is_valid():
        return _render(request, access, promote_form=form, promoting=draft)
    with errors_as_messages(request):
        check_promotable(access.experiment, draft)
        services.promote_draft(
            experiment=access.experiment,
            draft=draft,
            by=access.actor,
            now=timezone.now(),
            why=form.cleaned_data["why"],
        )
    return redirect(access.experiment)


@require_POST
@for_experiment("can_submit")
def enter(request: HttpRequest, access: ExperimentAccess, pk: int) -> HttpResponse:
    """Enter a draft in the origin under a name of its own."""
    draft, form = access.draft(pk), EnterForm(request.POST)
    if form.is_valid():
        try:
            entered = services.enter_draft(
                experiment=access.experiment,
                draft=draft,
                by=access.actor,
                now=timezone.now(),
                name=form.cleaned_data["name"],
            )
        except ServiceError as error:
            form.add_error(None, error.message)
        else:
            messages.success(request, f"{entered.own_name} has been entered.")
            return redirect("manage_candidate", entered.arena.slug, entered.pk)
    return _render(request, access, enter_form=form, entering=draft)


@require_POST
@for_experiment("can_submit")
def delete(request: HttpRequest, access: ExperimentAccess) -> HttpResponse:
    origin = access.experiment.origin
    try:
        services.delete_experiment(experiment=access.experiment, by=access.actor)
    except ServiceError as error:
        messages.error(request, error.message)
        return redirect(access.experiment)
    messages.success(request, "The experiment has been deleted.")
    return redirect("experiments", origin.slug)
