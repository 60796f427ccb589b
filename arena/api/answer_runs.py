"""One run that generates a candidate's answers: how it stands, and what may be done to it."""

from functools import cached_property
from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability, may_change, may_read_texts
from arena.answers import steering
from arena.api.answers import SHOWN, TAG, AnswerRunShown, shown_to
from arena.api.core.endpoint import Endpoint
from arena.api.core.fields import Dollars, Given
from arena.api.core.permissions import refuse_unless
from arena.api.core.schema import described
from arena.models import Arena, Candidate, Run
from arena.tasks import ring_answers
from arena.views.bells import ring_on_commit


class OfAnswerRun(Endpoint):
    """Whatever is about one run of answers in an arena that the actor may see."""

    tag = TAG
    is_open = False
    queryset = Run.objects.none()

    @cached_property
    def run(self) -> Run:
        """The run that the path names."""
        seen = Arena.objects.visible_to(self.actor)
        runs = Run.objects.of_answers().filter(arena__in=seen)
        runs = runs.select_related("arena", "team", "candidate__arena")
        found: Run = get_object_or_404(runs, pk=self.kwargs["pk"])
        return found

    @property
    def candidate(self) -> Candidate:
        """The candidate whose answers they are."""
        assert self.run.candidate is not None, "the database refuses a run of answers without"
        return self.run.candidate

    def shown(self) -> Response:
        """Answer with the run as it stands."""
        shown = shown_to(self.actor, self.candidate)
        return Response(shown(Run.objects.get(pk=self.run.pk)).data)


class OneAnswerRun(OfAnswerRun):
    @described(
        "retrieve_answer_run",
        "Retrieve a run of answers as it stands",
        answer=AnswerRunShown,
        shown=SHOWN,
        description="Ask again, with the ETag, until `state` is done, cancelled or paused.",
    )
    def get(self, request: Request, pk: int) -> Response:
        refuse_unless(self.actor, may_read_texts(self.actor, self.candidate))
        return self.shown()


class Steering(OfAnswerRun):
    """Whatever changes a run: for who may have the candidate's answers generated."""

    abilities = {"POST": Ability.SUBMIT}

    def steer(self, action: Any, **how: Any) -> Response:
        """Do `action` to the run, and answer with how it stands then."""
        refuse_unless(self.actor, may_change(self.actor, self.candidate))
        action(run=self.run, by=self.actor, **how)
        ring_on_commit(ring_answers)
        return self.shown()


class Pause(Steering):
    @described(
        "pause_answer_run",
        "Pause a run of answers",
        answer=AnswerRunShown,
        shown=SHOWN | {"state": "paused", "pause_reason": "Paused by the team."},
        description="Calls that are under way end as they will.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.steer(steering.pause)


class AnswerResumeGiven(Given):
    """Another cap, where the run is to have one."""

    cap = Dollars(required=False, allow_null=True)


class Resume(Steering):
    @described(
        "resume_answer_run",
        "Let a paused run of answers go on",
        body=AnswerResumeGiven,
        sent={"cap": 1.0},
        answer=AnswerRunShown,
        shown=SHOWN | {"cap": 1.0},
    )
    def post(self, request: Request, pk: int) -> Response:
        cap: int | None = self.given(AnswerResumeGiven).get("cap")
        return self.steer(steering.resume, cap=cap, now=timezone.now())


class Cancel(Steering):
    @described(
        "cancel_answer_run",
        "Cancel a run of answers",
        answer=AnswerRunShown,
        shown=SHOWN | {"state": "cancelled", "closed_at": "2026-11-22T10:00:00Z"},
        description="Its answers so far stay.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.steer(steering.cancel, now=timezone.now())


class Retry(Steering):
    @described(
        "retry_answer_run",
        "Ask again what failed in a run of answers that is through",
        answer=AnswerRunShown,
        shown=SHOWN,
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.steer(steering.ask_failures_again, now=timezone.now())
