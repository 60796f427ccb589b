"""The pages of a team's labels: listed, uploaded after a preview, and deleted."""

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.actors import TeamPermission, actor_of
from arena.files.tables import AT_MOST_BYTES
from arena.forms.base import errors_as_messages, errors_in
from arena.models import Team
from arena.services.responses import keep_upload, kept_upload
from arena.views.prompts import limit_upload
from arena.views.teams import for_team, paginate, render_team_page
from judges.forms import LabelsForm
from judges.models import LabelSet
from judges.permissions import listed_label_sets
from judges.services.label_uploads import LabelUpload, preview_labels
from judges.services.labels import remove_labels, upload_labels


@for_team()
@require_safe
def team_labels(request: HttpRequest, team: Team) -> HttpResponse:
    """List the labels that the team has uploaded."""
    actor = actor_of(request)
    sets = listed_label_sets(actor).filter(team=team)
    counted = sets.annotate(n_items=Count("items", distinct=True), n_labels=Count("items__labels"))
    page = paginate(request, counted.order_by("-pk"))
    return render_team_page(
        request,
        team,
        "judges/labels.html",
        page=page,
        unused=set(LabelSet.objects.unused().filter(team=team).values_list("pk", flat=True)),
        can_judge=actor.may(TeamPermission.JUDGE, team),
    )


@limit_upload
@for_team(TeamPermission.JUDGE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_labels(request: HttpRequest, team: Team) -> HttpResponse:
    """Preview a file of labels, and store it once that is confirmed."""
    form = LabelsForm(request.POST or None, request.FILES or None)
    if form.is_valid():
        with errors_in(form):
            return _preview_or_save(request, team, form)
    return render_team_page(request, team, "judges/labels_form.html", form=form)


def _preview_or_save(request: HttpRequest, team: Team, form: LabelsForm) -> HttpResponse:
    """Raises UploadError for a file that cannot be read."""
    by, fields = actor_of(request), form.cleaned_data
    if file := fields["file"]:
        upload, key = LabelUpload(file.name, file.read(AT_MOST_BYTES + 1)), ""
    else:
        key = fields["kept"]
        upload = LabelUpload(*kept_upload(place=team, key=key, by=by), *form.chosen())
    preview = preview_labels(upload)
    name = fields["name"] or upload.name
    if request.POST.get("do") == "save" and key:
        form = LabelsForm(request.POST, preview=preview)
        if form.can_save():
            assert preview.file is not None, "checked by the form"
            with errors_in(form):
                stored = upload_labels(team=team, name=name, file=preview.file, by=by)
                has_pairs = stored.kind == LabelSet.Kind.PAIRS
                use = "Trials of rubrics" if has_pairs else "The command calibrate --uploaded"
                messages.success(request, f"{stored} saved. {use} can use it.")
                return redirect("team_labels", team.slug)
    else:
        key = key or keep_upload(place=team, name=upload.name, data=upload.data, by=by)
        initial = {"kept": key, "name": name, "skip_bad": "skip_bad" in request.POST}
        form = LabelsForm(initial=initial, preview=preview)
    return render_team_page(request, team, "judges/labels_form.html", form=form, preview=preview)


@for_team(TeamPermission.MANAGE)
@require_POST
def delete_labels(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    found = get_object_or_404(team.label_sets, pk=pk)
    with errors_as_messages(request):
        remove_labels(label_set=found, by=actor_of(request))
        messages.success(request, f"{found} deleted.")
    return redirect("team_labels", team.slug)
