"""Prompts of an arena: listed, brought in many at a time, changed, retired."""

from functools import cached_property
from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability
from arena.api.bulk import ATOMIC, Kind, ReportShown, bring_in
from arena.api.core import parsing
from arena.api.core.conditional import check_match
from arena.api.core.endpoint import ArenaEndpoint, ListEndpoint
from arena.api.core.fields import Changes, Given, Rows, Text, yes_or_no
from arena.api.core.schema import described
from arena.api.reading import Reader
from arena.importers.base import MOST_VARIABLES
from arena.models import Prompt
from arena.services.prompts import bring_back_prompt, retire_prompt, revise_prompt, upsert_prompts
from arena.uploads import PROMPTS

TAG = "Prompts"
KIND = Kind("prompts", PROMPTS, free="variables")
MOST = f"At most {MOST_VARIABLES}. Teams that may enter candidates see them."
SAID = ("text", "category")
OF_ITS_TEAM = ("reference", "rubric")
ROW = {
    "external_id": "refund-1",
    "text": "How do I get my money back?",
    "category": "refunds",
    "reference": "Within 30 days, on the page Orders.",
}
SHOWN: dict[str, Any] = ROW | {"variables": {}, "rubric": "", "retired_at": None}
REPORT = {
    "added": 9,
    "changed": 0,
    "unchanged": 0,
    "refused": [
        {"index": 3, "pointer": "#/prompts/3/text", "detail": "The member 'text' is empty."}
    ],
}


class PromptShown(serializers.ModelSerializer[Prompt]):
    """A prompt. References and rubrics are null for everybody but the arena's team.

    Variables are null for all but that team, and the teams that may enter candidates. To a token
    without the scope `read` its text and its category are null as well.
    """

    text = serializers.CharField(allow_null=True)
    category = serializers.CharField(allow_null=True)
    variables = serializers.DictField(child=serializers.CharField(), allow_null=True)
    reference = serializers.CharField(allow_null=True)
    rubric = serializers.CharField(allow_null=True)

    class Meta:
        model = Prompt
        fields = ["external_id", "text", "category", "variables", *OF_ITS_TEAM, "retired_at"]

    def to_representation(self, prompt: Prompt) -> dict[str, Any]:
        reader: Reader = self.context["reader"]
        shown: dict[str, Any] = super().to_representation(prompt)
        hidden = (
            *(() if reader.reads else SAID),
            *(() if reader.sees_variables else ("variables",)),
            *(() if reader.is_of_arena else OF_ITS_TEAM),
        )
        return shown | dict.fromkeys(hidden)


class PromptRowGiven(serializers.Serializer[Any]):
    """A prompt to bring in. Without an id it is known by its text, or gets the next free id."""

    text = Text(allow_blank=False)
    external_id = serializers.CharField(max_length=200, required=False)
    category = serializers.CharField(max_length=100, required=False)
    reference = Text(required=False)
    rubric = Text(required=False)
    variables = serializers.DictField(child=Text(), required=False, help_text=MOST)


@extend_schema_field(PromptRowGiven(many=True))
class PromptRows(Rows):
    pass


class PromptsGiven(Given):
    """Up to 10,000 prompts."""

    prompts = PromptRows()


class PromptChanges(Changes):
    """What may be changed of a prompt that has no answers yet; `retired` may be at any time."""

    text = Text(allow_blank=False)
    category = serializers.CharField(max_length=100, allow_blank=True)
    reference = Text()
    rubric = Text()
    variables = serializers.DictField(child=Text(), help_text=MOST)
    retired = serializers.BooleanField()


class PromptFilters(filters.FilterSet):
    category = filters.CharFilter(help_text="Of this category alone.")
    external_id = filters.CharFilter(help_text="With this id alone.")
    retired = filters.BooleanFilter(
        field_name="retired_at", lookup_expr="isnull", exclude=True, help_text="Retired, or not."
    )

    class Meta:
        model = Prompt
        fields = ["category", "external_id", "retired"]


