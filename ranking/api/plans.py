"""The planner: how many prompts it takes to find a difference."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.api.core.errors import BadParameter
from arena.api.core.schema import operation
from arena.api.core.views import ApiEndpoint
from ranking.stats.claim import LONGEST_PLAN, plan

USUAL = {"share": 0.65, "power": 0.8, "ties": 0.0}


class PlanShown(serializers.Serializer[Any]):
    """How many prompts a judge has to judge once each."""

    share = serializers.FloatField()
    power = serializers.FloatField()
    ties = serializers.FloatField()
    registered = serializers.IntegerField(
        allow_null=True,
        help_text="If their number is fixed before the first, with five looks; null above "
        f"{LONGEST_PLAN:,}.",
    )
    watched = serializers.IntegerField(
        allow_null=True, help_text="If one looks after each; null above the same number."
    )


class OnePlan(ApiEndpoint):
    tag = "Decisions"

    @operation(
        "retrieve_plan",
        "Plan how many prompts find a difference",
        answer=PlanShown,
        shown=USUAL | {"registered": 90, "watched": 155},
        parameters=[
            OpenApiParameter(
                "share", float, description="The win rate of decisive verdicts; by default 0.65."
            ),
            OpenApiParameter("power", float, description="How often it is found; by default 0.8."),
            OpenApiParameter("ties", float, description="The share of ties; by default 0."),
        ],
    )
    def get(self, request: Request) -> Response:
        asked = USUAL | {name: _number(name, request) for name in USUAL if name in request.GET}
        try:
            found = plan(asked["share"], asked["power"], asked["ties"])
        except ValueError as error:
            name, _, rest = str(error).partition(" ")
            raise BadParameter(name, f"{rest[0].upper()}{rest[1:]}.") from None
        shown = asked | {"registered": found.registered, "watched": found.watched}
        return Response(PlanShown(shown).data)


def _number(name: str, request: Request) -> float:
    text = request.GET[name]
    try:
        return float(text)
    except ValueError:
        raise BadParameter(name, "Must be a number.") from None
