"""One run that generates a candidate's answers: how it stands, and what may be done to it."""

from functools import cached_property

from django.db.models import Q
from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability, may_change, may_read_texts
from arena.answers import steering
from arena.api.answers import SHOWN, TAG, AnswerRunShown, shown_to
from arena.api.core.permissions import refuse_unless
from arena.api.core.schema import described
from arena.api.steering import OfRun, ResumeGiven
from arena.models import Candidate, Run
from arena.tasks import ring_answers
from arena.views.bells import ring_on_commit


class OfAnswerRun(OfRun):
    """Whatever is about one run of answers in an arena that the actor may see, or that they pay.

    Who may have the candidate's answers generated steers it.
    """

    tag = TAG
    is_open = False
    steering = steering

    @cached_property
    def run(self) -> Run:
        # What a team pays for is its own, whatever becomes of the arena.
        found = Q(arena__in=self.arenas()) | Q(team__in=self.actor.teams_seen())
        runs = Run.objects.of_answers().filter(found)
        runs = runs.select_related("arena", "team", "candidate__arena")
        run: Run = get_object_or_404(runs, pk=self.kwargs["pk"])
        return run

    @property
    def candidate(self) -> Candidate:
        """The candidate whose answers they are."""
        assert self.run.candidate is not None, "the database refuses a run of answers without"
        return self.run.candidate

    def shown(self) -> Response:
        shown = shown_to(self.actor, self.candidate)
        return Response(shown(Run.objects.get(pk=self.run.pk)).data)

    def require_steering(self) -> None:
        refuse_unless(self.actor, may_change(self.actor, self.candidate))

    def ring(self) -> None:
        ring_on_commit(ring_answers)


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


class Steered(OfAnswerRun):
    abilities = {"POST": Ability.SUBMIT}


class Pause(Steered):
    @described(
        "pause_answer_run",
        "Pause a run of answers",
        answer=AnswerRunShown,
        shown=SHOWN | {"state": "paused", "pause_reason": "Paused by the team."},
        description="Calls that are under way end as they will.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.pause()


class Resume(Steered):
    @described(
        "resume_answer_run",
        "Let a paused run of answers go on",
        body=ResumeGiven,
        sent={"cap": 1.0},
        answer=AnswerRunShown,
        shown=SHOWN | {"cap": 1.0},
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.resume()


class Cancel(Steered):
    @described(
        "cancel_answer_run",
        "Cancel a run of answers",
        answer=AnswerRunShown,
        shown=SHOWN | {"state": "cancelled", "closed_at": "2026-11-22T10:00:00Z"},
        description="Its answers so far stay.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.cancel()


class Retry(Steered):
    @described(
        "retry_answer_run",
        "Ask again what failed in a run of answers that is through",
        answer=AnswerRunShown,
        shown=SHOWN,
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.retry()
