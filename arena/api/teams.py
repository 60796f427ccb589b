"""The API of the actor and their teams."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import TeamPermission
from arena.api.core.errors import RefusedByService
from arena.api.core.schema import operation
from arena.api.core.serializers import CONFIRM, Dollars, check_confirmed
from arena.api.core.views import ApiEndpoint, ListEndpoint
from arena.models import Membership, Role, Team
from arena.permissions import visible_teams
from arena.services.budgets import committed_by
from arena.services.teams import TeamError, delete_team, loss_of_team, reason_to_keep_team

TEAM = {"slug": "search", "name": "Search", "role": "owner"}


class TeamShown(serializers.ModelSerializer[Team]):
    """A team of yours; `role` is null for a token."""

    role = serializers.SerializerMethodField()

    class Meta:
        model = Team
        fields = ["slug", "name", "role"]

    @extend_schema_field(serializers.ChoiceField(choices=Role.choices, allow_null=True))
    def get_role(self, team: Team) -> str | None:
        role: str | None = self.context["roles"].get(team.pk)
        return role


class TeamWithBudget(TeamShown):
    """A team with amounts in dollars: `committed` is spent or reserved by unfinished runs."""

    budget = Dollars(read_only=True)
    committed = serializers.SerializerMethodField()

    class Meta(TeamShown.Meta):
        fields = [*TeamShown.Meta.fields, "budget", "committed"]

    def get_committed(self, team: Team) -> float:
        return Dollars().to_representation(committed_by(team))


class ActorShown(serializers.Serializer[Any]):
    """The actor: a token with its scopes, or a person, who has roles instead."""

    kind = serializers.ChoiceField(choices=["token", "person"])
    name = serializers.CharField()
    is_operator = serializers.BooleanField()
    scopes = serializers.ListField(child=serializers.CharField())
    teams = TeamShown(many=True)


class OfTeams(ApiEndpoint):
    """The base of all endpoints about the actor's teams."""

    tag = "You and your teams"
    is_open = False

    def get_serializer_context(self) -> dict[str, Any]:
        memberships = Membership.objects.filter(user=self.actor.user)
        roles = dict(memberships.values_list("team", "role")) if self.actor.user else {}
        return {**super().get_serializer_context(), "roles": roles}

    def teams(self) -> Any:
        """The teams that the actor may know of."""
        return visible_teams(self.actor).order_by("pk")


class Me(OfTeams):
    @operation(
        "retrieve_me",
        "Retrieve yourself and your teams",
        answer=ActorShown,
        shown={
            "kind": "token",
            "name": "CI (rs_k3x9w2ab...)",
            "is_operator": False,
            "scopes": ["read", "submit"],
            "teams": [TEAM | {"role": None}],
        },
    )
    def get(self, request: Request) -> Response:
        actor, token = self.actor, self.actor.token
        data = {
            "kind": "person" if token is None else "token",
            "name": actor.name if token is None else str(token),
            "is_operator": actor.is_operator,
            "scopes": [] if token is None else token.scopes,
            "teams": list(actor.teams_with(TeamPermission.READ).order_by("pk")),
        }
        return Response(ActorShown(data, context=self.get_serializer_context()).data)


class Teams(OfTeams, ListEndpoint):
    @operation("list_teams", "List your teams", answer=TeamShown(many=True), shown=TEAM)
    def get(self, request: Request) -> Response:
        return self.page(self.teams(), TeamShown)


class OneTeam(OfTeams):
    permissions = {"DELETE": TeamPermission.SUBMIT}

    @operation(
        "retrieve_team",
        "Retrieve one of your teams with its budget",
        answer=TeamWithBudget,
        shown=TEAM | {"budget": 25.0, "committed": 3.2},
    )
    def get(self, request: Request, slug: str) -> Response:
        team = get_object_or_404(self.teams(), slug=slug)
        return Response(TeamWithBudget(team, context=self.get_serializer_context()).data)

    @operation(
        "delete_team",
        "Delete a team, for good",
        answer=None,
        shown=None,
        status=204,
        parameters=[CONFIRM],
        description="Only owners who are signed in can do this; tokens cannot. A team with arenas, "
        "or with candidates in arenas of other teams, cannot be deleted.",
    )
    def delete(self, request: Request, slug: str) -> Response:
        team = get_object_or_404(self.teams(), slug=slug)
        self.require(TeamPermission.MANAGE, team)
        if reason := reason_to_keep_team(team):
            raise RefusedByService(TeamError(reason))
        check_confirmed(request, slug, loss_of_team(team))
        delete_team(team=team, by=self.actor)
        return Response(status=204)
