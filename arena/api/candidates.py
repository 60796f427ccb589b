"""The API of candidates and their versions."""

from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import TeamPermission
from arena.api.arenas import find_submitting_team
from arena.api.core.errors import Unprocessable
from arena.api.core.model_fields import ModelChanges, ModelShown, hidden
from arena.api.core.permissions import refuse_unless
from arena.api.core.schema import operation
from arena.api.core.serializers import MessagesField, StrictSerializer
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from arena.models import Candidate, Team
from arena.models.fields import length_limit
from arena.permissions import (
    FieldVisibility,
    can_change,
    can_delete,
    can_enter,
    can_retire,
    changeable_candidates,
    known_candidates,
)
from arena.services.candidates import (
    delete_candidate,
    register_candidate,
    retire_candidate,
    retire_candidates,
    revise_candidate,
)

TAG = "Candidates"
MOST_ARCHIVED = 1000
MESSAGES_HELP = (
    "Instead of `system_prompt` and `user_template`: an optional system message, then `user` and "
    "`assistant` turns, ending with `user`. Each is a template. Null for a candidate with those "
    "two texts; a list equivalent to them is stored as them."
)
TEXTS = tuple(name for name in Candidate.PUBLIC_CONTENT if name not in ("messages", "parameters"))
HIDDEN = ("version", "team", *Candidate.PUBLIC_CONTENT)
SENT = {
    "name": "short-answers",
    "system_prompt": "Answer in one sentence.",
    "user_template": "{{ prompt }}",
    "endpoint": "scripted",
    "model": "scripted-1",
    "parameters": {"temperature": 0},
    "organisation": "Example Labs",
    "licence": "Apache-2.0",
    "link": "https://example.org/scripted-1",
}
SHOWN = {
    "id": 17,
    "name": "short-answers",
    "version": 1,
    "team": "search",
    "endpoint": "scripted",
    "model": "scripted-1",
    "variant": "",
    "system_prompt": "Answer in one sentence.",
    "user_template": "{{ prompt }}",
    "messages": None,
    "parameters": {"temperature": 0},
    "notes": "",
    "organisation": "Example Labs",
    "licence": "Apache-2.0",
    "link": "https://example.org/scripted-1",
    "private_until_votes": None,
    "private_until": None,
    "disclosed_at": "2026-11-22T09:00:00Z",
    "created_at": "2026-11-22T09:00:00Z",
    "retired_at": None,
    "merged_into": None,
    "merged_at": None,
}


class CandidateShown(ModelShown):
    """One version of a candidate.

    Until it is disclosed, only its own team sees its name and configuration: for others, `name` is
    a mask, and the configuration is null. The endpoint is visible only to its own team. For tokens
    without the scope `read`, the configuration is always null.
    """

    team = serializers.SlugRelatedField[Team](slug_field="slug", read_only=True, allow_null=True)
    version = serializers.IntegerField(allow_null=True)
    messages = MessagesField(allow_null=True, help_text=MESSAGES_HELP)
    parameters = serializers.DictField(allow_null=True)

    class Meta:
        model = Candidate
        fields = [
            *("id", "name", "version", "team"),
            *dict.fromkeys(("endpoint", "model", "variant", *Candidate.CONTENT)),
            *(*Candidate.PRIVACY, "disclosed_at", "created_at", "retired_at"),
            *("merged_into", "merged_at"),
        ]
        extra_kwargs = {"name": {"help_text": None}} | hidden("endpoint", *TEXTS)

    def to_representation(self, candidate: Candidate) -> dict[str, Any]:
        reader: FieldVisibility = self.context["view"].reader
        data: dict[str, Any] = super().to_representation(candidate)
        if not reader.is_of_team(candidate):
            data["endpoint"] = None
        if reader.knows(candidate):
            return data if reader.reads else data | dict.fromkeys(Candidate.PUBLIC_CONTENT)
        return data | dict.fromkeys(HIDDEN) | {"name": str(candidate)}


