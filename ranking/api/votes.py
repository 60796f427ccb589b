"""The votes that leaderboards count, as battles."""

from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from django_filters.fields import IsoDateTimeField
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.api.core.parameters import yes_or_no
from arena.api.core.schema import operation
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from arena.models import Outcome, Rater, Vote
from arena.permissions import FieldVisibility
from ranking.board_data import LARGEST_ID
from ranking.candidate_votes import ON_THE_LEFT, ON_THE_RIGHT, RESULTS
from ranking.exported_votes import battle, texts_of, with_battles, with_texts
from ranking.models import Raters
from ranking.votes import RATERS as KIND_OF_RATERS

HTML = "text/html"
TAG = "Battles"
SHOWN = {
    "comparison": "1b671a64-40d5-491e-99b0-da01ff1f3341",
    "prompt": "p-7",
    "category": "refunds",
    "document": "returns-policy",
    "left_id": 17,
    "left": "short-answers",
    "right_id": 12,
    "right": "long-answers",
    "outcome": "left",
    "preference": None,
    "rater_kind": "person",
    "rater": "rater-4f1c09ab52d3e871",
    "cast_at": "2026-11-22T09:00:00+00:00",
    "texts": {
        "prompt": "How do I get my money back?",
        "left": "Ask on the page Orders within 30 days.",
        "right": "That depends.",
    },
}
TEXTS = OpenApiParameter(
    "texts",
    bool,
    description="Include the prompt and both answers. An answer is null if you may not know who "
    "wrote it. Unless the arena's answers are open, only the arena's team, the candidate's team "
    "and the vote's rater may, until the prompt is archived.",
)
NO_CANDIDATE = "Add candidate=<id> to the query."
SAME_CANDIDATE = "The opponent must be another candidate."


class TextsShown(serializers.Serializer[Any]):
    """The prompt and both answers, in Markdown."""

    prompt = serializers.CharField(allow_null=True)
    left = serializers.CharField(allow_null=True)
    right = serializers.CharField(allow_null=True)


class BattleShown(serializers.Serializer[Vote]):
    """One vote that counts. People have a different pseudonym in each arena."""

    comparison = serializers.UUIDField(
        help_text="The key in the address of its page; another one if the rater saw no names."
    )
    prompt = serializers.CharField(allow_null=True, help_text="Its id, as set by the team.")
    category = serializers.CharField()
    document = serializers.CharField(help_text="What the prompt comes from; empty if not given.")
    left_id = serializers.IntegerField()
    left = serializers.CharField()
    right_id = serializers.IntegerField()
    right = serializers.CharField()
    outcome = serializers.ChoiceField(choices=Outcome.choices)
    preference = serializers.FloatField(
        allow_null=True, help_text="A soft verdict: the probability that the left answer is better."
    )
    rater_kind = serializers.ChoiceField(choices=Rater.Kind.choices)
    rater = serializers.CharField()
    cast_at = serializers.DateTimeField()
    texts = TextsShown(allow_null=True, help_text="Null without texts=true.")

    def to_representation(self, vote: Vote) -> dict[str, Any]:
        reader: FieldVisibility | None = self.context["view"].text_reader
        return battle(vote) | {"texts": texts_of(vote, reader) if reader else None}


class IdFilter(filters.Filter):
    """An id within the range of the database."""

    field_class = forms.IntegerField

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=1, max_value=LARGEST_ID, **options)


class UtcDateTimeField(IsoDateTimeField):
    """A time that can be converted to UTC, unlike some near the ends of the calendar."""

    def clean(self, value: Any) -> datetime | None:
        at: datetime | None = super().clean(value)
        try:
            return at and at.astimezone(UTC)
        except OverflowError:
            raise forms.ValidationError("This time is out of range in UTC.") from None


class UtcDateTimeFilter(filters.IsoDateTimeFilter):
    field_class = UtcDateTimeField


class BattleForm(forms.Form):
    """Requires a candidate for filters that depend on one."""

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        for name in ("opponent", "result"):
            if data.get(name) and not data.get("candidate") and "candidate" not in self.errors:
                self.add_error(name, NO_CANDIDATE)
        if data.get("opponent") and data.get("opponent") == data.get("candidate"):
            self.add_error("opponent", SAME_CANDIDATE)
        return data


class BattleFilters(filters.FilterSet):
    category = filters.CharFilter(
        field_name="comparison__prompt__category",
        help_text="Only votes on prompts of this category.",
    )
    candidate = IdFilter(method="of_candidate", help_text="Only votes with this candidate, by id.")
    opponent = IdFilter(
        method="of_candidate", help_text="Only votes between `candidate` and this one, by id."
    )
    result = filters.ChoiceFilter(
        choices=list(RESULTS.items()),
        method="of_result",
        help_text="Only votes with this result for `candidate`.",
    )
    raters = filters.ChoiceFilter(
        choices=Raters.choices,
        method="of_raters",
        help_text="Only votes by people, judges or juries.",
    )
    since = UtcDateTimeFilter(
        field_name="cast_at", lookup_expr="gte", help_text="Only votes cast at this time or later."
    )

    class Meta:
        model = Vote
        form = BattleForm
        fields = ["category", "candidate", "opponent", "result", "raters", "since"]

    @extend_schema_field(OpenApiTypes.INT64)
    def of_candidate(self, rows: QuerySet[Vote], field: str, value: int) -> QuerySet[Vote]:
        return rows.filter(Q(comparison__left=value) | Q(comparison__right=value))

    def of_result(self, rows: QuerySet[Vote], field: str, value: str) -> QuerySet[Vote]:
        candidate = self.form.cleaned_data["candidate"]
        sides = (("left", ON_THE_LEFT), ("right", ON_THE_RIGHT))
        left, right = (
            Q(**{f"comparison__{side}": candidate})
            & Q(outcome__in=[outcome for outcome, result in results.items() if result == value])
            for side, results in sides
        )
        return rows.filter(left | right)

    def of_raters(self, rows: QuerySet[Vote], field: str, value: str) -> QuerySet[Vote]:
        return rows.filter(rater__kind=KIND_OF_RATERS[value])


class BattleList(ArenaEndpoint, ListEndpoint):
    tag = TAG
    filterset_class = BattleFilters
    other_parameters = ("texts",)

    @operation(
        "list_battles",
        "List the votes that count in an arena, in the order they were cast",
        answer=BattleShown(many=True),
        shown=SHOWN,
        parameters=[TEXTS],
        description="All boards are computed from these. Skips and voided votes are left out.",
    )
    def get(self, request: Request, slug: str) -> Response:
        votes = self.arena.votes.live().listed()
        rows = with_texts(votes) if self.text_reader else with_battles(votes)
        return self.page(rows, BattleShown)

    @cached_property
    def text_reader(self) -> FieldVisibility | None:
        """Which texts the caller may read; None unless texts are requested."""
        has_texts = yes_or_no(self.request, "texts")
        return self.reader if has_texts else None
