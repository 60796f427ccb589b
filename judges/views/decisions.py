"""A team's decision page: its candidates in an arena compared with a baseline."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.contrib import messages
from django.db.models import Exists
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from arena.actors import TeamPermission, actor_of
from arena.models import Arena, Candidate, Team
from arena.permissions import visible_arenas
from arena.views.teams import find_team, for_team
from judges.decision_report import DecisionQuery, choose_next_step, decision_context
from judges.forms import BaselineForm
from judges.models import Experiment
from judges.services.decisions import choose_baseline, name_for
from ranking.comparison import load_difference_boards
from ranking.models import Raters, Snapshot
from ranking.reasons import NamedReason, count_reasons
from ranking.views.sequence_chart import ShareAt, sequence_chart

MOST_FAULTS = 6  # of a candidate, on the decision page


@for_team()
@require_http_methods(["GET", "HEAD", "POST"])
def decision(request: HttpRequest, team: Team, arena: str) -> HttpResponse:
    """Show the team's candidates in an arena compared with its baseline; a POST changes that."""
    actor = actor_of(request)
    submits = Exists(actor.teams_with(TeamPermission.SUBMIT).filter(pk=team.pk))
    arenas = visible_arenas(actor).annotate(team_submits=submits)
    in_arena: Any = get_object_or_404(arenas, slug=arena)  # with `team_submits`
    if request.method == "POST":
        return _choose_baseline(request, team, in_arena)
    context = decision_context(team, in_arena, DecisionQuery.of(request.GET.dict()))
    context |= _checks_and_faults(context)
    can_submit = actor.is_operator or in_arena.team_submits
    # Members may start judge runs in their own arenas only, wherever they may submit.
    is_own = can_submit and in_arena.team_id == team.pk
    context |= {"can_submit": can_submit, "can_order": is_own}
    compared = [one.pk for name in ("focus", "baseline") if (one := context.get(name))]
    promotions = Experiment.objects.filter(promoted__in=compared, arena__team=team)
    context["promotions"] = promotions.select_related("arena", "promoted").order_by("-pk")
    if context.get("focus"):
        context["next_step"] = choose_next_step(context, can_submit, is_own)
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


@lru_cache(maxsize=256)
def _read_checks_and_faults(
    snapshot: int, published_at: datetime, focus: int, baseline: int
) -> tuple[tuple[ShareAt, ...], tuple[NamedReason, ...]]:
    """How the claim stood as votes came in, and the faults named.

    Cached, because a snapshot never changes; `published_at` distinguishes snapshots of different
    databases. Both are empty once the snapshot has been replaced.
    """
    row = Snapshot.objects.select_related("board__arena").filter(pk=snapshot).first()
    if row is None:
        return (), ()
    published = row.board
    board = load_difference_boards(published.arena, [row], (focus, baseline))[snapshot]
    checks = tuple(
        ShareAt(votes, claim.win_rate, claim.low, claim.high, claim.is_decided)
        for votes, claim in board.claims_over_time(focus, baseline)
        if claim.win_rate is not None and claim.low is not None and claim.high is not None
    )
    judged = published.raters in (Raters.JUDGES, Raters.JURIES)
    reasons = [] if judged else count_reasons(published.arena)
    faults = [
        reason
        for reason in reasons
        if (reason.candidate, reason.category) == (focus, published.category)
        and not reason.is_strength
    ]
    return checks, tuple(sorted(faults, key=lambda fault: -fault.named)[:MOST_FAULTS])


def _checks_and_faults(context: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows in addition to `decision_context`: the checks so far, and the raters'
    reasons.
    """
    board, focus, baseline = context["board"], context.get("focus"), context.get("baseline")
    if board is None or focus is None or baseline is None:
        return {}
    snapshot = board.snapshot
    checks, faults = _read_checks_and_faults(
        snapshot.pk, snapshot.published_at, focus.pk, baseline.pk
    )
    return {"sequence": sequence_chart(checks), "faults": faults}
