"""A team's decision page: is this candidate better than that one?"""

from django.contrib import messages
from django.db.models import Exists
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from arena.actors import TeamPermission, actor_of
from arena.models import Arena, Candidate, Team
from arena.views.teams import find_team, for_team
from judges.decision_report import DecisionQuery, decision_context
from judges.forms import BaselineForm
from judges.services.decisions import choose_baseline, name_for


@for_team()
@require_http_methods(["GET", "HEAD", "POST"])
def decision(request: HttpRequest, team: Team, arena: str) -> HttpResponse:
    """Show the team's candidates in an arena compared with its baseline; a POST changes that."""
    actor = actor_of(request)
    submits = Exists(actor.teams_with(TeamPermission.SUBMIT).filter(pk=team.pk))
    arenas = Arena.objects.visible_to(actor).annotate(team_submits=submits)
    in_arena = get_object_or_404(arenas, slug=arena)
    if request.method == "POST":
        return _choose_baseline(request, team, in_arena)
    context = decision_context(team, in_arena, DecisionQuery.of(request.GET.dict()))
    can_submit = actor.is_operator or bool(vars(in_arena)["team_submits"])
    # Members may start judge runs in their own arenas only, wherever they may submit.
    is_own = can_submit and in_arena.team_id == team.pk
    context |= {"can_submit": can_submit, "can_order": is_own, "can_manage": is_own}
    return render(request, "judges/decision.html", context)


def _choose_baseline(request: HttpRequest, team: Team, arena: Arena) -> HttpResponse:
    find_team(request, team.slug, TeamPermission.SUBMIT)
    form = BaselineForm(request.POST)
    if form.is_valid():
        candidates = Candidate.objects.revealed().filter(arena=arena)
        candidate = get_object_or_404(candidates, pk=form.cleaned_data["candidate"])
        choose_baseline(
            team=team, arena=arena, candidate=candidate, by=actor_of(request), now=timezone.now()
        )
        messages.success(request, f"Baseline changed to {name_for(team, arena, candidate)}.")
    else:
        messages.error(request, "Choose a candidate as the baseline.")
    return redirect("decision", team.slug, arena.slug)