class CandidateChanges(ModelChanges):
    """Changes for the next version. Omitted members stay as they are, except privacy."""

    messages = MessagesField(required=False, allow_null=True, help_text=MESSAGES_HELP)
    parameters = serializers.DictField(required=False)

    class Meta:
        model = Candidate
        fields = [*Candidate.CONTENT, *Candidate.PRIVACY]
        extra_kwargs = {
            "endpoint": {
                "help_text": "Where its answers are generated: an endpoint configured by the "
                "administrators."
            },
            "notes": {"max_length": length_limit(Candidate, "notes")},
            "link": {"help_text": "The address of a web page about it."},
            "private_until_votes": {"max_value": 2**31 - 1},
        }


class CandidateGiven(CandidateChanges):
    """A new candidate, by default of the token's team."""

    team = serializers.SlugField(
        required=False, help_text="The team's slug; by default the token's team."
    )

    class Meta(CandidateChanges.Meta):
        fields = [*CandidateChanges.Meta.fields, "name", "team"]


class CandidateFilters(filters.FilterSet):
    """Filters by hidden fields match only candidates that the actor knows."""

    name = filters.CharFilter(method="of_known", help_text="Only of this candidate, by name.")
    team = filters.CharFilter(
        method="of_known", field_name="team__slug", help_text="Only of this team, by slug."
    )
    retired = filters.BooleanFilter(
        field_name="retired_at",
        lookup_expr="isnull",
        exclude=True,
        help_text="Only archived candidates, or only active ones.",
    )

    class Meta:
        model = Candidate
        fields = ["name", "team", "retired"]

    def of_known(self, rows: QuerySet[Candidate], field: str, value: str) -> QuerySet[Candidate]:
        reader: FieldVisibility = self.request.parser_context["view"].reader
        return known_candidates(reader, rows).filter(**{field: value})


class OfCandidates(ArenaEndpoint):
    """The base of all endpoints about an arena's candidates."""

    tag = TAG

    @cached_property
    def candidate(self) -> Candidate:
        candidate: Candidate = get_object_or_404(self.candidates(), pk=self.kwargs["pk"])
        candidate.arena = self.arena
        return candidate

    def candidates(self) -> QuerySet[Candidate]:
        return Candidate.objects.revealed().filter(arena=self.arena).select_related("team")

    def shown(self, candidate: Candidate, **options: Any) -> Response:
        data = CandidateShown(candidate, context=self.get_serializer_context()).data
        return Response(data, **options)

    def created(self, candidate: Candidate) -> Response:
        location = reverse("api_candidate", args=[self.arena.slug, candidate.pk])
        return self.shown(candidate, status=201, headers={"Location": location})

    def require_change(self) -> None:
        """Refuse actors who may not revise the candidate or submit its answers."""
        refuse_unless(self.actor, can_change(self.actor, self.candidate))


