"""The API of arenas."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import Actor, TeamPermission
from arena.api.core.errors import Unprocessable
from arena.api.core.etags import check_match
from arena.api.core.model_fields import ModelChanges, ModelShown, hidden
from arena.api.core.schema import operation
from arena.api.core.serializers import CONFIRM, check_confirmed
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from arena.models import Arena, Candidate, Team
from arena.models.fields import length_limit
from arena.permissions import listed_arenas, needed_to_change, visible_teams
from arena.services.arenas import create_team_arena, delete_arena, loss_of_arena, update_arena

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
    "open_answers": False,
    "held_out": 20,
    "rater_cap": 10,
    "self_identifying": "drop",
    "counts": "anyone",
    "counts_tokens": False,
    "network_share": 10,
    "anchor": None,
    "anchor_score": 1000,
    "is_sample": False,
    "created_at": "2026-11-22T09:00:00Z",
    "page": "https://arena.example/a/search-answers/",
}


class ArenaShown(ModelShown):
    """An arena; `page` is its leaderboard. Texts are null for tokens without the scope `read`."""

    team = serializers.SlugRelatedField[Team](slug_field="slug", read_only=True, allow_null=True)
    page = serializers.SerializerMethodField()

    class Meta:
        model = Arena
        fields = [
            *("slug", "team", "name", *TEXTS, *Arena.RULES, *Arena.SCALE),
            *("is_sample", "created_at", "page"),
        ]
        extra_kwargs = hidden(*TEXTS)

    def to_representation(self, arena: Arena) -> dict[str, Any]:
        data: dict[str, Any] = super().to_representation(arena)
        can_read = self.context["view"].actor.has_scope(TeamPermission.READ)
        return data if can_read else data | dict.fromkeys(TEXTS)

    def get_page(self, arena: Arena) -> str:
        url: str = self.context["request"].build_absolute_uri(arena.get_absolute_url())
        return url


def limited(name: str, help_text: str) -> dict[str, Any]:
    least, most = Arena.LIMITS[name]
    return {"min_value": least, "max_value": most, "help_text": help_text}


class AnchorGiven(serializers.PrimaryKeyRelatedField[Candidate]):
    default_error_messages = {"does_not_exist": "This arena has no candidate {pk_value}."}

    def get_queryset(self) -> QuerySet[Candidate]:
        arena: Arena = self.context["view"].arena
        return arena.candidates.revealed()


class ArenaChanges(ModelChanges):
    """Changes to an arena; omitted members stay as they are."""

    anchor = AnchorGiven(
        allow_null=True,
        required=False,
        help_text="The id of a candidate of this arena whose score is fixed at `anchor_score`; all"
        " others move with it. Null: the mean score is 1000.",
    )

    class Meta:
        model = Arena
        fields = ["name", *TEXTS, *Arena.RULES, *Arena.SCALE]
        extra_kwargs = {
            "description": {"max_length": length_limit(Arena, "description")},
            "criteria": {"max_length": length_limit(Arena, "criteria")},
            "open_answers": {"help_text": "Whether everyone can read who wrote which answer."},
            "held_out": limited(
                "held_out",
                "Percentage of prompts whose answers are never published with names.",
            ),
            "rater_cap": limited(
                "rater_cap",
                "Maximum weight of one rater’s votes, as a percentage of all human votes; twice "
                "the average rater’s share is always allowed.",
            ),
            "self_identifying": {
                "help_text": "What happens to answers that reveal their author.",
            },
            "counts": {"help_text": "Whose votes count."},
            "counts_tokens": {
                "help_text": "Whether votes cast with a token count on a public leaderboard.",
            },
            "network_share": limited(
                "network_share",
                "Maximum weight of unverified votes from one network, as a percentage of all "
                "human votes.",
            ),
            "anchor_score": limited("anchor_score", "The score of the candidate `anchor`."),
        }


class ArenaGiven(ArenaChanges):
    """A new arena. By default, its slug is made from its name, and its team is the token's."""

    visibility = serializers.ChoiceField(
        choices=Arena.Visibility.choices, default=Arena.Visibility.UNLISTED
    )
    team = serializers.SlugField(
        required=False, help_text="The team's slug; by default the token's team."
    )
    slug = serializers.SlugField(
        max_length=60,
        required=False,
        help_text="The arena's address. By default it is made from the name, and ends in random "
        "letters unless the arena is public. Others can find out that an address is taken.",
    )

    class Meta(ArenaChanges.Meta):
        fields = ["name", *TEXTS, *Arena.RULES, "team", "slug"]


