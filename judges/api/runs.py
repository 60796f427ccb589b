"""One run of judges: how it stands, and what may be done to it."""

from functools import cached_property
from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability
from arena.api.core.endpoint import Endpoint
from arena.api.core.fields import Dollars, Given
from arena.api.core.schema import described
from arena.models import Arena, Run
from judges.api.orders import TAG
from judges.api.shown import REPORT, RunReportShown, report_of
from judges.pages.runs import runs_of_judges
from judges.services import steering
from judges.views.bells import ring_on_commit


class OfRun(Endpoint):
    """Whatever is about one run of judges in an arena that the actor may see."""

    tag = TAG
    queryset = Run.objects.none()

    @cached_property
    def run(self) -> Run:
        """The run that the path names."""
        seen = Arena.objects.visible_to(self.actor)
        runs = runs_of_judges().filter(arena__in=seen).select_related("arena", "team")
        found: Run = get_object_or_404(runs, pk=self.kwargs["pk"])
        return found

    def shown(self) -> Response:
        """Answer with the run as it stands."""
        return Response(report_of(self.run, timezone.now()))


class OneRun(OfRun):
    @described(
        "retrieve_judge_run",
        "Retrieve a run of judges as it stands",
        answer=RunReportShown,
        shown=REPORT,
        description="Ask again, with the ETag, until `state` is done, cancelled or paused.",
    )
    def get(self, request: Request, pk: int) -> Response:
        return self.shown()


class Steering(OfRun):
    """Whatever changes a run: for who may have judges asked for the arena's team."""

    abilities = {"POST": Ability.JUDGE}

    def steer(self, action: Any, **how: Any) -> Response:
        """Do `action` to the run, and answer with how it stands then."""
        self.require(Ability.JUDGE, self.run.in_arena.team_id)
        action(run=self.run, by=self.actor, **how)
        ring_on_commit()
        return self.shown()


class Pause(Steering):
    @described(
        "pause_judge_run",
        "Pause a run of judges",
        answer=RunReportShown,
        shown=REPORT | {"state": "paused", "pause_reason": "Paused by the team."},
        description="Calls that are under way end as they will.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.steer(steering.pause)


class ResumeGiven(Given):
    """Another cap, where the run is to have one."""

    cap = Dollars(required=False, allow_null=True)


class Resume(Steering):
    @described(
        "resume_judge_run",
        "Let a paused run of judges go on",
        body=ResumeGiven,
        sent={"cap": 4.0},
        answer=RunReportShown,
        shown=REPORT | {"cap": 4.0},
    )
    def post(self, request: Request, pk: int) -> Response:
        cap = self.given(ResumeGiven).get("cap")
        return self.steer(steering.resume, cap=cap, now=timezone.now())


class Cancel(Steering):
    @described(
        "cancel_judge_run",
        "Cancel a run of judges",
        answer=RunReportShown,
        shown=REPORT | {"state": "cancelled", "closed_at": "2026-11-22T10:00:00Z"},
        description="Its verdicts so far stay.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.steer(steering.cancel, now=timezone.now())


class Retry(Steering):
    @described(
        "retry_judge_run",
        "Ask again what failed in a run of judges that is through",
        answer=RunReportShown,
        shown=REPORT,
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.steer(steering.ask_failures_again, now=timezone.now())
