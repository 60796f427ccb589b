"""Runs of judges in an arena: listed, quoted and ordered."""

from typing import Any

from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import OpenApiExample, OpenApiRequest, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability, may_read_spending
from arena.api.core.endpoint import ArenaEndpoint, ListEndpoint
from arena.api.core.fields import Dollars, Given
from arena.api.core.problems import Unprocessable
from arena.api.core.schema import described
from arena.api.steering import RunFilters
from arena.models import Arena, Candidate, Run
from judges.api.shown import (
    JUDGE,
    QUOTE,
    REPORT,
    RUN,
    QuoteShown,
    RunReportShown,
    RunShown,
    report_of,
)
from judges.forms import ORDER_POLICIES, PAIRS
from judges.pages.runs import runs_in
from judges.services.ordering import order_run
from judges.services.orders import MOST_JUDGES, Order, prepare_order
from judges.services.planning import Wanted
from judges.services.quoting import Quote, quote_for
from judges.services.registering import Switches, spec_named
from judges.views.bells import ring_on_commit

TAG = "Judges"
MOST_PER_PAIR = 10_000
MOST_CANDIDATES = 1000
LARGEST_ID = 2**63 - 1
NO_CAP = "Say what the run may cost at most, in dollars."
SENT = {"judges": [JUDGE], "candidates": [17, 12], "per_pair": 5, "cap": 2.0}


class JudgingGiven(Given):
    """An order. Several judges are a jury."""

    judges = serializers.ListField(
        child=serializers.CharField(max_length=300),
        min_length=1,
        max_length=MOST_JUDGES,
        help_text="Each by its name here, or as endpoint:model@rubric.",
    )
    candidates = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=LARGEST_ID),
        min_length=2,
        max_length=MOST_CANDIDATES,
        required=False,
        help_text="Their ids: only pairs of two of them are judged. All unless said.",
    )
    pairs = serializers.ChoiceField(choices=PAIRS, default="all")
    again = serializers.BooleanField(
        default=False,
        help_text="Buy pairs that the board tells apart already, too. Two candidates alone are "
        "bought unless their decision is known already.",
    )
    per_pair = serializers.IntegerField(min_value=1, max_value=MOST_PER_PAIR, default=5)
    quorum = serializers.IntegerField(
        min_value=1,
        max_value=MOST_JUDGES,
        required=False,
        allow_null=True,
        help_text="How many verdicts a jury needs; more than half unless said.",
    )
    own_family = serializers.BooleanField(
        default=False, help_text="Let judges judge answers of their own model family."
    )
    order_policy = serializers.ChoiceField(choices=ORDER_POLICIES, default="abstain")
    length_neutral = serializers.BooleanField(required=False, allow_null=True)
    soft = serializers.BooleanField(
        default=False, help_text="Record probabilities, where the endpoint gives them."
    )
    unpinned = serializers.BooleanField(
        default=False, help_text="Allow a model name that may move."
    )
    cap = Dollars(required=False, allow_null=True)
    dry_run = serializers.BooleanField(default=False, help_text="Quote, and order nothing.")


class JudgeRuns(ArenaEndpoint, ListEndpoint):
    tag = TAG
    abilities = {"POST": Ability.JUDGE}
    newest_first = True
    queryset = Run.objects.none()
    filterset_class = RunFilters

    def get_serializer_context(self) -> dict[str, Any]:
        told = may_read_spending(self.actor, self.arena)
        return {**super().get_serializer_context(), "sees_money": told}

    @described(
        "list_judge_runs",
        "List an arena's runs of judges, newest first",
        answer=RunShown(many=True),
        shown=RUN,
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(runs_in(self.arena), RunShown)

    @extend_schema(
        operation_id="order_judges",
        summary="Order votes from judges, or ask what they would cost",
        description="With `dry_run` it answers with a quote and writes nothing. Else the run "
        "begins in the background and never spends more than `cap`, which comes out of the team's "
        "budget. Where all was judged already, the problem's type ends in `nothing-to-do`.",
        request={
            "application/json": OpenApiRequest(
                JudgingGiven, examples=[OpenApiExample("A body", value=SENT)]
            )
        },
        responses={
            200: OpenApiResponse(
                QuoteShown,
                description="The quote, and nothing was ordered.",
                examples=[OpenApiExample("A quote", value=QUOTE)],
            ),
            201: OpenApiResponse(
                RunReportShown,
                description="The run that was ordered.",
                examples=[OpenApiExample("A run", value=REPORT)],
            ),
        },
    )
    def post(self, request: Request, slug: str) -> Response:
        arena = self.arena
        self.require(Ability.JUDGE, arena.team_id)
        given = self.given(JudgingGiven)
        order = _prepared(arena, given)
        if given["dry_run"]:
            return Response(QuoteShown(quote_for(order)).data)
        cap: int | None = given.get("cap")
        _check_cap(quote_for(order), cap)
        now = timezone.now()
        run = order_run(order=order, cap=cap, now=now, by=self.actor)
        ring_on_commit()
        place = reverse("api_judge_run", args=[run.pk])
        return Response(report_of(run, now, self.actor), status=201, headers={"Location": place})


def _prepared(arena: Arena, given: dict[str, Any]) -> Order:
    """Work out an order; raises JudgeRefused and Unprocessable."""
    names, quorum = given["judges"], given.get("quorum")
    if quorum and quorum > len(names):
        raise _blamed("quorum", "More verdicts than there are judges can never come together.")
    switches = Switches(
        order_policy=given["order_policy"],
        unpinned=given["unpinned"],
        length_neutral=given.get("length_neutral"),
        soft=given["soft"],
    )
    chosen = _candidates(arena, given.get("candidates", []))
    wanted = Wanted(given["per_pair"], given["pairs"], given["again"], candidates=chosen)
    return prepare_order(
        arena=arena,
        specs=[spec_named(name, switches) for name in names],
        wanted=wanted,
        own_family=given["own_family"],
        quorum=quorum,
    )


def _candidates(arena: Arena, ids: list[int]) -> frozenset[int]:
    """The candidates that are named; each must be one that can still be judged here."""
    named = frozenset(ids)
    there = Candidate.objects.active().filter(arena=arena, pk__in=named)
    missing = named - set(there.values_list("pk", flat=True))
    if missing:
        said = ", ".join(map(str, sorted(missing)))
        raise _blamed("candidates", f"Not active candidates of this arena: {said}.")
    if len(named) == 1:
        raise _blamed("candidates", "Name two different candidates, or more.")
    return named


def _check_cap(quote: Quote, cap: int | None) -> None:
    """The service says it too, in the words of its command."""
    if quote.worst and cap is None:
        raise _blamed("cap", NO_CAP)


def _blamed(field: str, sentence: str) -> Unprocessable:
    return Unprocessable(sentence, [{"pointer": f"#/{field}", "detail": sentence}])
