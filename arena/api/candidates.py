"""Candidates of an arena: listed, entered, revised as the next version, retired."""

from functools import cached_property
from typing import Any

from django.db.models import Q, QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability, may_change, may_enter, may_retire
from arena.api.arenas import team_named
from arena.api.core.endpoint import ArenaEndpoint, ListEndpoint
from arena.api.core.fields import Changes, Text
from arena.api.core.permissions import refuse_unless
from arena.api.core.schema import described
from arena.api.reading import Reader
from arena.models import Candidate, Team
from arena.services.candidates import register_candidate, retire_candidate, revise_candidate

TAG = "Candidates"
MADE_OF = ("model", "variant", "system_prompt", "user_template", "parameters", "notes")
HIDDEN = ("version", "team", *MADE_OF)
PRIVACY = ("private_until_votes", "private_until")
SENT = {
    "name": "short-answers",
    "system_prompt": "Answer in one sentence.",
    "user_template": "{{ prompt }}",
    "endpoint": "scripted",
    "model": "scripted-1",
    "parameters": {"temperature": 0},
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
    "parameters": {"temperature": 0},
    "notes": "",
    "private_until_votes": None,
    "private_until": None,
    "disclosed_at": "2026-11-22T09:00:00Z",
    "created_at": "2026-11-22T09:00:00Z",
    "retired_at": None,
}


class CandidateShown(serializers.ModelSerializer[Candidate]):
    """One version of a candidate.

    Until it is disclosed, `name` is a mask for all but its own team, and what it is made of is
    null. Its endpoint is for its team alone. To a token without the scope `read` all that is null.
    """

    team = serializers.SlugRelatedField[Team](slug_field="slug", read_only=True, allow_null=True)
    version = serializers.IntegerField(allow_null=True)
    endpoint = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    variant = serializers.CharField(allow_null=True)
    system_prompt = serializers.CharField(allow_null=True)
    user_template = serializers.CharField(allow_null=True)
    parameters = serializers.DictField(allow_null=True)
    notes = serializers.CharField(allow_null=True)

    class Meta:
        model = Candidate
        fields = [
            "id",
            "name",
            "version",
            "team",
            "endpoint",
            *MADE_OF,
            "private_until_votes",
            "private_until",
            "disclosed_at",
            "created_at",
            "retired_at",
        ]

    def to_representation(self, candidate: Candidate) -> dict[str, Any]:
        reader: Reader = self.context["reader"]
        shown: dict[str, Any] = super().to_representation(candidate)
        if not reader.is_of_team(candidate):
            shown["endpoint"] = None
        if reader.knows(candidate):
            return shown if reader.reads else shown | dict.fromkeys(MADE_OF)
        return shown | dict.fromkeys(HIDDEN) | {"name": str(candidate)}


class CandidateChanges(Changes):
    """What the next version is to have; what is not named stays. Privacy is asked for anew."""

    system_prompt = Text(required=False)
    user_template = Text(required=False)
    endpoint = serializers.CharField(
        max_length=100,
        allow_blank=True,
        required=False,
        help_text="Where its answers are generated: one that the operator lists.",
    )
    model = serializers.CharField(max_length=200, allow_blank=True, required=False)
    variant = serializers.CharField(max_length=200, allow_blank=True, required=False)
    parameters = serializers.DictField(required=False)
    notes = Text(required=False, max_length=10_000)
    private_until_votes = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=2**31 - 1
    )
    private_until = serializers.DateTimeField(required=False, allow_null=True)


class CandidateGiven(CandidateChanges):
    """A new candidate; without a team it is a token's own."""

    name = serializers.CharField(max_length=200)
    team = serializers.SlugField(required=False, help_text="Its slug. A token's own unless said.")


class CandidateFilters(filters.FilterSet):
    """What is hidden of a candidate is not found by it either."""

    name = filters.CharFilter(method="of_known", help_text="With this name alone, every version.")
    team = filters.CharFilter(
        method="of_known", field_name="team__slug", help_text="Of this team alone, by its slug."
    )
    retired = filters.BooleanFilter(
        field_name="retired_at", lookup_expr="isnull", exclude=True, help_text="Retired, or not."
    )

    class Meta:
        model = Candidate
        fields = ["name", "team", "retired"]

    def of_known(self, rows: QuerySet[Candidate], field: str, value: str) -> QuerySet[Candidate]:
        return known_to(self.request.parser_context["view"].reader, rows).filter(**{field: value})


