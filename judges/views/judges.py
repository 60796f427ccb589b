"""The judges' own leaderboard, and everything about one judge."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from arena.models import Arena
from judges.models import Judge
from judges.pages.judges import leaderboard_rows, what_it_is
from judges.pages.measured import newest_of_each_kind
from judges.reports_trust import judge_board, judge_page
from judges.services.steering import may_steer


@require_safe
def leaderboard(request: HttpRequest) -> HttpResponse:
    """Every judge, with how far it can be trusted; juries below, for they are not measured."""
    juries = Judge.objects.filter(protocol=Judge.Protocol.JURY)
    context = {
        "rows": leaderboard_rows(judge_board()),
        "juries": juries.order_by("name"),
        "may_steer": may_steer(request.user),
        "arenas": Arena.objects.revealed().order_by("name"),
    }
    return render(request, "judges/judges.html", context)


@require_safe
def judge(request: HttpRequest, pk: int) -> HttpResponse:
    """What a judge is, and everything that was ever measured of it."""
    one = get_object_or_404(Judge.objects.prefetch_related("members"), pk=pk)
    found = judge_page(one)
    context = {
        "judge": one,
        "found": found,
        "part": found.epochs[0],
        "newest": newest_of_each_kind(found.epochs[0]),
        "has_checks": any(part.checks for part in found.epochs),
        "made_of": what_it_is(one),
        "may_steer": may_steer(request.user),
    }
    return render(request, "judges/judge.html", context)
