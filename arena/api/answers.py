"""Answers that a candidate's model generates: ordered with a cap, and how that stands."""

from typing import Any

from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiRequest, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability, Actor, may_read_money, may_read_texts
from arena.answers.ordering import order_answers, quote_answers
from arena.answers.quoting import Order
from arena.api.candidates import OfCandidates
from arena.api.core.endpoint import ListEndpoint
from arena.api.core.fields import Dollars, Given
from arena.api.core.permissions import refuse_unless
from arena.api.core.schema import described
from arena.api.steering import RunFilters
from arena.models import Candidate, Run
from arena.tasks import ring_answers
from arena.views.bells import ring_on_commit

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
    "created_at": "2026-11-22T09:00:00Z",
    "closed_at": None,
}
QUOTE: dict[str, Any] = {
    "calls": 10,
    "tokens_in": 2100,
    "tokens_out": 3000,
    "expected_cost": 0.11,
    "worst_cost": 0.4,
    "left_out": [],
}
MONEY = ("cap", "expected_cost", "worst_cost", "spent")


class AnswerRunShown(serializers.ModelSerializer[Run]):
    """A run of answers; money is in dollars, and `spent` what it cost so far at most.

    Other teams than the candidate's are told null for money, and no reason of a pause.
    """

    candidate = serializers.PrimaryKeyRelatedField[Candidate](read_only=True)
    state = serializers.ChoiceField(choices=Run.State.choices)
    wanted = serializers.IntegerField(source="votes_wanted")
    done = serializers.IntegerField(source="votes_done")
    cap = Dollars(allow_null=True)
    expected_cost = Dollars(allow_null=True)
    worst_cost = Dollars(allow_null=True)
    spent = serializers.SerializerMethodField()

    class Meta:
        model = Run
        fields = list(SHOWN)

    def get_spent(self, run: Run) -> float | None:
        return Dollars().to_representation(run.settled + run.uncertain)


class RunWithoutMoney(AnswerRunShown):
    """A run for who may read the answers alone; why it was paused may name amounts too."""

    def to_representation(self, run: Run) -> dict[str, Any]:
        return super().to_representation(run) | dict.fromkeys(MONEY) | {"pause_reason": ""}


def shown_to(actor: Actor, candidate: Candidate) -> type[AnswerRunShown]:
    """How `actor` is shown the runs of `candidate`: their money is its own team's."""
    return AnswerRunShown if may_read_money(actor, candidate) else RunWithoutMoney


class AnswerOrderGiven(Given):
    """An order; what costs nothing needs no cap."""

    cap = Dollars(required=False, allow_null=True)
    dry_run = serializers.BooleanField(default=False, help_text="Quote, and order nothing.")


class AnswerQuoteShown(serializers.Serializer[Order]):
    """What an order would ask and cost: as expected, and at worst."""

    calls = serializers.IntegerField(source="quote.calls", help_text="One for each prompt.")
    tokens_in = serializers.IntegerField(source="quote.tokens_in")
    tokens_out = serializers.IntegerField(source="quote.tokens_out")
    expected_cost = Dollars(source="quote.expected")
    worst_cost = Dollars(source="quote.worst")
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="Which prompts are not asked, and why."
    )


class Answers(OfCandidates, ListEndpoint):
    tag = TAG
    is_open = False
    abilities = {"POST": Ability.SUBMIT}
    newest_first = True
    queryset = Run.objects.none()
    filterset_class = RunFilters

    @described(
        "list_answer_runs",
        "List the runs that generate a candidate's answers, newest first",
        answer=AnswerRunShown(many=True),
        shown=SHOWN,
    )
    def get(self, request: Request, slug: str, pk: int) -> Response:
        refuse_unless(self.actor, may_read_texts(self.actor, self.candidate))
        runs = Run.objects.of_answers().filter(candidate=self.candidate)
        return self.page(runs, shown_to(self.actor, self.candidate))

    @extend_schema(
        operation_id="order_answers",
        summary="Generate the answers that a candidate lacks, or ask what they would cost",
        description="With `dry_run` it answers with a quote and writes nothing. Else the run "
        "works in the background and never spends more than `cap`. Ask for the run to see how it "
        "stands. Where nothing lacks, the problem's type ends in `nothing-to-do`.",
        request={
            "application/json": OpenApiRequest(
                AnswerOrderGiven, examples=[OpenApiExample("A body", value={"cap": 0.5})]
            )
        },
        responses={
            200: OpenApiResponse(
                AnswerQuoteShown,
                description="The quote, and nothing was ordered.",
                examples=[OpenApiExample("A quote", value=QUOTE)],
            ),
            201: OpenApiResponse(
                AnswerRunShown,
                description="The run that was ordered.",
                examples=[OpenApiExample("A run", value=SHOWN)],
            ),
        },
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        self.require_change()
        given = self.given(AnswerOrderGiven)
        if given["dry_run"]:
            order = quote_answers(candidate=self.candidate, by=self.actor)
            return Response(AnswerQuoteShown(order).data)
        cap: Any = given.get("cap")
        run = order_answers(candidate=self.candidate, by=self.actor, cap=cap, now=timezone.now())
        ring_on_commit(ring_answers)
        place = reverse("api_answer_run", args=[run.pk])
        return Response(AnswerRunShown(run).data, status=201, headers={"Location": place})
