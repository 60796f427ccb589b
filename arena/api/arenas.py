"""Arenas: listed, made, read, set up."""

from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability, Actor, needed_to_change, teams_of
from arena.api.core.conditional import check_match
from arena.api.core.endpoint import ArenaEndpoint, ListEndpoint
from arena.api.core.fields import Changes, Text
from arena.api.core.problems import Unprocessable
from arena.api.core.schema import described
from arena.models import Arena, Team
from arena.services.arenas import LONGEST_DESCRIPTION, create_team_arena, update_arena
from arena.services.catalog import LONGEST_CRITERIA

TAG = "Arenas"
TEXTS = ("question", "description", "criteria")
SENT = {
    "team": "search",
    "name": "Search answers",
    "question": "Which answer helps more?",
    "visibility": "unlisted",
}
SHOWN = SENT | {
    "slug": "search-answers",
    "description": "",
    "criteria": "",
    "voters": "anyone",
    "open_to_teams": False,
    "is_sample": False,
    "created_at": "2026-11-22T09:00:00Z",
    "page": "https://arena.example/a/search-answers/",
}


class ArenaShown(serializers.ModelSerializer[Arena]):
    """An arena; `page` is its board. To a token without the scope `read` the texts are null."""

    question = serializers.CharField(allow_null=True)
    description = serializers.CharField(allow_null=True)
    criteria = serializers.CharField(allow_null=True)
    team = serializers.SlugRelatedField[Team](slug_field="slug", read_only=True, allow_null=True)
    page = serializers.SerializerMethodField()

    class Meta:
        model = Arena
        fields = [
            "slug",
            "team",
            "name",
            "question",
            "description",
            "criteria",
            "visibility",
            "voters",
            "open_to_teams",
            "is_sample",
            "created_at",
            "page",
        ]

    def to_representation(self, arena: Arena) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(arena)
        reads = self.context["view"].actor.has_scope(Ability.READ)
        return shown if reads else shown | dict.fromkeys(TEXTS)

    def get_page(self, arena: Arena) -> str:
        url: str = self.context["request"].build_absolute_uri(arena.get_absolute_url())
        return url


class ArenaChanges(Changes):
    """What may be changed; what is not named stays."""

    name = serializers.CharField(max_length=120)
    question = serializers.CharField(max_length=200, required=False)
    description = Text(required=False, max_length=LONGEST_DESCRIPTION)
    criteria = Text(required=False, max_length=LONGEST_CRITERIA)
    visibility = serializers.ChoiceField(choices=Arena.Visibility.choices, required=False)
    voters = serializers.ChoiceField(choices=Arena.Voters.choices, required=False)
    open_to_teams = serializers.BooleanField(required=False)


class ArenaGiven(ArenaChanges):
    """A new arena; without a slug it gets one by its name, without a team a token's own."""

    visibility = serializers.ChoiceField(
        choices=Arena.Visibility.choices, default=Arena.Visibility.UNLISTED
    )
    team = serializers.SlugField(required=False, help_text="Its slug. A token's own unless said.")
    slug = serializers.SlugField(
        max_length=60,
        required=False,
        help_text="Its address. By its name unless said; a private arena's ends in letters drawn "
        "by chance, and so does an unlisted one's unless it is said here.",
    )


class ArenaFilters(filters.FilterSet):
    team = filters.CharFilter(field_name="team__slug", help_text="The slug of the arena's team.")
    visibility = filters.ChoiceFilter(choices=Arena.Visibility.choices)

    class Meta:
        model = Arena
        fields = ["team", "visibility"]


class Arenas(ListEndpoint):
    tag = TAG
    abilities = {"POST": Ability.SUBMIT}
    filterset_class = ArenaFilters

    @described("list_arenas", "List the arenas", answer=ArenaShown(many=True), shown=SHOWN)
    def get(self, request: Request) -> Response:
        return self.page(Arena.objects.listed_for(self.actor).select_related("team"), ArenaShown)

    @described(
        "create_arena",
        "Make an arena for a team of yours",
        body=ArenaGiven,
        sent=SENT,
        answer=ArenaShown,
        shown=SHOWN,
        status=201,
        description="In the example, put your own team's slug in place of `search`; a token needs "
        "no `team`.",
    )
    def post(self, request: Request) -> Response:
        given = self.given(ArenaGiven)
        team = team_named(self.actor, given.pop("team", ""))
        arena = create_team_arena(team=team, by=self.actor, **given)
        shown = ArenaShown(arena, context=self.get_serializer_context())
        place = reverse("api_arena", args=[arena.slug])
        return Response(shown.data, status=201, headers={"Location": place})


class OneArena(ArenaEndpoint):
    tag = TAG
    abilities = {"PATCH": Ability.SUBMIT}
    has_match = True

    @described("retrieve_arena", "Retrieve an arena", answer=ArenaShown, shown=SHOWN)
    def get(self, request: Request, slug: str) -> Response:
        return Response(self._shown(self.arena))

    @described(
        "update_arena",
        "Change what is said about an arena",
        body=ArenaChanges,
        sent={"criteria": "The shorter one, where both are right."},
        answer=ArenaShown,
        shown=SHOWN,
        description="For owners, signed in; no token may. The `criteria` alone are changed by "
        "members too, and by tokens with the scope `submit`.",
    )
    def patch(self, request: Request, slug: str) -> Response:
        self.require(Ability.SUBMIT, self.arena.team_id)
        given = self.given(ArenaChanges, partial=True)
        self.require(needed_to_change(given), self.arena.team_id)
        with transaction.atomic():
            locked = Arena.objects.select_for_update(of=("self",), no_key=True).select_related(
                "team"
            )
            arena = get_object_or_404(locked, pk=self.arena.pk)
            check_match(request, self._shown(arena))
            changed = update_arena(arena=arena, by=self.actor, **given)
        return Response(self._shown(changed))

    def _shown(self, arena: Arena) -> Any:
        return ArenaShown(arena, context=self.get_serializer_context()).data


def team_named(actor: Actor, slug: str) -> Team:
    """Return the team that is to own something new: the one named, else a token's own.

    What exists, but is not the actor's, is told like what does not exist.
    """
    if not slug and actor.token is not None:
        return actor.token.team
    team = teams_of(actor).filter(slug=slug).first()
    if team is None:
        sentence = f"You have no team {slug!r}." if slug else "Name the team that this is for."
        raise Unprocessable(sentence, [{"pointer": "#/team", "detail": sentence}])
    if not actor.may(Ability.SUBMIT, team):
        raise PermissionDenied("As a viewer of this team you may read, but not make anything.")
    return team
