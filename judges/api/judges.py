"""The judges that may be ordered in an arena, and what a name that is typed stands for."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability
from arena.api.core.endpoint import ArenaEndpoint, ListEndpoint
from arena.api.core.filtering import check_names
from arena.api.core.problems import BadParameter
from arena.api.core.schema import described
from judges.api.shown import JUDGE
from judges.core.spec import JudgeSpec
from judges.forms import judges_that_can_vote
from judges.models import Judge
from judges.services.orders import MOST_JUDGES
from judges.services.registering import JudgeRefused, spec_named

NAME = OpenApiParameter(
    "name",
    {"type": "array", "items": {"type": "string", "maxLength": 300}, "maxItems": MOST_JUDGES},
    description="A judge by its name here, or as endpoint:model@rubric: then only those that are "
    "named are answered with, known here or not yet. A name that no order would take is refused.",
)


NAMES = serializers.ListField(child=serializers.CharField(max_length=300), max_length=MOST_JUDGES)


class JudgeShown(serializers.ModelSerializer[Judge]):
    """A judge that an order may name."""

    class Meta:
        model = Judge
        fields = ["name", "endpoint", "model", "rubric"]


class Judges(ArenaEndpoint, ListEndpoint):
    tag = "Judges"
    abilities = {"GET": Ability.JUDGE}
    is_open = False
    asked_by = ("name",)
    queryset = Judge.objects.none()

    @described(
        "list_judges",
        "List the judges that may be ordered",
        answer=JudgeShown(many=True),
        shown={
            "name": JUDGE,
            "endpoint": "scripted",
            "model": "scripted-1",
            "rubric": "pairwise",
        },
        parameters=[NAME],
        description="Those that are known already. Any model of the operator's endpoints can be "
        "ordered besides, as endpoint:model@rubric.",
    )
    def get(self, request: Request, slug: str) -> Response:
        self.require(Ability.JUDGE, self.arena.team_id)
        names = request.query_params.getlist("name")
        check_names(request, self.asked_by)
        if not names:
            return self.page(judges_that_can_vote(self.arena, self.actor), JudgeShown)
        named = [_shown(spec) for spec in _specs(names)]
        return Response({"next": None, "previous": None, "results": named})


def _specs(names: list[str]) -> list[JudgeSpec]:
    try:
        return [spec_named(name) for name in NAMES.run_validation(names)]
    except serializers.ValidationError as invalid:
        raise BadParameter("name", _first(invalid.detail)) from None
    except JudgeRefused as refusal:
        raise BadParameter("name", str(refusal)) from None


def _first(detail: Any) -> str:
    """The first sentence of a refusal, which is a list, or by index one list each."""
    sentences = next(iter(detail.values())) if isinstance(detail, dict) else detail
    return str(sentences[0])


def _shown(spec: JudgeSpec) -> dict[str, Any]:
    return {
        "name": spec.label,
        "endpoint": spec.endpoint,
        "model": spec.model,
        "rubric": spec.rubric.slug,
    }
