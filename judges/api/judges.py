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
from judges.services.registering import JudgeRefused, spec_named

LONGEST_NAME = 300
NAME = OpenApiParameter(
    "name",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
    description="A judge by its name here, or as endpoint:model@rubric: then it alone is answered "
    "with, known here or not yet. A name that no order would take is refused.",
)
TYPED = serializers.CharField(max_length=LONGEST_NAME)


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
        name = request.query_params.get("name")
        if name is None:
            return self.page(judges_that_can_vote(self.arena, self.actor), JudgeShown)
        check_names(request, self.asked_by)
        return Response({"next": None, "previous": None, "results": [_shown(_spec(name))]})


def _spec(name: str) -> JudgeSpec:
    """What an order would make of the name; raises BadParameter."""
    try:
        return spec_named(TYPED.run_validation(name))
    except serializers.ValidationError as invalid:
        raise BadParameter("name", _sentence(invalid)) from None
    except JudgeRefused as refusal:
        raise BadParameter("name", str(refusal)) from None


def _sentence(invalid: serializers.ValidationError) -> str:
    found: Any = serializers.as_serializer_error(invalid)["non_field_errors"]
    return str(found[0])


def _shown(spec: JudgeSpec) -> dict[str, Any]:
    return {
        "name": spec.label,
        "endpoint": spec.endpoint,
        "model": spec.model,
        "rubric": spec.rubric.slug,
    }
