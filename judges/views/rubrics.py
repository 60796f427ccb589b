"""The pages of a team's rubrics: written, previewed, compared, tried, exported and imported."""

import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.actors import TeamPermission, actor_of
from arena.errors import ServiceError
from arena.forms.base import errors_as_messages, errors_in
from arena.models import Team
from arena.services import runs
from arena.tasks import enqueue_on_commit
from arena.views.teams import for_team, render_team_page
from judges.core.rubric import RubricError, load_rubric, read_files
from judges.forms import (
    ImportRubricForm,
    RubricForm,
    TrialForm,
    templates,
)
from judges.models import RubricTrial, RubricVersion, TeamRubric
from judges.permissions import listed_judges, listed_label_sets
from judges.services.orders import prepare_order
from judges.services.planning import OrderOptions
from judges.services.quotes import Quote, probe_judges, quote_for
from judges.services.registry import DEFAULT_RUBRIC, Switches, spec_named
from judges.services.rubrics import (
    StaleRubricError,
    as_zip,
    check_rubric,
    differences,
    newest_versions,
    read_version,
    read_zip,
    remove_rubric,
    write_rubric,
)
from judges.services.trials import plan_trial, result_of, start_trial
from judges.views.orders import PreviewedRequest, preview_requests

PREVIEWED = 5
ABOUT_FOLDERS = re.compile("^# To make a rubric of your own, copy .*\\n", re.MULTILINE)
OWNERS = TeamPermission.MANAGE


def find_rubric(team: Team, slug: str) -> TeamRubric:
    return get_object_or_404(team.rubrics, slug=slug)


def find_version(team: Team, slug: str, number: int) -> RubricVersion:
    versions = RubricVersion.objects.select_related("rubric__team")
    return get_object_or_404(versions, rubric=find_rubric(team, slug), number=number)


@for_team()
@require_safe
def team_rubrics(request: HttpRequest, team: Team) -> HttpResponse:
    """List the team's rubrics, and the server's, from which a new one can start."""
    return _rubrics_page(request, team, ImportRubricForm())


def _rubrics_page(request: HttpRequest, team: Team, form: ImportRubricForm) -> HttpResponse:
    rows = [(version, _title_of(version)) for version in newest_versions(_only(team))]
    return render_team_page(
        request, team, "judges/rubrics.html", rows=rows, templates=templates(), form=form
    )


def _title_of(version: RubricVersion) -> str:
    try:
        return read_version(version).title
    except RubricError as error:
        return str(error)


@for_team(OWNERS)
@require_POST
def import_rubric(request: HttpRequest, team: Team) -> HttpResponse:
    """Write a rubric from its files in a ZIP; of one that the team has, the next version."""
    form = ImportRubricForm(request.POST, request.FILES)
    if form.is_valid():
        with errors_in(form):
            folder, texts = read_zip(form.cleaned_data["file"].read())
            slug = form.cleaned_data["slug"] or folder
            newest = newest_versions(_only(team)).filter(rubric__slug=slug).first()
            version = write_rubric(
                team=team,
                slug=slug,
                texts=texts,
                by=actor_of(request),
                after=newest.number if newest else 0,
                reason=f"Imported from {form.cleaned_data['file'].name}"[:300],
            )
            messages.success(request, f"{version.name} imported.")
            return redirect(version)
    return _rubrics_page(request, team, form)


def _only(team: Team) -> QuerySet[Team]:
    return Team.objects.filter(pk=team.pk)


@for_team(OWNERS)
@require_http_methods(["GET", "HEAD", "POST"])
def new_rubric(request: HttpRequest, team: Team) -> HttpResponse:
    """Write a rubric, from one of the server's or another of the team's."""
    if request.method == "POST":
        return _edit(request, team, RubricForm(request.POST, actor=actor_of(request)))
    template = request.GET.get("template", DEFAULT_RUBRIC)
    try:
        load_rubric(template)  # names the file that cannot be read
        texts = {name: content.decode() for name, content in read_files(template).items()}
        texts["rubric.toml"] = ABOUT_FOLDERS.sub("", texts["rubric.toml"])
    except RubricError:
        raise Http404("There is no such template.") from None
    return _edit(
        request, team, RubricForm.of(texts, actor=actor_of(request)), started_from=template
    )


