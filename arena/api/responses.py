"""The API of a candidate's answers, with bulk upload."""

from typing import Any

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response as Answer

from arena.actors import TeamPermission, can_read_texts
from arena.api.candidates import OfCandidates
from arena.api.core.schema import operation
from arena.api.core.serializers import (
    BULK_BODY,
    Dollars,
    RowsField,
    StrictSerializer,
    Text,
    refuse_unless,
    yes_or_no,
)
from arena.api.core.views import ATOMIC, Kind, ListEndpoint, ReportShown, bring_in
from arena.files.tables import RESPONSES
from arena.models import Response
from arena.services.responses import upsert_responses

KIND = Kind("responses", RESPONSES)
ROW = {"prompt_id": "refund-1", "text": "On the page Orders, within 30 days.", "tokens_out": 9}
SHOWN = ROW | {"tokens_in": None, "seconds": None, "cost": None}
REPORT = {"added": 10, "changed": 0, "unchanged": 0, "refused": [], "missing": ["refund-7"]}


class ResponseShown(serializers.ModelSerializer[Response]):
    """An answer; `cost` is in dollars. Unknown values are null."""

    prompt_id = serializers.CharField(source="prompt.external_id")
    cost = Dollars(allow_null=True)

    class Meta:
        model = Response
        fields = ["prompt_id", "text", "tokens_in", "tokens_out", "seconds", "cost"]


class ResponseRowGiven(serializers.Serializer[Any]):
    """An answer to upload; its prompt is found by `prompt_id`, or else by the prompt's text."""

    text = Text(allow_blank=False)
    prompt_id = serializers.CharField(max_length=200, required=False)
    prompt = Text(required=False)
    tokens_in = serializers.IntegerField(min_value=0, required=False)
    tokens_out = serializers.IntegerField(min_value=0, required=False)
    seconds = serializers.FloatField(min_value=0, required=False)
    cost = Dollars(required=False)
    candidate = serializers.CharField(
        max_length=200,
        required=False,
        help_text="As in an export, whose rows of other candidates are left out.",
    )


@extend_schema_field(ResponseRowGiven(many=True))
class ResponseRows(RowsField):
    pass


class ResponsesGiven(StrictSerializer):
    """Up to 10,000 answers."""

    responses = ResponseRows()


class ResponseReportShown(ReportShown):
    """The result of each row; `missing` lists the ids of the prompts still without an answer."""

    missing = serializers.ListField(child=serializers.CharField())


class ResponseFilters(filters.FilterSet):
    prompt_id = filters.CharFilter(
        field_name="prompt__external_id", help_text="The id of a prompt."
    )

    class Meta:
        model = Response
        fields = ["prompt_id"]


class Responses(OfCandidates, ListEndpoint):
    tag = "Responses"
    is_open = False
    permissions = {"POST": TeamPermission.SUBMIT}
    body_limit = BULK_BODY
    queryset = Response.objects.none()
    filterset_class = ResponseFilters

    @operation(
        "list_responses",
        "List the answers of a candidate",
        answer=ResponseShown(many=True),
        shown=SHOWN,
        description="For the candidate's team, and for the arena's team once it is disclosed.",
    )
    def get(self, request: Request, slug: str, pk: int) -> Answer:
        refuse_unless(self.actor, can_read_texts(self.actor, self.candidate))
        rows = Response.objects.revealed().filter(candidate=self.candidate)
        return self.page(rows.select_related("prompt").defer("html"), ResponseShown)

    @operation(
        "upsert_responses",
        "Upload up to 10,000 answers of a candidate",
        body=ResponsesGiven,
        sent={"responses": [ROW]},
        answer=ResponseReportShown,
        shown=REPORT,
        parameters=[ATOMIC],
        description="New answers are added. Existing ones are changed if not yet compared. "
        "Rows with errors are listed; all others are saved together.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Answer:
        self.require_change()
        candidate, rows = self.candidate, self.validated(ResponsesGiven)["responses"]
        atomic = yes_or_no(request, "atomic")
        report = bring_in(
            KIND,
            rows,
            upsert=lambda good, bad: upsert_responses(
                candidate=candidate, rows=good, unread=bad, by=self.actor, atomic=atomic
            ),
        )
        return Answer(ResponseReportShown(report).data)
