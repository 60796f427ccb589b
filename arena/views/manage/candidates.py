"""The candidates of an arena: entered, looked at, revised, retired."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.access import is_open_to, may_change, may_read_texts, may_retire
from arena.forms.candidates import CandidateForm, VersionForm
from arena.models import Candidate
from arena.pages.generation import generation_of
from arena.pages.overview import answered, with_answers
from arena.pages.versions import changes_between, made_of, preview_of
from arena.services import candidates
from arena.services.candidate_checks import CLOSED, CandidateRefused
from arena.views.manage.desk import Desk, at_desk, desk_page, enters, visits
from arena.views.manage.sizes import told_if_too_large

ANSWERS_OF_A_PAGE = 20
LOOK_FIRST = (
    "What was filled in has changed since you looked at it, so nothing was saved. Look at it, then "
    "save."
)


@at_desk(visits)
@require_safe
def manage_candidates(request: HttpRequest, desk: Desk) -> HttpResponse:
    """The reader's own candidates, and by their public names the others'."""
    own = list(with_answers(desk.own_candidates()))
    others = desk.arena.candidates.revealed().exclude(pk__in=[one.pk for one in own])
    context = {
        "own": own,
        "others": with_answers(others),
        "prompts": desk.arena.prompts.active().count(),
    }
    return desk_page(request, desk, "manage/candidates.html", "candidates", context)


@told_if_too_large
@at_desk(enters)
@require_http_methods(["GET", "HEAD", "POST"])
def new_candidate(request: HttpRequest, desk: Desk) -> HttpResponse:
    """The form of a candidate. One button shows what is sent, the other one saves."""
    data = request.POST if request.method == "POST" else None
    form = CandidateForm(data, arena=desk.arena, teams=desk.teams, now=timezone.now())
    if form.is_bound and form.is_valid() and request.POST.get("do") == "save":
        try:
            made = _register(desk, form)
        except CandidateRefused as refusal:
            form.blame(refusal)
        else:
            messages.success(request, f"{made.own_name} is registered.")
            return redirect("manage_candidate", desk.arena.slug, made.pk)
    context = {"form": form, "preview": _preview(request, desk, form)}
    return desk_page(request, desk, "manage/new_candidate.html", "candidates", context)


def _register(desk: Desk, form: CandidateForm) -> Candidate:
    return candidates.register_candidate(
        arena=desk.arena,
        team=form.team_chosen,
        by=desk.actor,
        now=timezone.now(),
        name=form.cleaned_data["name"],
        **form.privacy(),
        **form.made_of,
    )


def _preview(request: HttpRequest, desk: Desk, form: VersionForm) -> Any:
    """What is sent, once what was filled in can be: the variables' values are in it."""
    if not form.is_bound or form.errors or not desk.sees_variables:
        return None
    asked = request.POST.get("from", "")
    start = int(asked) if asked.isdecimal() and len(asked) < 9 else 0
    return preview_of(desk.arena, form.made_of, start)


@at_desk(visits)
@require_safe
def manage_candidate(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """One version: what it is made of, its answers, and what changed since another version."""
    candidate = desk.candidate(pk)
    versions = list(_versions(desk, candidate))
    against = _against(request, candidate, versions)
    answers = candidate.responses.revealed().select_related("prompt").defer("html", "prompt__html")
    page = Paginator(answers.order_by("prompt_id"), ANSWERS_OF_A_PAGE)
    is_open = is_open_to(desk.actor, desk.arena, candidate.team_id)
    context = {
        "candidate": candidate,
        "made_of": made_of(candidate),
        "versions": versions,
        "against": against,
        "changes": changes_between(against, made_of(candidate)) if against else None,
        "answers": page.get_page(request.GET.get("page")),
        "prompts": desk.arena.prompts.active().count(),
        "answered": next(answered(one) for one in versions if one.pk == candidate.pk),
        "may_change": (may := is_open and may_change(desk.actor, candidate)),
        "may_retire": may_retire(desk.actor, candidate),
        "closed": "" if is_open else CLOSED,
        "generation": generation_of(candidate) if may else None,
    }
    return desk_page(request, desk, "manage/candidate.html", "candidates", context)


def _versions(desk: Desk, candidate: Candidate) -> Any:
    same = desk.own_candidates().filter(name=candidate.name, team=candidate.team_id)
    return with_answers(same).order_by("-version")


def _against(
    request: HttpRequest, candidate: Candidate, versions: list[Candidate]
) -> Candidate | None:
    """The version to compare with: the one that is asked for, else the one before."""
    asked = request.GET.get("against", "")
    others = [one for one in versions if one.pk != candidate.pk]
    earlier = (one for one in others if one.version < candidate.version)
    chosen = (one for one in others if str(one.version) == asked)
    return next(chosen, None) or next(earlier, None)


@told_if_too_large
@at_desk(visits)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_candidate(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """The next version. One button shows what changes and what is sent, then the other saves."""
    candidate = desk.candidate_to_change(pk)
    now = timezone.now()
    if request.method == "POST":
        form = VersionForm(request.POST, arena=desk.arena, now=now)
    else:
        form = VersionForm.of(candidate, now=now)
    is_open = is_open_to(desk.actor, desk.arena, candidate.team_id)
    if form.is_bound and form.is_valid() and not is_open:
        form.add_error(None, CLOSED)
    if form.is_bound and form.is_valid() and _is_saved(request, form):
        try:
            made = _revise(desk, candidate, form)
        except CandidateRefused as refusal:
            form.blame(refusal)
        else:
            messages.success(request, _saved(candidate, made))
            return redirect("manage_candidate", desk.arena.slug, made.pk)
    context = {
        "candidate": candidate,
        "form": form,
        "fixed": candidates.is_fixed(candidate),
        "preview": (preview := _preview(request, desk, form)),
        "changes": changes_between(candidate, form.made_of) if preview else None,
        "seen": form.fingerprint() if preview else "",
    }
    return desk_page(request, desk, "manage/edit_candidate.html", "candidates", context)


def _is_saved(request: HttpRequest, form: VersionForm) -> bool:
    """Was the second button pressed, and is this what was looked at?"""
    if request.POST.get("do") != "save":
        return False
    if request.POST.get("seen") == form.fingerprint():
        return True
    messages.warning(request, LOOK_FIRST)
    return False


def _revise(desk: Desk, candidate: Candidate, form: VersionForm) -> Candidate:
    return candidates.revise_candidate(
        candidate=candidate,
        by=desk.actor,
        now=timezone.now(),
        says_privacy=form.says_privacy(),
        **form.privacy(),
        **form.made_of,
    )


def _saved(candidate: Candidate, made: Candidate) -> str:
    if made.pk != candidate.pk:
        return f"{made.own_name} is registered. {candidate.own_name} stays as it is."
    return f"{made.own_name} is saved."


@at_desk(visits)
@require_POST
def retire_candidate(request: HttpRequest, desk: Desk, pk: int) -> HttpResponse:
    """Retire a version, for good; the arena's team may retire those of its guests, too."""
    candidate = desk.candidate_to_retire(pk)
    candidates.retire_candidate(candidate=candidate, by=desk.actor, now=timezone.now())
    reads = may_read_texts(desk.actor, candidate)
    name = candidate.own_name if reads else str(candidate)
    messages.success(request, f"{name} is retired. It stays on the board, marked as retired.")
    if not reads:
        return redirect("manage_candidates", desk.arena.slug)
    return redirect("manage_candidate", desk.arena.slug, candidate.pk)