class ArenaFilters(filters.FilterSet):
    team = filters.CharFilter(field_name="team__slug", help_text="The slug of the arena's team.")
    visibility = filters.ChoiceFilter(choices=Arena.Visibility.choices)

    class Meta:
        model = Arena
        fields = ["team", "visibility"]


class Arenas(ListEndpoint):
    tag = TAG
    permissions = {"POST": TeamPermission.SUBMIT}
    filterset_class = ArenaFilters

    @operation("list_arenas", "List the arenas", answer=ArenaShown(many=True), shown=SHOWN)
    def get(self, request: Request) -> Response:
        return self.page(listed_arenas(self.actor).select_related("team"), ArenaShown)

    @operation(
        "create_arena",
        "Create an arena for one of your teams",
        body=ArenaGiven,
        sent=SENT,
        answer=ArenaShown,
        shown=SHOWN,
        status=201,
        description="In the example, replace `search` with your team's slug; tokens need no "
        "`team`.",
    )
    def post(self, request: Request) -> Response:
        data = self.validated(ArenaGiven)
        team = find_submitting_team(self.actor, data.pop("team", ""))
        arena = create_team_arena(team=team, by=self.actor, **data)
        answer = ArenaShown(arena, context=self.get_serializer_context())
        location = reverse("api_arena", args=[arena.slug])
        return Response(answer.data, status=201, headers={"Location": location})


class OneArena(ArenaEndpoint):
    tag = TAG
    permissions = {"PATCH": TeamPermission.SUBMIT, "DELETE": TeamPermission.SUBMIT}
    has_match = True

    @operation("retrieve_arena", "Retrieve an arena", answer=ArenaShown, shown=SHOWN)
    def get(self, request: Request, slug: str) -> Response:
        return Response(self._shown(self.arena))

    @operation(
        "update_arena",
        "Change an arena's settings",
        body=ArenaChanges,
        sent={"criteria": "The shorter one, if both are right."},
        answer=ArenaShown,
        shown=SHOWN,
        description="Only owners who are signed in can do this; tokens cannot. Members, and "
        "tokens with the scope `submit`, can also change the `criteria`.",
    )
    def patch(self, request: Request, slug: str) -> Response:
        self.require(TeamPermission.SUBMIT, self.arena.team_id)
        data = self.validated(ArenaChanges, partial=True)
        self.require(needed_to_change(data), self.arena.team_id)
        with transaction.atomic():
            locked = Arena.objects.select_for_update(of=("self",), no_key=True).select_related(
                "team"
            )
            arena = get_object_or_404(locked, pk=self.arena.pk)
            check_match(request, self._shown(arena))
            changed = update_arena(arena=arena, by=self.actor, **data)
        return Response(self._shown(changed))

    @operation(
        "delete_arena",
        "Delete an arena and everything in it, for good",
        answer=None,
        shown=None,
        status=204,
        parameters=[CONFIRM],
        description="Only owners who are signed in can do this; tokens cannot. Without `confirm`, "
        "the error says what would be lost.",
    )
    def delete(self, request: Request, slug: str) -> Response:
        self.require(TeamPermission.MANAGE, self.arena.team_id)
        check_confirmed(request, slug, loss_of_arena(self.arena))
        delete_arena(arena=self.arena, by=self.actor)
        return Response(status=204)

    def _shown(self, arena: Arena) -> Any:
        return ArenaShown(arena, context=self.get_serializer_context()).data


def find_submitting_team(actor: Actor, slug: str) -> Team:
    """Return the team that will own a new object: the team `slug`, by default the token's team.

    Raises Unprocessable for a team that is unknown or hidden from the actor, and PermissionDenied
    for viewers.
    """
    if not slug and actor.token is not None:
        return actor.token.team
    team = visible_teams(actor).filter(slug=slug).first()
    if team is None:
        detail = f"You have no team {slug!r}." if slug else "Specify the team."
        raise Unprocessable(detail, [{"pointer": "#/team", "detail": detail}])
    if not actor.may(TeamPermission.SUBMIT, team):
        raise PermissionDenied("You are a viewer of this team: you have read-only access.")
    return team
