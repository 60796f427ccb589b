"""Generating a candidate's answers: ordered on its page, watched and steered on the run's."""

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from arena import tasks
from arena.access import may_change, may_read_money
from arena.answers import ordering, steering
from arena.calls.forms import CapForm, SteerForm
from arena.models import Candidate, Run
from arena.pages.generation import progress_of, results_of
from arena.services.refusals import Refused
from arena.views.bells import ring_on_commit
from arena.views.manage.desk import Desk, at_desk, desk_page, visits
from arena.views.steering import act

HERE = "#generate"
STAYS, AGAIN = "Its answers so far stay.", "What failed is asked again."


@at_desk(visits)
@require_POST
def order_answers(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """Generate the answers that a candidate does not have yet."""
    candidate = desk.candidate_to_change(pk)
    form = CapForm(request.POST)
    if not form.is_valid():
        _say_errors(request, form)
        return _to_candidate(candidate)
    try:
        run = ordering.order_answers(
            candidate=candidate,
            by=desk.actor,
            cap=form.cleaned_data["cap"],
            now=timezone.now(),
        )
    except ordering.UnderWay as refusal:
        messages.warning(request, refusal.sentence)
        return _to_run(refusal.run)
    except Refused as refusal:
        messages.error(request, refusal.sentence)
        return _to_candidate(candidate)
    ring_on_commit(tasks.ring_answers)
    return _to_run(run)


@at_desk(visits)
@require_safe
@vary_on_headers("HX-Request")
def answer_run(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """How a run stands, what failed, and its answers so far.

    While the run goes on the page asks for its upper part alone, so that a reader of the answers
    below is not interrupted.
    """
    run, candidate = _find_run(desk, pk)
    context = progress_of(run, timezone.now()) | {"candidate": candidate, "arena": desk.arena}
    context["may_steer"] = may_change(desk.actor, candidate)
    context["sees_money"] = may_read_money(desk.actor, candidate)
    if request.headers.get("HX-Request"):
        context["state_changed"] = request.GET.get("seen") != context["run"].state
        return render(request, "manage/_answers_progress.html", context)
    context |= results_of(run, request)
    return desk_page(request, desk, "manage/answers.html", "candidates", context)


@at_desk(visits)
@require_POST
def steer_answers(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """Pause a run, let it go on, cancel it, or have its failures asked again."""
    run, candidate = _find_run(desk, pk)
    desk.candidate_to_change(candidate.pk)
    form = SteerForm(request.POST)
    if not form.is_valid():
        _say_errors(request, form)
        return _to_run(run)
    try:
        said = act(steering, run, desk.actor, **form.cleaned_data, stays=STAYS, again=AGAIN)
        messages.success(request, said)
    except Refused as refusal:
        messages.error(request, refusal.sentence)
    else:
        ring_on_commit(tasks.ring_answers)
    return _to_run(run)


def _find_run(desk: Desk, pk: int) -> tuple[Run, Candidate]:
    """A run of this arena, and its candidate, whose texts the reader may see; or 404."""
    runs = Run.objects.of_answers().select_related("team", "candidate")
    run = get_object_or_404(runs, pk=pk, arena=desk.arena)
    assert run.candidate_id is not None, "the database refuses a run of answers without"
    return run, desk.candidate(run.candidate_id)


def _say_errors(request: HttpRequest, form: Form) -> None:
    for errors in form.errors.values():
        messages.error(request, " ".join(map(str, errors)))


def _to_run(run: Run) -> HttpResponse:
    return redirect("answer_run", run.in_arena.slug, run.pk)


def _to_candidate(candidate: Candidate) -> HttpResponse:
    page = redirect("manage_candidate", candidate.arena.slug, candidate.pk)
    page["Location"] += HERE
    return page