class OfPrompts(ArenaEndpoint):
    """Whatever is about an arena's prompts."""

    tag = TAG

    @cached_property
    def reader(self) -> Reader:
        return Reader(self.actor, self.arena)

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "reader": self.reader}

    def prompts(self) -> Any:
        """The prompts of the arena that may be read."""
        return Prompt.objects.revealed().filter(arena=self.arena)


class Prompts(OfPrompts, ListEndpoint):
    abilities = {"POST": Ability.SUBMIT}
    body_limit = parsing.BULK_BODY
    queryset = Prompt.objects.none()
    filterset_class = PromptFilters

    @described(
        "list_prompts",
        "List the prompts of an arena",
        answer=PromptShown(many=True),
        shown=SHOWN,
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(self.prompts().defer("html"), PromptShown)

    @described(
        "upsert_prompts",
        "Bring in up to 10,000 prompts",
        body=PromptsGiven,
        sent={"prompts": [ROW]},
        answer=ReportShown,
        shown=REPORT,
        parameters=[ATOMIC],
        description="New ones are added, those known by id or by text are changed while nothing "
        "was made with them. Rows that cannot go in are listed; all others go in together.",
    )
    def post(self, request: Request, slug: str) -> Response:
        self.require(Ability.SUBMIT, self.arena.team_id)
        rows, atomic = self.given(PromptsGiven)["prompts"], yes_or_no(request, "atomic")
        report = bring_in(
            KIND,
            rows,
            upsert=lambda good, bad: upsert_prompts(
                arena=self.arena, rows=good, unread=bad, by=self.actor, atomic=atomic
            ),
        )
        return Response(ReportShown(report).data)


class OnePrompt(OfPrompts):
    abilities = {"PATCH": Ability.SUBMIT}
    has_match = True

    @described("retrieve_prompt", "Retrieve a prompt by its id", answer=PromptShown, shown=SHOWN)
    def get(self, request: Request, slug: str, external_id: str) -> Response:
        return Response(self._shown(self._find(external_id)))

    @described(
        "update_prompt",
        "Change a prompt, retire it or bring it back",
        body=PromptChanges,
        sent={"retired": True},
        answer=PromptShown,
        shown=SHOWN | {"retired_at": "2026-11-22T09:00:00Z"},
        description="A prompt that has answers or comparisons cannot be changed, only retired.",
    )
    def patch(self, request: Request, slug: str, external_id: str) -> Response:
        self.require(Ability.SUBMIT, self.arena.team_id)
        given = self.given(PromptChanges, partial=True)
        with transaction.atomic():
            # The arena first, as the services lock them: the other way round two could meet.
            arenas = self.arenas().select_for_update(of=("self",), no_key=True)
            get_object_or_404(arenas, pk=self.arena.pk)
            prompt = self._find(external_id, lock=True)
            check_match(request, self._shown(prompt))
            self._change(prompt, given)
            changed = self._find(external_id)
        return Response(self._shown(changed))

    def _change(self, prompt: Prompt, given: dict[str, Any]) -> None:
        retired = given.pop("retired", None)
        if given:
            revise_prompt(prompt=prompt, by=self.actor, **given)
        if retired:
            retire_prompt(prompt=prompt, by=self.actor, now=timezone.now())
        elif retired is not None:
            bring_back_prompt(prompt=prompt, by=self.actor)

    def _find(self, external_id: str, *, lock: bool = False) -> Prompt:
        rows = self.prompts()
        if lock:
            # NO KEY: a vote's comparison refers to it, and holds a pair that is counted here.
            rows = rows.select_for_update(of=("self",), no_key=True)
        prompt: Prompt = get_object_or_404(rows, external_id=external_id)
        return prompt

    def _shown(self, prompt: Prompt) -> Any:
        return PromptShown(prompt, context=self.get_serializer_context()).data