class OfCandidates(ArenaEndpoint):
    """Whatever is about an arena's candidates."""

    tag = TAG

    @cached_property
    def reader(self) -> Reader:
        """What the actor may read in this arena."""
        return Reader(self.actor, self.arena)

    @cached_property
    def candidate(self) -> Candidate:
        """The candidate that the path names."""
        found: Candidate = get_object_or_404(self.candidates(), pk=self.kwargs["pk"])
        found.arena = self.arena
        return found

    def candidates(self) -> QuerySet[Candidate]:
        return Candidate.objects.revealed().filter(arena=self.arena).select_related("team")

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "reader": self.reader}

    def shown(self, candidate: Candidate, **options: Any) -> Response:
        """Answer with one candidate."""
        data = CandidateShown(candidate, context=self.get_serializer_context()).data
        return Response(data, **options)

    def created(self, candidate: Candidate) -> Response:
        """Answer with a candidate that is new, and where it is."""
        place = reverse("api_candidate", args=[self.arena.slug, candidate.pk])
        return self.shown(candidate, status=201, headers={"Location": place})

    def require_change(self) -> None:
        """Refuse whoever may not write new versions of the candidate, or bring answers of it."""
        refuse_unless(self.actor, may_change(self.actor, self.candidate))


class Candidates(OfCandidates, ListEndpoint):
    abilities = {"POST": Ability.SUBMIT}
    queryset = Candidate.objects.none()
    filterset_class = CandidateFilters

    @described(
        "list_candidates",
        "List the candidates of an arena, every version",
        answer=CandidateShown(many=True),
        shown=SHOWN,
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(self.candidates(), CandidateShown)

    @described(
        "register_candidate",
        "Enter a candidate",
        body=CandidateGiven,
        sent=SENT,
        answer=CandidateShown,
        shown=SHOWN,
        status=201,
        description="With an endpoint and a model its answers are generated, without an endpoint "
        "they are uploaded. `private_until_votes` and `private_until` keep its name and what it "
        "is made of from the public, and cannot be changed later.",
    )
    def post(self, request: Request, slug: str) -> Response:
        arena, given = self.arena, self.given(CandidateGiven)
        team = self._entering(given.pop("team", ""))
        if team is not None:
            refuse_unless(self.actor, may_enter(self.actor, arena, team))
        candidate = register_candidate(
            arena=arena, team=team, by=self.actor, now=timezone.now(), **given
        )
        return self.created(candidate)

    def _entering(self, slug: str) -> Team | None:
        """The team that enters it; operators enter into arenas of no team without one."""
        if not slug and self.actor.is_operator:
            return self.arena.team
        if not slug and self.actor.token is None:
            self.require(Ability.SUBMIT, self.arena.team_id)
            return self.arena.team
        return team_named(self.actor, slug)


class OneCandidate(OfCandidates):
    @described("retrieve_candidate", "Retrieve a candidate", answer=CandidateShown, shown=SHOWN)
    def get(self, request: Request, slug: str, pk: int) -> Response:
        return self.shown(self.candidate)


class Versions(OfCandidates, ListEndpoint):
    abilities = {"POST": Ability.SUBMIT}

    @described(
        "list_versions",
        "List the versions of a candidate",
        answer=CandidateShown(many=True),
        shown=SHOWN,
        description="To the public a version that is not disclosed yet stands alone.",
    )
    def get(self, request: Request, slug: str, pk: int) -> Response:
        rows = self.candidates()
        if not self.reader.knows(self.candidate):
            return self.page(rows.filter(pk=pk), CandidateShown)
        return self.page(
            known_to(self.reader, rows).filter(name=self.candidate.name), CandidateShown
        )

    @described(
        "revise_candidate",
        "Write the next version of a candidate",
        body=CandidateChanges,
        sent={"system_prompt": "Answer in one short sentence."},
        answer=CandidateShown,
        shown=SHOWN | {"id": 18, "version": 2, "system_prompt": "Answer in one short sentence."},
        status=201,
        or_status=200,
        description="A version with which nothing was made yet is changed in place. What changes "
        "nothing answers with the version as it is. Where the version before is not disclosed yet, "
        "name `private_until_votes` or `private_until`: null makes the next one public at once.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        self.require_change()
        given = self.given(CandidateChanges)
        revised = revise_candidate(
            candidate=self.candidate,
            by=self.actor,
            now=timezone.now(),
            says_privacy=not given.keys().isdisjoint(PRIVACY),
            **given,
        )
        return self.shown(revised) if revised.pk == pk else self.created(revised)


class Retire(OfCandidates):
    abilities = {"POST": Ability.SUBMIT}

    @described(
        "retire_candidate",
        "Retire a candidate, for good",
        answer=CandidateShown,
        shown=SHOWN | {"retired_at": "2026-11-22T09:00:00Z"},
        description="It is shown to no rater any more, and a run that generates its answers is "
        "cancelled. Its votes count, and it stays on the board. "
        "Its own team may, and the arena's team may retire those of other teams.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        refuse_unless(self.actor, may_retire(self.actor, self.candidate))
        retire_candidate(candidate=self.candidate, by=self.actor, now=timezone.now())
        return self.shown(self.candidate)


def known_to(reader: Reader, rows: QuerySet[Candidate]) -> QuerySet[Candidate]:
    """Those of `rows` whose name the reader may know."""
    if reader.actor.is_operator:
        return rows
    own = Q(team__in=reader.teams)
    if reader.is_of_arena:
        own |= Q(team=None)
    return rows.filter(own | Q(disclosed_at__isnull=False))
