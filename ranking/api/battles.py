"""The votes beneath the boards, as battles: who met whom, and who won."""

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

from arena.api.core.endpoint import ArenaEndpoint, ListEndpoint
from arena.api.core.fields import yes_or_no
from arena.api.core.schema import described
from arena.api.reading import Reader
from arena.models import Outcome, Rater, Vote
from ranking.api.rows import battle, texts_of, with_battles, with_texts
from ranking.models import Raters
from ranking.pages.record import ON_THE_LEFT, ON_THE_RIGHT, RESULTS
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
    "texts": {
        "prompt": "How do I get my money back?",
        "left": "Ask on the page Orders within 30 days.",
        "right": "That depends.",
    },
}
TEXTS = OpenApiParameter(
    "texts",
    bool,
    description="With the prompt and both answers. Who may not list what a candidate answered "
    "while it is not disclosed finds null in its place.",
)
NO_CANDIDATE = "Say of which candidate, as candidate=<id>."
ITSELF = "It is the candidate itself."


class TextsShown(serializers.Serializer[Any]):
    """What was asked and answered, in Markdown."""

    prompt = serializers.CharField(allow_null=True)
    left = serializers.CharField(allow_null=True)
    right = serializers.CharField(allow_null=True)


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
    texts = TextsShown(allow_null=True, help_text="Null unless the query says texts=true.")

    def to_representation(self, vote: Vote) -> dict[str, Any]:
        reader: Reader | None = self.context["reader"]
        return battle(vote) | {"texts": texts_of(vote, reader) if reader else None}


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


class BattleForm(forms.Form):
    """Refuses what is only said of a candidate where none is named."""

    def clean(self) -> dict[str, Any]:
        said = self.cleaned_data
        for name in ("opponent", "result"):
            if said.get(name) and not said.get("candidate") and "candidate" not in self.errors:
                self.add_error(name, NO_CANDIDATE)
        if said.get("opponent") and said.get("opponent") == said.get("candidate"):
            self.add_error("opponent", ITSELF)
        return said


class BattleFilters(filters.FilterSet):
    category = filters.CharFilter(
        field_name="comparison__prompt__category", help_text="On prompts of this category alone."
    )
    candidate = IdFilter(method="of_candidate", help_text="With this candidate, by its id.")
    opponent = IdFilter(
        method="of_candidate", help_text="Of `candidate` against this one, by its id."
    )
    result = filters.ChoiceFilter(
        choices=list(RESULTS.items()), method="of_result", help_text="How it went for `candidate`."
    )
    raters = filters.ChoiceFilter(
        choices=Raters.choices, method="of_raters", help_text="Of people, judges or juries alone."
    )
    since = MomentFilter(
        field_name="cast_at", lookup_expr="gte", help_text="Cast at this time or later."
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
        return rows.filter(rater__kind=KINDS[value])


class Battles(ArenaEndpoint, ListEndpoint):
    tag = TAG
    filterset_class = BattleFilters
    asked_by = ("texts",)
    queryset = Vote.objects.none()

    @described(
        "list_battles",
        "List the votes that count in an arena, in the order in which they came",
        answer=BattleShown(many=True),
        shown=SHOWN,
        parameters=[TEXTS],
        description="What all boards are made of. Skips and voided votes are not among them.",
    )
    def get(self, request: Request, slug: str) -> Response:
        votes = self.arena.votes.live()
        rows = with_texts(votes) if self.reader else with_battles(votes)
        return self.page(rows, BattleShown)

    @cached_property
    def reader(self) -> Reader | None:
        """Who reads the texts; None where they are not asked for."""
        asked = yes_or_no(self.request, "texts")
        return Reader(self.actor, self.arena) if asked else None

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "reader": self.reader}