@for_team(OWNERS)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_rubric(request: HttpRequest, team: Team, rubric: str) -> HttpResponse:
    """Write the next version of a rubric."""
    newest = _newest(find_rubric(team, rubric))
    if request.method == "POST":
        form = RubricForm(request.POST, actor=actor_of(request), slug=rubric)
    else:
        form = RubricForm.of(
            newest.texts, actor=actor_of(request), slug=rubric, after=newest.number
        )
    return _edit(request, team, form, newest=newest)


def _newest(rubric: TeamRubric) -> RubricVersion:
    versions = rubric.versions.select_related("rubric__team").order_by("-number")
    newest = versions.first()
    if newest is None:
        raise Http404("This rubric has no version.")
    return newest


def _edit(request: HttpRequest, team: Team, form: RubricForm, **context: Any) -> HttpResponse:
    """Show the form, with a preview if one is asked for; or save a version and show it."""
    preview = None
    if form.is_bound and form.is_valid():
        with errors_in(form):
            if request.POST.get("do") == "preview":
                preview = _preview(team, form)
            else:
                version = _save(request, team, form)
                messages.success(request, f"{version.name} saved. Judges can use it.")
                return redirect(version)
    return render_team_page(
        request, team, "judges/rubric_form.html", form=form, preview=preview, **context
    )


def _save(request: HttpRequest, team: Team, form: RubricForm) -> RubricVersion:
    try:
        return write_rubric(
            team=team,
            slug=form.slug,
            texts=form.texts,
            by=actor_of(request),
            after=form.cleaned_data["after"],
            reason=form.cleaned_data["reason"],
        )
    except StaleRubricError as error:
        form.accept_newest(error.newest)
        raise


@dataclass(frozen=True)
class RubricPreview:
    """The requests about a few pairs, as they would be sent, and what they cost."""

    quote: Quote
    pairs: list[list[PreviewedRequest]]


def _preview(team: Team, form: RubricForm) -> RubricPreview:
    """Show what a model would be sent about five pairs. Raises ServiceError."""
    _, rubric = check_rubric(f"{team.slug}/{form.slug}", form.texts)
    model = f"{form.cleaned_data['model']}@{DEFAULT_RUBRIC}"
    known = spec_named(model, Switches(unpinned=True), form.actor)
    spec = replace(known, rubric=rubric)
    options = OrderOptions(per_pair=PREVIEWED, again=True)
    arena = form.cleaned_data["arena"]
    order = prepare_order(arena=arena, specs=[spec], options=options, own_family=True)
    picks = order.picks[:PREVIEWED]
    member = order.members[0].limited_to({pick.responses for pick in picks})
    quote = quote_for(replace(order, picks=picks, members=[member]))
    return RubricPreview(quote, [preview_requests(member, pick.responses) for pick in picks])


@for_team()
@require_safe
def team_rubric(request: HttpRequest, team: Team, rubric: str) -> HttpResponse:
    return _version_page(request, team, _newest(find_rubric(team, rubric)))


@for_team()
@require_safe
def rubric_version(request: HttpRequest, team: Team, rubric: str, number: int) -> HttpResponse:
    return _version_page(request, team, find_version(team, rubric, number))


