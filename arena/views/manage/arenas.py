"""An arena of a team: made, looked over, set up."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from arena.access import Ability, actor_of, is_open_to, may_change
from arena.forms.arenas import ArenaForm
from arena.forms.blaming import blame
from arena.models import Candidate, Team
from arena.pages.overview import overview_of
from arena.services.arenas import ArenaRefused, create_team_arena, update_arena
from arena.views.manage.desk import Desk, at_desk, desk_page, manages, visits
from arena.views.manage.sizes import told_if_too_large
from arena.views.teams.finding import for_team


@told_if_too_large
@for_team(ability=Ability.SUBMIT)
@require_http_methods(["GET", "HEAD", "POST"])
def new_arena(request: HttpRequest, team: Team) -> HttpResponse:
    """Make an arena of the team."""
    form = ArenaForm(request.POST) if request.method == "POST" else ArenaForm()
    if form.is_bound and form.is_valid():
        try:
            arena = create_team_arena(team=team, by=actor_of(request), **form.cleaned_data)
        except ArenaRefused as refusal:
            blame(form, refusal)
        else:
            messages.success(request, f"The arena {arena} is there. It begins with its prompts.")
            return redirect("manage_arena", arena.slug)
    return render(request, "manage/new_arena.html", {"team": team, "form": form})


@at_desk(visits)
@require_safe
def manage_arena(request: HttpRequest, desk: Desk) -> HttpResponse:
    """What is there, and what comes next."""
    overview = overview_of(desk.arena, desk.candidates_of_teams())
    context = {
        "overview": overview,
        "to_answer": [one for one, _ in overview.unanswered if _may_answer(desk, one)],
        "decision": _decision_url(desk),
    }
    return desk_page(request, desk, "manage/arena.html", "overview", context)


def _may_answer(desk: Desk, candidate: Candidate) -> bool:
    """May the reader bring or generate the answers that are missing?"""
    is_open = is_open_to(desk.actor, desk.arena, candidate.team_id)
    return is_open and may_change(desk.actor, candidate)


def _deciding_team(desk: Desk) -> Team | None:
    """The team whose decision page the reader is led to: the arena's, or else a guest's own."""
    if desk.reads and desk.arena.team:
        return desk.arena.team
    theirs = desk.actor.teams_with(Ability.READ)
    return theirs.filter(candidates__arena=desk.arena).order_by("pk").first()


def _decision_url(desk: Desk) -> str:
    """The page where the team reads its verdict, which stands on another floor; '' for no team."""
    team = _deciding_team(desk)
    return reverse("decision", args=[team.slug, desk.arena.slug]) if team else ""


@told_if_too_large
@at_desk(manages)
@require_http_methods(["GET", "HEAD", "POST"])
def arena_settings(request: HttpRequest, desk: Desk) -> HttpResponse:
    """Change what the team says about its arena, and who sees it."""
    form = ArenaForm(request.POST) if request.method == "POST" else ArenaForm.of(desk.arena)
    if form.is_bound and form.is_valid():
        try:
            update_arena(arena=desk.arena, by=desk.actor, **form.cleaned_data)
        except ArenaRefused as refusal:
            blame(form, refusal)
        else:
            messages.success(request, "The settings are saved.")
            return redirect("arena_settings", desk.arena.slug)
    return desk_page(request, desk, "manage/settings.html", "settings", {"form": form})
