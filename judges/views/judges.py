"""The judges' own leaderboard, and everything about one judge."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from arena.access import actor_of
from arena.models import Arena
from judges.models import Judge
from judges.pages.judges import leaderboard_rows, what_it_is
from judges.pages.measured import newest_of_each_kind
from judges.reports_trust import judge_board, judge_page


@require_safe
def leaderboard(request: HttpRequest) -> HttpResponse:
    """Every judge, with how far it can be trusted; juries below, for they are not measured."""
    actor = actor_of(request)
    juries = Judge.objects.listed_for(actor).filter(protocol=Judge.Protocol.JURY)
    arenas = Arena.objects.listed_for(actor).order_by("name")
    theirs = arenas if actor.is_operator else arenas.filter(team__in=actor.teams_with("judge"))
    context = {
        "rows": leaderboard_rows(judge_board(actor)),
        "juries": juries.order_by("name"),
        "is_operator": actor.is_operator,
        "arenas": arenas,
        "steered": theirs,
    }
    return render(request, "judges/judges.html", context)


@require_safe
def judge(request: HttpRequest, pk: int) -> HttpResponse:
    """What a judge is, and everything that was ever measured of it."""
    actor = actor_of(request)
    listed = Judge.objects.listed_for(actor)
    one = get_object_or_404(listed.prefetch_related("members"), pk=pk)
    found = judge_page(one, actor)
    context = {
        "judge": one,
        "found": found,
        "part": found.epochs[0],
        "newest": newest_of_each_kind(found.epochs[0]),
        "has_checks": any(part.checks for part in found.epochs),
        "made_of": what_it_is(one),
        "is_operator": actor.is_operator,
    }
    return render(request, "judges/judge.html", context)
