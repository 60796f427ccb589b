"""The API of runs: the base of all runs' endpoints, and the runs that generate answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiRequest,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import Actor, TeamPermission
from arena.api.candidates import OfCandidates
from arena.api.core.permissions import refuse_unless
from arena.api.core.schema import operation
from arena.api.core.serializers import Dollars, StrictSerializer
from arena.api.core.views import ListEndpoint, NumberedEndpoint
from arena.generation_runs import AnswerOrder, errors_in, order_answers, quote_answers
from arena.models import Candidate, Run
from arena.models.runs import RunErrors
from arena.permissions import can_change, can_read_money, can_read_texts, visible_answer_runs
from arena.services import runs
from arena.tasks import enqueue_on_commit


class RunFilters(filters.FilterSet):
    state = filters.ChoiceFilter(choices=Run.State.choices, help_text="The state of a run.")

    class Meta:
        model = Run
        fields = ["state"]


class ResumeGiven(StrictSerializer):
    """A new spending cap, if it is to change."""

    cap = Dollars(required=False, allow_null=True)


class OfRun(NumberedEndpoint, ABC):
    """The base of all endpoints about one run; subclasses choose the runs and who may act."""

    @property
    @abstractmethod
    def run(self) -> Run:
        """The run with the id in the path."""

    @abstractmethod
    def shown(self) -> Response:
        """Return the run's current state."""

    @abstractmethod
    def require_steering(self) -> None:
        """Refuse actors who may not act on the run."""

    def pause(self) -> Response:
        return self._steer(runs.pause)

    def resume(self) -> Response:
        cap = self.validated(ResumeGiven).get("cap")
        return self._steer(runs.resume, cap=cap, now=timezone.now())

    def cancel(self) -> Response:
        return self._steer(runs.cancel, now=timezone.now())

    def retry(self) -> Response:
        return self._steer(runs.retry_failed, now=timezone.now())

    def _steer(self, action: Callable[..., None], **options: Any) -> Response:
        self.require_steering()
        action(run=self.run, by=self.actor, **options)
        enqueue_on_commit()
        return self.shown()


TAG = "Responses"
SHOWN = {
    "id": 4,
    "candidate": 17,
    "state": "open",
    "pause_reason": "",
    "wanted": 10,
    "done": 3,
    "cap": 0.5,
    "expected_cost": 0.11,
    "worst_cost": 0.4,
    "spent": 0.03,
    "uncertain": 0.0,
    "created_at": "2026-11-22T09:00:00Z",
    "closed_at": None,
    "failed": 0,
    "errors": [],
}
QUOTE: dict[str, Any] = {
    "calls": 10,
    "tokens_in": 2100,
    "tokens_out": 3000,
    "expected_cost": 0.11,
    "worst_cost": 0.4,
    "left_out": [],
}
MONEY = ("cap", "expected_cost", "worst_cost", "spent", "uncertain")


class ErrorShown(serializers.Serializer[Any]):
    """A reason why results failed, as the model's server gave it, and how many did."""

    reason = serializers.CharField()
    count = serializers.IntegerField()


class ErrorsShown(serializers.ModelSerializer[Run]):
    """A run with how many of its results `failed`, and why; lists count them once for all runs."""

    failed = serializers.SerializerMethodField()
    # A serializer has `errors` of its own, which stay: fields are taken out of the class.
    errors = serializers.SerializerMethodField()  # type: ignore[assignment]

    count_errors: Callable[[list[int]], dict[int, RunErrors]]

    def get_failed(self, run: Run) -> int:
        return self._errors_of(run).failed

    @extend_schema_field(ErrorShown(many=True))
    def get_errors(self, run: Run) -> list[dict[str, Any]]:
        rows = self._errors_of(run).reasons
        return [{"reason": reason, "count": count} for reason, count in rows]

    def _errors_of(self, run: Run) -> RunErrors:
        return self._found.get(run.pk, RunErrors())

    @cached_property
    def _found(self) -> dict[int, RunErrors]:
        shown: Any = self.instance if self.parent is None else self.parent.instance
        runs = [shown] if isinstance(shown, Run) else shown
        return type(self).count_errors([run.pk for run in runs])


class AnswerRunShown(ErrorsShown):
    """A run that generates answers. Amounts are in dollars.

    `failed` counts prompts that were sent and got no answer; `errors` has the five most frequent
    reasons. For teams other than the candidate's, amounts are null and the reason for a pause is
    empty.
    """

    candidate = serializers.PrimaryKeyRelatedField[Candidate](read_only=True)
    state = serializers.ChoiceField(choices=Run.State.choices)
    wanted = serializers.IntegerField(source="votes_wanted")
    done = serializers.IntegerField(source="votes_done")
    cap = Dollars(allow_null=True)
    expected_cost = Dollars(allow_null=True)
    worst_cost = Dollars(allow_null=True)
    spent = Dollars(source="settled", allow_null=True, help_text="What servers billed.")
    uncertain = Dollars(
        allow_null=True,
        help_text="The most that they may have billed for requests that got no answer.",
    )

    count_errors = staticmethod(errors_in)

    class Meta:
        model = Run
        fields = list(SHOWN)


class RunWithoutMoney(AnswerRunShown):
    """A run without its amounts, and without the reason for a pause, which may contain amounts."""

    def to_representation(self, run: Run) -> dict[str, Any]:
        return super().to_representation(run) | dict.fromkeys(MONEY) | {"pause_reason": ""}


