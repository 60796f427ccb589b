"""Who you are here, and your teams."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability, Actor, teams_of
from arena.api.core.endpoint import Endpoint, ListEndpoint
from arena.api.core.fields import Dollars
from arena.api.core.schema import described
from arena.models import Membership, Role, Team
from arena.services.budgets import committed_by

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
    """A team with its money, in dollars: `committed` is spent, or may be by unfinished runs."""

    budget = Dollars(read_only=True)
    committed = serializers.SerializerMethodField()

    class Meta(TeamShown.Meta):
        fields = [*TeamShown.Meta.fields, "budget", "committed"]

    def get_committed(self, team: Team) -> float:
        return Dollars().to_representation(committed_by(team))


class ActorShown(serializers.Serializer[Any]):
    """Who asks: a token with its scopes, or a person."""

    kind = serializers.ChoiceField(choices=["token", "person"])
    name = serializers.CharField()
    is_operator = serializers.BooleanField()
    scopes = serializers.ListField(child=serializers.CharField())
    teams = TeamShown(many=True)


class OfTeams(Endpoint):
    """Whatever is about the teams of whoever asks."""

    tag = "You and your teams"
    is_open = False

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "roles": self._roles()}

    def teams(self) -> Any:
        """The teams that exist for whoever asks."""
        return teams_of(self.actor).order_by("pk")

    def _roles(self) -> dict[int, str]:
        user = self.actor.user
        mine = Membership.objects.filter(user=user) if user else Membership.objects.none()
        return dict(mine.values_list("team", "role"))


class Me(OfTeams):
    @described(
        "retrieve_me",
        "Who you are here, and your own teams",
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
        teams = list(self.actor.teams_with(Ability.READ).order_by("pk"))
        shown = ActorShown(_described(self.actor, teams), context=self.get_serializer_context())
        return Response(shown.data)


class Teams(OfTeams, ListEndpoint):
    @described("list_teams", "List your teams", answer=TeamShown(many=True), shown=TEAM)
    def get(self, request: Request) -> Response:
        return self.page(self.teams(), TeamShown)


class OneTeam(OfTeams):
    @described(
        "retrieve_team",
        "Retrieve a team of yours with its budget",
        answer=TeamWithBudget,
        shown=TEAM | {"budget": 25.0, "committed": 3.2},
    )
    def get(self, request: Request, slug: str) -> Response:
        team = get_object_or_404(self.teams(), slug=slug)
        return Response(TeamWithBudget(team, context=self.get_serializer_context()).data)


def _described(actor: Actor, teams: list[Team]) -> dict[str, Any]:
    """What is told of the actor; a person has no scopes but roles."""
    token = actor.token
    return {
        "kind": "person" if token is None else "token",
        "name": actor.name if token is None else str(token),
        "is_operator": actor.is_operator,
        "scopes": [] if token is None else token.scopes,
        "teams": teams,
    }
