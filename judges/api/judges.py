"""The judges of an arena in the API."""

from typing import Any

from django.db.models import Prefetch
from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import Actor, TeamPermission
from arena.api.core.errors import BadParameter
from arena.api.core.parameters import check_names
from arena.api.core.schema import operation
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from arena.models import Arena
from judges.core.spec import JudgeSpec
from judges.forms import judges_that_can_vote
from judges.models import Calibration, Epoch, Judge
from judges.permissions import listed_calibrations
from judges.services.registry import JudgeError, spec_named
from judges.services.trust import HONEYPOTS, trust_profile

JUDGE = "scripted:scripted-1@pairwise"
LONGEST_NAME = 300
NAME = OpenApiParameter(
    "name",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
    description="A registered judge's name, or endpoint:model@rubric. The response then lists "
    "only this judge, registered or not; a name that cannot be used in a run is an error.",
)
TYPED = serializers.CharField(max_length=LONGEST_NAME)
FIGURE = {"value": 0.81, "low": 0.74, "high": 0.87, "n": 212}
ACCURACY = {"with_ties": FIGURE, "without_ties": FIGURE}
JUDGE_LISTED: dict[str, Any] = {
    "name": JUDGE,
    "endpoint": "scripted",
    "model": "scripted-1",
    "rubric": "pairwise",
    "trusted": False,
    "why": ["It reached a verdict on 52.0% of 212 items, which is below the 70% required."],
    "calibration": {
        "made_at": "2026-11-22T09:00:00Z",
        "arena": "search-answers",
        "labels": None,
        "items": 212,
        "agreement": FIGURE,
        "pearson": None,
        "coverage": FIGURE | {"value": 0.52},
        "flips": FIGURE | {"value": 0.12},
        "categories": [
            {"category": "code", "items": 90, "agreement": FIGURE, "trusted": False},
        ],
        "benchmarks": {"verdict": ACCURACY},
    },
    "honeypots": {"value": 0.05, "low": 0.01, "high": 0.2, "n": 40},
}


class FigureShown(serializers.Serializer[dict[str, Any]]):
    """A figure over `n` labels, items or replies, with its 95% interval; null if unknown."""

    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    n = serializers.IntegerField()


class AccuracyShown(serializers.Serializer[dict[str, Any]]):
    """Share of all labels, and of those without ties, that are matched over all items."""

    with_ties = FigureShown()
    without_ties = FigureShown()


class BenchmarksShown(serializers.Serializer[dict[str, Any]]):
    """Accuracy as published benchmarks define it, by the verdict."""

    verdict = AccuracyShown()


class CategoryShown(serializers.Serializer[dict[str, Any]]):
    """A category of prompts. `agreement` is where the judge and a person choose a side; `trusted`
    is by its own items alone, null if there are too few."""

    category = serializers.CharField()
    items = serializers.IntegerField(source="n_items")
    agreement = FigureShown(source="decisive", allow_null=True)
    trusted = serializers.BooleanField(allow_null=True)


class CalibrationShown(serializers.ModelSerializer[Calibration]):
    """A judge measured against people, on the votes of `arena` or on a file of `labels`.

    `agreement` is over all items, where a tie or no verdict counts half; `pearson` is of scores;
    `coverage` is the share of items with a verdict, `flips` of those that swapping the answers
    changed. What this kind of judge does not have is null.
    """

    arena = serializers.CharField(source="arena.slug", allow_null=True)
    labels = serializers.CharField(source="label_set.name", allow_null=True)
    items = serializers.IntegerField(source="report.n_items")
    agreement = FigureShown(source="report.on_all", allow_null=True)
    pearson = FigureShown(source="report.against_all.pearson", allow_null=True)
    coverage = FigureShown(source="report.coverage", allow_null=True)
    flips = FigureShown(source="report.flips", allow_null=True)
    categories = serializers.SerializerMethodField()
    benchmarks = BenchmarksShown(source="report.benchmarks", allow_null=True)

    class Meta:
        model = Calibration
        fields = list(JUDGE_LISTED["calibration"])

    @extend_schema_field(CategoryShown(many=True))
    def get_categories(self, calibration: Calibration) -> Any:
        judged = calibration.report["trust"].get("categories", [])
        trusted = {category["category"]: category["trusted"] for category in judged}
        categories = calibration.report["categories"]
        rows: Any = [row | {"trusted": trusted.get(row["category"])} for row in categories]
        return CategoryShown(rows, many=True).data