class Candidates(OfCandidates, ListEndpoint):
    permissions = {"POST": TeamPermission.SUBMIT}
    filterset_class = CandidateFilters

    @operation(
        "list_candidates",
        "List the candidates of an arena, in all versions",
        answer=CandidateShown(many=True),
        shown=SHOWN,
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(self.candidates(), CandidateShown)

    @operation(
        "register_candidate",
        "Add a candidate",
        body=CandidateGiven,
        sent=SENT,
        answer=CandidateShown,
        shown=SHOWN,
        status=201,
        description="With an endpoint and a model, its answers are generated; without an "
        "endpoint, you upload them. `private_until_votes` and `private_until` hide its name and "
        "its configuration from the public, and cannot be changed later.",
    )
    def post(self, request: Request, slug: str) -> Response:
        arena, data = self.arena, self.validated(CandidateGiven)
        team = self._find_team(data.pop("team", ""))
        if team is not None:
            refuse_unless(self.actor, can_enter(self.actor, arena, team))
        candidate = register_candidate(
            arena=arena, team=team, by=self.actor, now=timezone.now(), **data
        )
        return self.created(candidate)

    def _find_team(self, slug: str) -> Team | None:
        """The new candidate's team; administrators need none in an arena without a team."""
        if not slug and self.actor.is_operator:
            return self.arena.team
        if not slug and self.actor.token is None:
            self.require(TeamPermission.SUBMIT, self.arena.team_id)
            return self.arena.team
        return find_submitting_team(self.actor, slug)


class OneCandidate(OfCandidates):
    permissions = {"DELETE": TeamPermission.SUBMIT}

    @operation("retrieve_candidate", "Retrieve a candidate", answer=CandidateShown, shown=SHOWN)
    def get(self, request: Request, slug: str, pk: int) -> Response:
        return self.shown(self.candidate)

    @operation(
        "delete_candidate",
        "Delete one version of a candidate, for good",
        answer=None,
        shown=None,
        status=204,
        description="Its answers and the runs that generated them are deleted with it. A "
        "candidate with votes cannot be deleted; archive it instead. Only owners who are signed "
        "in can delete; tokens cannot.",
    )
    def delete(self, request: Request, slug: str, pk: int) -> Response:
        refuse_unless(self.actor, can_delete(self.actor, self.candidate))
        delete_candidate(candidate=self.candidate, by=self.actor)
        return Response(status=204)


class Versions(OfCandidates, ListEndpoint):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "list_versions",
        "List the versions of a candidate",
        answer=CandidateShown(many=True),
        shown=SHOWN,
        description="If the version is not disclosed yet, the public gets only that version.",
    )
    def get(self, request: Request, slug: str, pk: int) -> Response:
        rows = self.candidates()
        if not self.reader.knows(self.candidate):
            return self.page(rows.filter(pk=pk), CandidateShown)
        return self.page(
            known_candidates(self.reader, rows).filter(name=self.candidate.name), CandidateShown
        )

    @operation(
        "revise_candidate",
        "Revise a candidate",
        body=CandidateChanges,
        sent={"system_prompt": "Answer in one short sentence."},
        answer=CandidateShown,
        shown=SHOWN | {"id": 18, "version": 2, "system_prompt": "Answer in one short sentence."},
        status=201,
        or_status=200,
        description="Creates the next version. A version that has not been used yet is changed in "
        "place, and a request without changes returns it as it is. If the previous version is not "
        "disclosed yet, `private_until_votes` or `private_until` is required: null makes the next "
        "one public at once.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        self.require_change()
        data = self.validated(CandidateChanges)
        revised = revise_candidate(
            candidate=self.candidate,
            by=self.actor,
            now=timezone.now(),
            says_privacy=not data.keys().isdisjoint(Candidate.PRIVACY),
            **data,
        )
        return self.shown(revised) if revised.pk == pk else self.created(revised)


class Retire(OfCandidates):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "retire_candidate",
        "Archive a candidate, for good",
        answer=CandidateShown,
        shown=SHOWN | {"retired_at": "2026-11-22T09:00:00Z"},
        description="Raters no longer see it, and any run that generates its answers is cancelled. "
        "Its votes still count, and it stays on the leaderboard. The arena's team can also archive "
        "candidates of other teams.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        refuse_unless(self.actor, can_retire(self.actor, self.candidate))
        retire_candidate(candidate=self.candidate, by=self.actor, now=timezone.now())
        return self.shown(self.candidate)


class ArchivedGiven(StrictSerializer):
    """The candidates to archive."""

    ids = serializers.ListField(
        child=serializers.IntegerField(min_value=1),
        min_length=1,
        max_length=MOST_ARCHIVED,
        help_text="Ids of candidates of your own team.",
    )


class ArchivedShown(serializers.Serializer[Any]):
    """The candidates that are archived now."""

    candidates = CandidateShown(many=True)


class Archive(OfCandidates):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "archive_candidates",
        "Archive several candidates, for good",
        body=ArchivedGiven,
        sent={"ids": [17]},
        answer=ArchivedShown,
        shown={"candidates": [SHOWN | {"retired_at": "2026-11-22T09:00:00Z"}]},
        description="Archives all of them, or none if one is not your team's. Those that are "
        "archived already stay as they are.",
    )
    def post(self, request: Request, slug: str) -> Response:
        own = {
            each.pk: each
            for each in changeable_candidates(self.actor, self.arena, self.candidates())
        }
        if not own:
            self.require(TeamPermission.SUBMIT, self.arena.team_id)
        ids = sorted(set(self.validated(ArchivedGiven)["ids"]))
        if others := [pk for pk in ids if pk not in own]:
            sentence = f"Not your team’s candidates in this arena: {', '.join(map(str, others))}."
            raise Unprocessable(sentence, [{"pointer": "#/ids", "detail": sentence}])
        chosen = [own[pk] for pk in ids]
        retire_candidates(candidates=chosen, by=self.actor, now=timezone.now())
        context = self.get_serializer_context()
        return Response(ArchivedShown({"candidates": chosen}, context=context).data)
