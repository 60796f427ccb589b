"""The votes beneath the boards, as battles: who met whom, and who won."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from django_filters.fields import IsoDateTimeField
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.api.core.endpoint import ArenaEndpoint, ListEndpoint
from arena.api.core.schema import described
from arena.models import Outcome, Rater, Vote
from ranking.api.rows import battle, with_battles
from ranking.models import Raters
from ranking.votes import KINDS

TAG = "Battles"
LARGEST_ID = 2**63 - 1
SHOWN = {
    "comparison": "1b671a64-40d5-491e-99b0-da01ff1f3341",
    "prompt": "p-7",
    "category": "refunds",
    "left_id": 17,
    "left": "short-answers",
    "right_id": 12,
    "right": "long-answers",
    "outcome": "left",
    "preference": None,
    "rater_kind": "person",
    "rater": "rater-4f1c09ab52d3e871",
    "cast_at": "2026-11-22T09:00:00+00:00",
}


class BattleShown(serializers.Serializer[Vote]):
    """One vote that counts. A person has a pseudonym of their own in each arena."""

    comparison = serializers.UUIDField(help_text="Its key, by which its page is found.")
    prompt = serializers.CharField(allow_null=True, help_text="Its id as the team gave it.")
    category = serializers.CharField()
    left_id = serializers.IntegerField()
    left = serializers.CharField()
    right_id = serializers.IntegerField()
    right = serializers.CharField()
    outcome = serializers.ChoiceField(choices=Outcome.choices)
    preference = serializers.FloatField(
        allow_null=True, help_text="A soft verdict: how probably the left answer is better."
    )
    rater_kind = serializers.ChoiceField(choices=Rater.Kind.choices)
    rater = serializers.CharField()
    cast_at = serializers.DateTimeField()

    def to_representation(self, vote: Vote) -> dict[str, Any]:
        return battle(vote)


class IdFilter(filters.Filter):
    """An id, which the database can hold."""

    field_class = forms.IntegerField

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=1, max_value=LARGEST_ID, **options)


class Moment(IsoDateTimeField):
    """A time that is one in UTC too, where the calendar ends on other days."""

    def clean(self, value: Any) -> datetime | None:
        found: datetime | None = super().clean(value)
        try:
            return found and found.astimezone(UTC)
        except OverflowError:
            raise forms.ValidationError("This time cannot be told in UTC.") from None


class MomentFilter(filters.IsoDateTimeFilter):
    field_class = Moment


class BattleFilters(filters.FilterSet):
    category = filters.CharFilter(
        field_name="comparison__prompt__category", help_text="On prompts of this category alone."
    )
    candidate = IdFilter(method="of_candidate", help_text="With this candidate, by its id.")
    raters = filters.ChoiceFilter(
        choices=Raters.choices, method="of_raters", help_text="Of people, judges or juries alone."
    )
    since = MomentFilter(
        field_name="cast_at", lookup_expr="gte", help_text="Cast at this time or later."
    )

    class Meta:
        model = Vote
        fields = ["category", "candidate", "raters", "since"]

    @extend_schema_field(OpenApiTypes.INT64)
    def of_candidate(self, rows: QuerySet[Vote], field: str, value: int) -> QuerySet[Vote]:
        return rows.filter(Q(comparison__left=value) | Q(comparison__right=value))

    def of_raters(self, rows: QuerySet[Vote], field: str, value: str) -> QuerySet[Vote]:
        return rows.filter(rater__kind=KINDS[value])


class Battles(ArenaEndpoint, ListEndpoint):
    tag = TAG
    filterset_class = BattleFilters
    queryset = Vote.objects.none()

    @described(
        "list_battles",
        "List the votes that count in an arena, in the order in which they came",
        answer=BattleShown(many=True),
        shown=SHOWN,
        description="What all boards are made of. Skips and voided votes are not among them.",
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(with_battles(self.arena.votes.live()), BattleShown)
