"""A team's rubrics in the API. Owners write them on the team's pages, which no token can."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import TeamPermission
from arena.api.core.schema import operation
from arena.api.core.views import ListEndpoint
from arena.models import Team
from arena.permissions import visible_teams
from judges.models import RubricVersion
from judges.services.rubrics import newest_versions

RUBRIC: dict[str, Any] = {
    "name": "search/support.2",
    "rubric": "support",
    "version": 2,
    "digest": "5f0c5b5e8d4f4f3b9a6f3d0e6d7d3f6f2c2f0f3d4f1c8b7a6e5d4c3b2a190817",
    "reason": "It was too lenient with wrong answers.",
    "made_at": "2026-11-22T09:00:00Z",
    "files": {"rubric.toml": 'title = "Support"\nprotocol = "pairwise"\n'},
}


class RubricShown(serializers.ModelSerializer[RubricVersion]):
    """A version of a team's rubric. Judges use it as endpoint:model@name."""

    name = serializers.CharField()
    rubric = serializers.CharField(source="rubric.slug")
    version = serializers.IntegerField(source="number")
    files = serializers.DictField(
        child=serializers.CharField(),
        source="texts",
        help_text="The texts of rubric.toml, system.md, user.md and, with a grading note, note.md.",
    )

    class Meta:
        model = RubricVersion
        fields = list(RUBRIC)


class OfRubrics(ListEndpoint):
    """The base of the endpoints of rubrics, which outsiders of the team do not find."""

    tag = "Judges"
    is_open = False

    def team(self, slug: str) -> QuerySet[Team]:
        team = get_object_or_404(visible_teams(self.actor), slug=slug)
        self.require(TeamPermission.READ, team)
        return Team.objects.filter(pk=team.pk)


class Rubrics(OfRubrics):
    @operation(
        "list_rubrics",
        "List the newest versions of a team's rubrics",
        answer=RubricShown(many=True),
        shown=RUBRIC,
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(newest_versions(self.team(slug)), RubricShown)


class RubricVersions(OfRubrics):
    @operation(
        "list_rubric_versions",
        "List all versions of a team's rubric",
        answer=RubricShown(many=True),
        shown=RUBRIC,
    )
    def get(self, request: Request, slug: str, rubric: str) -> Response:
        versions = RubricVersion.objects.filter(
            rubric__team__in=self.team(slug), rubric__slug=rubric
        )
        get_object_or_404(versions[:1])
        return self.page(versions.select_related("rubric__team"), RubricShown)
