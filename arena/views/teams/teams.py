"""My teams, a new one, and a team's own page."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.access import Ability, actor_of, teams_of
from arena.forms.blaming import blame
from arena.forms.teams import TeamForm
from arena.models import Arena, Membership, Team
from arena.services import teams
from arena.services.budgets import committed_by
from arena.views.teams.finding import about, for_team


@never_cache
@login_required
@require_safe
def my_teams(request: HttpRequest) -> HttpResponse:
    """The teams of whoever reads this; to operators, all."""
    own = Membership.objects.filter(user=request.user.pk)
    found = (
        teams_of(actor_of(request))
        .annotate(
            members=Count("memberships", distinct=True), n_arenas=Count("arenas", distinct=True)
        )
        .prefetch_related(Prefetch("memberships", own, to_attr="own"))
        .order_by("name")
    )
    return render(request, "teams/teams.html", {"teams": found})


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new_team(request: HttpRequest) -> HttpResponse:
    """Make a team; whoever makes it is its owner."""
    form = TeamForm(request.POST or None)
    if form.is_valid():
        try:
            team = teams.create_team(name=form.cleaned_data["name"], by=actor_of(request))
        except teams.TeamRefused as refused:
            blame(form, refused)
        else:
            return redirect(team)
    return render(request, "teams/new.html", {"form": form})


@for_team()
@require_safe
def team(request: HttpRequest, team: Team) -> HttpResponse:
    """What the team has, and what it can do next."""
    spent = committed_by(team)
    context = {
        "arenas": with_counts(team.arenas.revealed()),
        "elsewhere": with_counts(_entered_elsewhere(request, team)),
        "may_submit": actor_of(request).may(Ability.SUBMIT, team),
        "n_members": team.memberships.count(),
        "spent": spent,
        "left": max(0, team.budget - spent),
        "form": TeamForm(initial={"name": team.name}),
    }
    return render(request, "teams/team.html", about(request, team) | context)


@for_team(Ability.MANAGE)
@require_POST
def rename_team(request: HttpRequest, team: Team) -> HttpResponse:
    """Give the team another name."""
    form = TeamForm(request.POST)
    if not form.is_valid():
        messages.error(request, form.errors["name"].as_text().removeprefix("* "))
        return redirect(team)
    try:
        teams.rename_team(team=team, name=form.cleaned_data["name"], by=actor_of(request))
    except teams.TeamRefused as refused:
        messages.error(request, refused.sentence)
    else:
        messages.success(request, f"The team is called {team} now.")
    return redirect(team)


def with_counts(arenas: QuerySet[Arena]) -> QuerySet[Arena]:
    """Arenas with how many prompts and candidates they have that are not retired, by name."""
    prompts, candidates = (Q(**{f"{what}__retired_at": None}) for what in ("prompts", "candidates"))
    return arenas.annotate(
        n_prompts=Count("prompts", distinct=True, filter=prompts),
        n_candidates=Count("candidates", distinct=True, filter=candidates),
    ).order_by("name")


def _entered_elsewhere(request: HttpRequest, team: Team) -> QuerySet[Arena]:
    """Other teams' arenas where this team has candidates, and which its reader may see."""
    entered = Arena.objects.visible_to(actor_of(request)).exclude(team=team)
    return entered.filter(pk__in=team.candidates.values("arena"))
