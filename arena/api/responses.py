"""A candidate's answers: read by its team, brought in many at a time, generated."""

from typing import Any

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response as Answer

from arena.access import Ability, may_read_texts
from arena.api.bulk import ATOMIC, Kind, ReportShown, bring_in
from arena.api.candidates import OfCandidates
from arena.api.core import parsing
from arena.api.core.endpoint import ListEndpoint
from arena.api.core.fields import Dollars, Given, Rows, Text, yes_or_no
from arena.api.core.permissions import refuse_unless
from arena.api.core.schema import described
from arena.models import Response
from arena.services.uploads import upsert_responses
from arena.uploads import RESPONSES

KIND = Kind("responses", RESPONSES)
ROW = {"prompt_id": "refund-1", "text": "On the page Orders, within 30 days.", "tokens_out": 9}
SHOWN = ROW | {"tokens_in": None, "seconds": None, "cost": None}
REPORT = {"added": 10, "changed": 0, "unchanged": 0, "refused": [], "missing": ["refund-7"]}


class ResponseShown(serializers.ModelSerializer[Response]):
    """An answer; `cost` is in dollars. What is not known is null."""

    prompt_id = serializers.CharField(source="prompt.external_id")
    cost = Dollars(allow_null=True)

    class Meta:
        model = Response
        fields = ["prompt_id", "text", "tokens_in", "tokens_out", "seconds", "cost"]


class ResponseRowGiven(serializers.Serializer[Any]):
    """An answer to bring in, to the prompt with this id, or else with this text."""

    text = Text(allow_blank=False)
    prompt_id = serializers.CharField(max_length=200, required=False)
    prompt = Text(required=False)
    tokens_in = serializers.IntegerField(min_value=0, required=False)
    tokens_out = serializers.IntegerField(min_value=0, required=False)
    seconds = serializers.FloatField(min_value=0, required=False)
    cost = Dollars(required=False)


@extend_schema_field(ResponseRowGiven(many=True))
class ResponseRows(Rows):
    pass


class ResponsesGiven(Given):
    """Up to 10,000 answers."""

    responses = ResponseRows()


class ResponseReportShown(ReportShown):
    """What became of the rows; `missing` are the ids of the prompts still without an answer."""

    missing = serializers.ListField(child=serializers.CharField())


class ResponseFilters(filters.FilterSet):
    prompt_id = filters.CharFilter(
        field_name="prompt__external_id", help_text="To the prompt with this id alone."
    )

    class Meta:
        model = Response
        fields = ["prompt_id"]


class Responses(OfCandidates, ListEndpoint):
    tag = "Responses"
    is_open = False
    abilities = {"POST": Ability.SUBMIT}
    body_limit = parsing.BULK_BODY
    queryset = Response.objects.none()
    filterset_class = ResponseFilters

    @described(
        "list_responses",
        "List the answers of a candidate",
        answer=ResponseShown(many=True),
        shown=SHOWN,
        description="For its own team, and for the arena's team once it is disclosed.",
    )
    def get(self, request: Request, slug: str, pk: int) -> Answer:
        refuse_unless(self.actor, may_read_texts(self.actor, self.candidate))
        rows = Response.objects.revealed().filter(candidate=self.candidate)
        return self.page(rows.select_related("prompt").defer("html"), ResponseShown)

    @described(
        "upsert_responses",
        "Bring in up to 10,000 answers of a candidate",
        body=ResponsesGiven,
        sent={"responses": [ROW]},
        answer=ResponseReportShown,
        shown=REPORT,
        parameters=[ATOMIC],
        description="New ones are added, others are changed while nobody has compared them. Rows "
        "that cannot go in are listed; all others go in together.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Answer:
        self.require_change()
        candidate, rows = self.candidate, self.given(ResponsesGiven)["responses"]
        atomic = yes_or_no(request, "atomic")
        report = bring_in(
            KIND,
            rows,
            upsert=lambda good, bad: upsert_responses(
                candidate=candidate, rows=good, unread=bad, by=self.actor, atomic=atomic
            ),
        )
        return Answer(ResponseReportShown(report).data)