def _version_page(request: HttpRequest, team: Team, version: RubricVersion) -> HttpResponse:
    """A version's files, what it changes, the history, and the judges that use the rubric."""
    actor, rubric = actor_of(request), version.rubric
    versions = list(rubric.versions.select_related("made_by").order_by("-number"))
    earlier = {row.number: row for row in versions if row.number < version.number}
    against = request.GET.get("against", "")
    other = earlier.get(int(against)) if against.isdecimal() and len(against) < 9 else None
    other = other or next(iter(earlier.values()), None)
    judges = listed_judges(actor).filter(rubric_version__rubric=rubric)
    return render_team_page(
        request,
        team,
        "judges/rubric.html",
        rubric=rubric,
        version=version,
        title=_title_of(version),
        versions=versions,
        earlier=list(earlier.values()),
        other=other,
        differences=differences(other, version) if other else [],
        judges=judges.select_related("rubric_version").order_by("-pk"),
        trials=RubricTrial.objects.filter(version=version)
        .select_related("before", "labels_in", "version__rubric__team")
        .order_by("-pk"),
        can_try=actor.may(TeamPermission.JUDGE, team),
    )


@for_team()
@require_safe
def rubric_files(request: HttpRequest, team: Team, rubric: str, number: int) -> HttpResponse:
    """A version as a ZIP with the same files as a folder of the server."""
    version = find_version(team, rubric, number)
    name = f"{rubric}.{number}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(as_zip(version), content_type="application/zip", headers=headers)


@for_team(OWNERS)
@require_POST
def delete_rubric(request: HttpRequest, team: Team, rubric: str) -> HttpResponse:
    found = find_rubric(team, rubric)
    with errors_as_messages(request):
        remove_rubric(rubric=found, by=actor_of(request))
        messages.success(request, f"{rubric} deleted.")
        return redirect("team_rubrics", team.slug)
    return redirect("team_rubric", team.slug, rubric)


@for_team(TeamPermission.JUDGE)
@require_http_methods(["GET", "HEAD", "POST"])
def try_rubric(request: HttpRequest, team: Team, rubric: str, number: int) -> HttpResponse:
    """What a trial of a version costs; a POST starts it."""
    version, actor = find_version(team, rubric, number), actor_of(request)
    given = request.POST or (request.GET if "labels" in request.GET else None)
    form = TrialForm(given, team=team, actor=actor, initial={"judge": request.GET.get("judge")})
    plan = None
    if form.is_valid():
        with errors_in(form):
            plan = plan_trial(
                version=version,
                judge=form.cleaned_data["judge"],
                source=form.source,
                pairs=form.cleaned_data["pairs"],
            )
            if request.method == "POST":
                cap, now = form.cleaned_data["cap"], timezone.now()
                runs.rehearse_payment(team=team, quote=plan.quote, cap=cap)
                probe_judges(specs=plan.specs, now=now)
                trial = start_trial(plan=plan, team=team, cap=cap, by=actor, now=now)
                enqueue_on_commit()
                return redirect(trial)
    return render_team_page(
        request, team, "judges/rubric_try.html", version=version, form=form, plan=plan
    )


@for_team()
@require_safe
def rubric_trial(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    """What a trial has shown so far."""
    trials = RubricTrial.objects.select_related(
        "version__rubric__team", "before", "after", "labels_in__arena"
    )
    sets = listed_label_sets(actor_of(request))
    trial = get_object_or_404(trials, pk=pk, version__rubric__team=team, labels_in__in=sets)
    arena, version = trial.labels_in.arena, trial.version
    query = {
        "judge": trial.before_id,
        "labels": f"arena:{arena.slug}" if arena else f"set:{trial.labels_in_id}",
        "pairs": trial.pairs,
    }
    place = reverse("try_rubric", args=[team.slug, version.rubric.slug, version.number])
    result, problem = None, ""
    try:
        result = result_of(trial)
    except ServiceError as error:  # a rubric that this release refuses
        problem = str(error)
    return render_team_page(
        request,
        team,
        "judges/rubric_trial.html",
        trial=trial,
        result=result,
        problem=problem,
        continue_at=f"{place}?{urlencode(query)}",
        can_try=actor_of(request).may(TeamPermission.JUDGE, team),
    )
