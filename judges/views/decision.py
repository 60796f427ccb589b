"""A team's decision: is this candidate better than that one?"""

from django.contrib import messages
from django.db.models import Exists
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from arena.access import Ability, actor_of
from arena.models import Arena, Candidate, Team
from arena.views.teams.finding import find_team, for_team
from judges.forms_decision import BaselineForm
from judges.pages.decision import decision_context
from judges.pages.decision_desk import Asked
from judges.services.decisions import choose_baseline, name_for


@for_team()
@require_http_methods(["GET", "HEAD", "POST"])
def decision(request: HttpRequest, team: Team, arena: str) -> HttpResponse:
    """The team's candidates in an arena against its baseline, which is chosen here too."""
    actor = actor_of(request)
    submits = Exists(actor.teams_with(Ability.SUBMIT).filter(pk=team.pk))
    arenas = Arena.objects.visible_to(actor).annotate(team_submits=submits)
    found = get_object_or_404(arenas, slug=arena)
    if request.method == "POST":
        return _choose(request, team, found)
    context = decision_context(team, found, Asked.of(request.GET.dict()))
    may_submit = actor.is_operator or bool(vars(found)["team_submits"])
    # Members may judge in their own arenas whatever they may submit, and in nobody else's.
    is_theirs = may_submit and found.team_id == team.pk
    context |= {"may_submit": may_submit, "may_order": is_theirs, "may_manage": is_theirs}
    return render(request, "judges/decision.html", context)


def _choose(request: HttpRequest, team: Team, arena: Arena) -> HttpResponse:
    find_team(request, team.slug, Ability.SUBMIT)
    form = BaselineForm(request.POST)
    there = Candidate.objects.revealed().filter(arena=arena)
    if form.is_valid():
        candidate = get_object_or_404(there, pk=form.cleaned_data["candidate"])
        choose_baseline(
            team=team, arena=arena, candidate=candidate, by=actor_of(request), now=timezone.now()
        )
        name = name_for(team, arena, candidate)
        messages.success(request, f"The others are measured against {name} now.")
    else:
        messages.error(request, "Choose a candidate to measure the others against.")
    return redirect("decision", team.slug, arena.slug)