def serializer_for(actor: Actor, candidate: Candidate) -> type[AnswerRunShown]:
    return AnswerRunShown if can_read_money(actor, candidate) else RunWithoutMoney


class AnswerOrderGiven(StrictSerializer):
    """A new run; a free one needs no cap."""

    cap = Dollars(required=False, allow_null=True)
    dry_run = serializers.BooleanField(default=False, help_text="Return a quote and start nothing.")


class AnswerQuoteShown(serializers.Serializer[AnswerOrder]):
    """The size and the cost of a run: expected and worst case."""

    calls = serializers.IntegerField(source="quote.calls", help_text="One for each prompt.")
    tokens_in = serializers.IntegerField(source="quote.tokens_in")
    tokens_out = serializers.IntegerField(source="quote.tokens_out")
    expected_cost = Dollars(source="quote.expected")
    worst_cost = Dollars(source="quote.worst")
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="Prompts that are not sent, with reasons."
    )


class AnswerRuns(OfCandidates, ListEndpoint):
    tag = TAG
    is_open = False
    permissions = {"POST": TeamPermission.SUBMIT}
    newest_first = True
    filterset_class = RunFilters

    @operation(
        "list_answer_runs",
        "List the runs that generate a candidate's answers, newest first",
        answer=AnswerRunShown(many=True),
        shown=SHOWN,
    )
    def get(self, request: Request, slug: str, pk: int) -> Response:
        refuse_unless(self.actor, can_read_texts(self.actor, self.candidate))
        runs = Run.objects.of_answers().filter(candidate=self.candidate)
        return self.page(runs, serializer_for(self.actor, self.candidate))

    @extend_schema(
        operation_id="order_answers",
        summary="Generate a candidate's missing answers, or get a quote",
        description="With `dry_run`, returns a quote and starts nothing. Otherwise, the run works "
        "in the background and never spends more than `cap`; retrieve it to see its progress. If "
        "no answers are missing, the problem's type ends in `nothing-to-do`.",
        request={
            "application/json": OpenApiRequest(
                AnswerOrderGiven, examples=[OpenApiExample("A body", value={"cap": 0.5})]
            )
        },
        responses={
            200: OpenApiResponse(
                AnswerQuoteShown,
                description="The quote. No run was started.",
                examples=[OpenApiExample("A quote", value=QUOTE)],
            ),
            201: OpenApiResponse(
                AnswerRunShown,
                description="The new run.",
                examples=[OpenApiExample("A run", value=SHOWN)],
            ),
        },
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        self.require_change()
        data = self.validated(AnswerOrderGiven)
        if data["dry_run"]:
            order = quote_answers(candidate=self.candidate, by=self.actor)
            return Response(AnswerQuoteShown(order).data)
        cap: Any = data.get("cap")
        run = order_answers(candidate=self.candidate, by=self.actor, cap=cap, now=timezone.now())
        enqueue_on_commit()
        location = reverse("api_answer_run", args=[run.pk])
        return Response(AnswerRunShown(run).data, status=201, headers={"Location": location})


class OfAnswerRun(OfRun):
    """The base of all endpoints about one run that generates answers."""

    tag = TAG
    is_open = False

    @cached_property
    def run(self) -> Run:
        runs = visible_answer_runs(self.actor, self.arenas())
        runs = runs.select_related("arena", "team", "candidate__arena")
        run: Run = get_object_or_404(runs, pk=self.kwargs["pk"])
        return run

    @property
    def candidate(self) -> Candidate:
        assert self.run.candidate is not None, "a database constraint"
        return self.run.candidate

    def shown(self) -> Response:
        serializer = serializer_for(self.actor, self.candidate)
        return Response(serializer(Run.objects.get(pk=self.run.pk)).data)

    def require_steering(self) -> None:
        refuse_unless(self.actor, can_change(self.actor, self.candidate))


class OneAnswerRun(OfAnswerRun):
    @operation(
        "retrieve_answer_run",
        "Retrieve an answer run",
        answer=AnswerRunShown,
        shown=SHOWN,
        description="Poll with the ETag until `state` is done, cancelled or paused.",
    )
    def get(self, request: Request, pk: int) -> Response:
        refuse_unless(self.actor, can_read_texts(self.actor, self.candidate))
        return self.shown()


class AnswerRunAction(OfAnswerRun):
    permissions = {"POST": TeamPermission.SUBMIT}


class PauseAnswerRun(AnswerRunAction):
    @operation(
        "pause_answer_run",
        "Pause an answer run",
        answer=AnswerRunShown,
        shown=SHOWN | {"state": "paused", "pause_reason": "Paused by the team."},
        description="Calls in progress will finish.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.pause()


class ResumeAnswerRun(AnswerRunAction):
    @operation(
        "resume_answer_run",
        "Resume a paused answer run",
        body=ResumeGiven,
        sent={"cap": 1.0},
        answer=AnswerRunShown,
        shown=SHOWN | {"cap": 1.0},
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.resume()


class CancelAnswerRun(AnswerRunAction):
    @operation(
        "cancel_answer_run",
        "Cancel an answer run",
        answer=AnswerRunShown,
        shown=SHOWN | {"state": "cancelled", "closed_at": "2026-11-22T10:00:00Z"},
        description="Answers received so far are kept.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.cancel()


class RetryAnswerRun(AnswerRunAction):
    @operation(
        "retry_answer_run",
        "Retry the failures of a finished answer run",
        answer=AnswerRunShown,
        shown=SHOWN,
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.retry()
