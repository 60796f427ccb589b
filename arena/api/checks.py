"""The API of the checks of an arena's answers."""

from typing import Any

from django.shortcuts import get_object_or_404
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import TeamPermission
from arena.api.core.errors import Unprocessable
from arena.api.core.model_fields import ModelShown
from arena.api.core.schema import operation
from arena.api.core.serializers import StrictSerializer, Text
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from arena.checks import CHECK_NAME_LIMIT, KINDS, MOST_ALLOWED
from arena.models import AnswerCheck, Prompt
from arena.services.checks import add_check, delete_check

GIVEN = {"kind": "contains", "expected": "Orders", "prompt": "refund-1"}
SHOWN = {
    "id": 12,
    "name": "Contains “Orders”",
    "kind": "contains",
    "expected": "Orders",
    "negated": False,
    "allowed": 0,
    "prompt": "refund-1",
    "created_at": "2026-11-22T09:00:00Z",
}
EXPECTED_HELP = (
    "The text, pattern or JSON Schema. For `contains-all` and the like, one text per line or a "
    "JSON list; for `word-count` and `length`, as in `at most 120`, `at least 20` or `20 to 120`; "
    "for `latency` seconds and for `cost` dollars, at most. Empty for `guard`."
)


class CheckShown(ModelShown):
    """A check of the answers to one prompt, or to every prompt. `guard` marks a prompt that must
    not be lost, which votes decide."""

    kind = serializers.ChoiceField(choices=list(KINDS))
    prompt = serializers.CharField(
        source="prompt.external_id",
        default=None,
        allow_null=True,
        help_text="The id of the prompt; null for every prompt.",
    )

    class Meta:
        model = AnswerCheck
        fields = ["id", "name", "kind", "expected", "negated", "allowed", "prompt", "created_at"]
        extra_kwargs = {
            "expected": {"help_text": EXPECTED_HELP},
            "negated": {"help_text": "Answers fail if they do what the rule says."},
        }


class PromptCheckGiven(StrictSerializer):
    """A check of the answers to one prompt."""

    kind = serializers.ChoiceField(choices=list(KINDS))
    expected = Text(required=False, help_text=EXPECTED_HELP)
    negated = serializers.BooleanField(
        required=False, help_text="Answers fail if they do what the rule says."
    )
    name = serializers.CharField(
        max_length=CHECK_NAME_LIMIT,
        required=False,
        allow_blank=True,
        help_text="If empty, it says what is checked.",
    )
    allowed = serializers.IntegerField(
        min_value=0,
        max_value=MOST_ALLOWED,
        required=False,
        help_text="How many answers of a candidate may fail it.",
    )


class CheckGiven(PromptCheckGiven):
    """A check to add. The same check cannot be added twice."""

    prompt = serializers.CharField(
        max_length=200,
        required=False,
        allow_null=True,
        help_text="The id of a prompt; without it, the check is for every prompt.",
    )


class CheckFilters(filters.FilterSet):
    prompt = filters.CharFilter(field_name="prompt__external_id", help_text="The id of a prompt.")
    kind = filters.CharFilter(help_text="The kind of the checks.")

    class Meta:
        model = AnswerCheck
        fields = ["prompt", "kind"]


class OfChecks(ArenaEndpoint):
    """The base of the endpoints of checks, which quote answers that the team expects."""

    tag = "Prompts"
    is_open = False

    def checks(self) -> Any:
        self.require(TeamPermission.READ, self.arena.team_id)
        rows = self.arena.checks.revealed().select_related("prompt")
        return rows.defer("prompt__text", "prompt__html", "prompt__reference", "prompt__rubric")


class Checks(OfChecks, ListEndpoint):
    permissions = {"POST": TeamPermission.SUBMIT}
    filterset_class = CheckFilters

    @operation(
        "list_checks",
        "List the checks of an arena's answers",
        answer=CheckShown(many=True),
        shown=SHOWN,
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(self.checks(), CheckShown)

    @operation(
        "create_check",
        "Add a check",
        body=CheckGiven,
        sent=GIVEN,
        answer=CheckShown,
        shown=SHOWN,
        status=201,
        description="Every answer passes or fails a check; no model is asked. An arena can have "
        "100 checks for every prompt, and 100 more for each prompt.",
    )
    def post(self, request: Request, slug: str) -> Response:
        self.require(TeamPermission.SUBMIT, self.arena.team_id)
        fields = self.validated(CheckGiven)
        name = fields.pop("prompt", None)
        prompt = None if name is None else self._find_prompt(name)
        check = add_check(arena=self.arena, by=self.actor, prompt=prompt, **fields)
        check.refresh_from_db()
        return Response(CheckShown(check).data, status=201)

    def _find_prompt(self, name: str) -> Prompt:
        prompt = Prompt.objects.revealed().filter(arena=self.arena, external_id=name).first()
        if prompt is None:
            raise Unprocessable(
                "The arena has no such prompt.",
                [{"pointer": "#/prompt", "detail": "No prompt has this id."}],
            )
        return prompt


class OneCheck(OfChecks):
    permissions = {"DELETE": TeamPermission.SUBMIT}

    @operation("retrieve_check", "Retrieve a check", answer=CheckShown, shown=SHOWN)
    def get(self, request: Request, slug: str, pk: int) -> Response:
        return Response(CheckShown(get_object_or_404(self.checks(), pk=pk)).data)

    @operation("delete_check", "Delete a check", answer=None, shown=None, status=204)
    def delete(self, request: Request, slug: str, pk: int) -> Response:
        self.require(TeamPermission.SUBMIT, self.arena.team_id)
        rows = self.arena.checks.revealed()
        delete_check(check=get_object_or_404(rows, pk=pk), by=self.actor)
        return Response(status=204)
