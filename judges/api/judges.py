"""The judges that can be used in an arena, and what a typed name stands for."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import TeamPermission
from arena.api.core.errors import BadParameter
from arena.api.core.schema import operation
from arena.api.core.serializers import check_names
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from judges.api.serializers import JUDGE
from judges.core.spec import JudgeSpec
from judges.forms import judges_that_can_vote
from judges.models import Judge
from judges.services.registry import JudgeError, spec_named

LONGEST_NAME = 300
NAME = OpenApiParameter(
    "name",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
    description="A registered judge's name, or endpoint:model@rubric. The answer is then this one "
    "judge, registered or not; a name that cannot be ordered is an error.",
)
TYPED = serializers.CharField(max_length=LONGEST_NAME)


class JudgeShown(serializers.ModelSerializer[Judge]):
    """A judge that a run can use."""

    class Meta:
        model = Judge
        fields = ["name", "endpoint", "model", "rubric"]


class Judges(ArenaEndpoint, ListEndpoint):
    tag = "Judges"
    permissions = {"GET": TeamPermission.JUDGE}
    is_open = False
    other_parameters = ("name",)
    queryset = Judge.objects.none()

    @operation(
        "list_judges",
        "List the judges that a run can use",
        answer=JudgeShown(many=True),
        shown={
            "name": JUDGE,
            "endpoint": "scripted",
            "model": "scripted-1",
            "rubric": "pairwise",
        },
        parameters=[NAME],
        description="The registered judges. A run can also use any model at an endpoint of this "
        "site, as endpoint:model@rubric.",
    )
    def get(self, request: Request, slug: str) -> Response:
        self.require(TeamPermission.JUDGE, self.arena.team_id)
        name = request.query_params.get("name")
        if name is None:
            return self.page(judges_that_can_vote(self.arena, self.actor), JudgeShown)
        check_names(request, self.other_parameters)
        spec = _spec_named(name)
        judge = {
            "name": spec.label,
            "endpoint": spec.endpoint,
            "model": spec.model,
            "rubric": spec.rubric.slug,
        }
        return Response({"next": None, "previous": None, "results": [judge]})


def _spec_named(name: str) -> JudgeSpec:
    """The judge that an order would make of the name; raises BadParameter."""
    try:
        return spec_named(TYPED.run_validation(name))
    except serializers.ValidationError as error:
        details: Any = serializers.as_serializer_error(error)["non_field_errors"]
        raise BadParameter("name", str(details[0])) from None
    except JudgeError as error:
        raise BadParameter("name", str(error)) from None