class JudgeShown(serializers.ModelSerializer[Judge]):
    """A judge that a run can use. `trusted`: whether its votes support people's in this arena, and
    `why`: by its newest `calibration` here, or otherwise on labels; `honeypots` is the share of
    fake answers that it preferred. All of these are null if it is not registered."""

    trusted = serializers.BooleanField(allow_null=True)
    why = serializers.ListField(child=serializers.CharField(), allow_null=True)
    calibration = CalibrationShown(allow_null=True)
    honeypots = FigureShown(allow_null=True)

    class Meta:
        model = Judge
        fields = list(JUDGE_LISTED)

    def to_representation(self, judge: Any) -> dict[str, Any]:
        if isinstance(judge, Judge):
            for name, figure in _trust_in(self.context["arena"], judge).items():
                setattr(judge, name, figure)
        data: dict[str, Any] = super().to_representation(judge)
        return data


def _trust_in(arena: Arena, judge: Any) -> dict[str, Any]:
    """Whether a judge is trusted in an arena, why, and the figures behind that."""
    (epoch,) = judge.open_epochs
    profile = trust_profile(epoch, epoch.visible)
    place = next((place for place in profile if place.arena == arena), profile[0])
    met = place.calibration.report["trust"]["reasons"] if place.calibration else []
    honeypots = (measured for measured in epoch.visible if measured.kind == HONEYPOTS)
    return {
        "trusted": place.is_trusted,
        "why": list(place.problems or met),
        "calibration": place.calibration,
        "honeypots": next((measured.report["false_wins"] for measured in honeypots), None),
    }


class Judges(ArenaEndpoint, ListEndpoint):
    tag = "Judges"
    permissions = {"GET": TeamPermission.JUDGE}
    is_open = False
    other_parameters = ("name",)

    @operation(
        "list_judges",
        "List the judges that a run can use",
        answer=JudgeShown(many=True),
        shown=JUDGE_LISTED,
        parameters=[NAME],
        description="The registered judges, and whether each is trusted in this arena. A run can "
        "also use any model at an endpoint of this site, as endpoint:model@rubric.",
    )
    def get(self, request: Request, slug: str) -> Response:
        self.require(TeamPermission.JUDGE, self.arena.team_id)
        name = request.query_params.get("name")
        calibrations = listed_calibrations(self.actor) | self.arena.calibrations.all()
        visible = calibrations.select_related("arena", "label_set").order_by("-made_at", "-pk")
        epochs = Epoch.objects.open().prefetch_related(Prefetch("calibrations", visible, "visible"))
        judges = judges_that_can_vote(self.arena, self.actor).prefetch_related(
            Prefetch("epochs", epochs, "open_epochs")
        )
        if name is None:
            return self.page(judges, JudgeShown)
        check_names(request, self.other_parameters)
        spec = _spec_named(name, self.actor)
        judge: Any = judges.filter(digest=spec.digest).first() or dict.fromkeys(JUDGE_LISTED) | {
            "name": spec.label,
            "endpoint": spec.endpoint,
            "model": spec.model,
            "rubric": spec.rubric.slug,
        }
        shown = JudgeShown(judge, context=self.get_serializer_context()).data
        return Response({"next": None, "previous": None, "results": [shown]})

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "arena": self.arena}


def _spec_named(name: str, by: Actor) -> JudgeSpec:
    """The judge that an order with this name would use; raises BadParameter."""
    try:
        return spec_named(TYPED.run_validation(name), by=by)
    except serializers.ValidationError as error:
        details: Any = serializers.as_serializer_error(error)["non_field_errors"]
        raise BadParameter("name", str(details[0])) from None
    except JudgeError as error:
        raise BadParameter("name", str(error)) from None
