"""One run of judges: how it stands, and what may be done to it."""

from functools import cached_property

from django.shortcuts import get_object_or_404
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability
from arena.api.core.endpoint import BY_LINK
from arena.api.core.schema import described
from arena.api.steering import OfRun, ResumeGiven
from arena.models import Run
from judges.api.orders import TAG
from judges.api.shown import REPORT, RunReportShown, report_of
from judges.pages.runs import runs_of_judges
from judges.services import steering
from judges.views.bells import ring_on_commit


class OfJudgeRun(OfRun):
    """Whatever is about one run of judges in an arena that the actor may see.

    Who may have judges asked for the arena's team steers it.
    """

    tag = TAG
    steering = steering

    @cached_property
    def run(self) -> Run:
        runs = runs_of_judges().filter(arena__in=self.arenas()).select_related("arena", "team")
        found: Run = get_object_or_404(runs, pk=self.kwargs["pk"])
        return found

    def shown(self) -> Response:
        return Response(report_of(self.run, timezone.now(), self.actor))

    def require_steering(self) -> None:
        self.require(Ability.JUDGE, self.run.in_arena.team_id)

    def ring(self) -> None:
        ring_on_commit()


class OneRun(OfJudgeRun):
    @described(
        "retrieve_judge_run",
        "Retrieve a run of judges as it stands",
        answer=RunReportShown,
        shown=REPORT,
        description="Ask again, with the ETag, until `state` is done, cancelled or paused.",
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        return self.shown()


class RunOfArena(OneRun):
    @described(
        "retrieve_judge_run_of_arena",
        "Retrieve an arena's run of judges as it stands",
        answer=RunReportShown,
        shown=REPORT,
        description=BY_LINK,
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        return super().get(request, pk, slug)


class Steered(OfJudgeRun):
    abilities = {"POST": Ability.JUDGE}


class Pause(Steered):
    @described(
        "pause_judge_run",
        "Pause a run of judges",
        answer=RunReportShown,
        shown=REPORT | {"state": "paused", "pause_reason": "Paused by the team."},
        description="Calls that are under way end as they will.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.pause()


class Resume(Steered):
    @described(
        "resume_judge_run",
        "Let a paused run of judges go on",
        body=ResumeGiven,
        sent={"cap": 4.0},
        answer=RunReportShown,
        shown=REPORT | {"cap": 4.0},
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.resume()


class Cancel(Steered):
    @described(
        "cancel_judge_run",
        "Cancel a run of judges",
        answer=RunReportShown,
        shown=REPORT | {"state": "cancelled", "closed_at": "2026-11-22T10:00:00Z"},
        description="Its verdicts so far stay.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.cancel()


class Retry(Steered):
    @described(
        "retry_judge_run",
        "Ask again what failed in a run of judges that is through",
        answer=RunReportShown,
        shown=REPORT,
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.retry()
