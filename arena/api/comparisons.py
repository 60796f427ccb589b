"""Comparisons and votes: all that a rater's own client needs.

Before the vote a comparison is two texts, and nothing that tells whose they are or what was drawn.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability
from arena.api.core.endpoint import ArenaEndpoint
from arena.api.core.fields import Given
from arena.api.core.problems import TooMany, Unprocessable
from arena.api.core.schema import described
from arena.models import Comparison, Outcome, Rater, Vote
from arena.services import voting
from arena.services.raters import (
    TooManyNames,
    may_have_another,
    rater_of_name,
    rater_of_person,
)

TAG = "Comparisons and votes"
MINUTE, HOUR = 60, 3600
KEY = "0b9c1e1a-6f0e-4c8e-9a55-3d0f5f4f2b11"
OPEN = {
    "key": KEY,
    "state": "open",
    "prompt": "How do I get my money back?",
    "left": "On the page Orders, within 30 days.",
    "right": "Write to us.",
    "expires_at": "2026-11-22T09:30:00Z",
    "outcome": None,
    "candidates": None,
}
VOTED = OPEN | {
    "state": "voted",
    "outcome": "left",
    "candidates": {"left": "short-answers", "right": "polite"},
}


@dataclass(frozen=True)
class Ballot:
    """A comparison as its rater may see it, with the rater's last vote on it if there is one."""

    comparison: Any
    vote: Vote | None

    @property
    def state(self) -> str:
        if self.vote is not None:
            return "undone" if self.vote.voided_at else "voted"
        if self.comparison.skipped_at is not None:
            return "skipped"
        expires_at = self.comparison.expires_at
        return "expired" if expires_at and expires_at <= timezone.now() else "open"

    @property
    def names(self) -> dict[str, str] | None:
        """The candidates' names: for whoever's vote stands, and as the public knows them."""
        if self.state != "voted":
            return None
        return {"left": str(self.comparison.left), "right": str(self.comparison.right)}


class NamesShown(serializers.Serializer[Any]):
    left = serializers.CharField()
    right = serializers.CharField()


class ComparisonShown(serializers.Serializer[Ballot]):
    """A comparison as its rater sees it; `candidates` are their names, once the vote stands."""

    key = serializers.UUIDField(source="comparison.key")
    state = serializers.ChoiceField(choices=["open", "voted", "skipped", "expired", "undone"])
    prompt = serializers.CharField(
        source="comparison.prompt.text", allow_null=True, default=None, help_text="Markdown."
    )
    left = serializers.CharField(
        source="comparison.left_response.text", allow_null=True, default=None, help_text="Markdown."
    )
    right = serializers.CharField(
        source="comparison.right_response.text",
        allow_null=True,
        default=None,
        help_text="Markdown.",
    )
    expires_at = serializers.DateTimeField(source="comparison.expires_at", allow_null=True)
    outcome = serializers.SerializerMethodField()
    candidates = NamesShown(source="names", allow_null=True)

    @extend_schema_field(serializers.ChoiceField(choices=Outcome.choices, allow_null=True))
    def get_outcome(self, ballot: Ballot) -> str | None:
        return ballot.vote.outcome if ballot.vote and ballot.state == "voted" else None


class RaterGiven(Given):
    """Who is to be asked: a token names a rater of its arena; a person rates for themselves."""

    rater = serializers.CharField(max_length=200, required=False)


class VoteGiven(Given):
    """A verdict."""

    outcome = serializers.ChoiceField(choices=Outcome.choices)


class Comparisons(ArenaEndpoint):
    tag = TAG
    abilities = {"POST": Ability.SUBMIT}

    @extend_schema(
        operation_id="next_comparison",
        summary="Get the next comparison for a rater",
        description="One that waits for the rater comes first, so asking twice shows the same two "
        "answers. A token names the `rater`, in an arena of its own team, whoever else may vote "
        "there.",
        request=RaterGiven,
        responses={
            200: ComparisonShown,
            204: OpenApiResponse(None, description="Nothing is left for this rater."),
        },
        examples=[
            OpenApiExample("A body", value={"rater": "anna"}, request_only=True),
            OpenApiExample("An answer", value=OPEN, response_only=True),
        ],
    )
    def post(self, request: Request, slug: str) -> Response:
        arena, rater = self.arena, self._rater()
        if rater.blocked_at:
            raise voting.Blocked
        if not may_have_another(rater=rater, now=timezone.now()):
            raise TooMany("This rater was given as many comparisons as a minute allows.", MINUTE)
        comparison = voting.issue_comparison(arena=arena, rater=rater, now=timezone.now())
        if comparison is None:
            return Response(status=204)
        place = reverse("api_comparison", args=[arena.slug, comparison.key])
        found = Comparison.objects.with_texts().get(pk=comparison.pk)
        return Response(ComparisonShown(Ballot(found, None)).data, headers={"Location": place})

    def _rater(self) -> Rater:
        """The person signed in, or the one whom the token names in an arena of its team."""
        name = self.given(RaterGiven).get("rater")
        if self.actor.token is None:
            if name is not None:
                error = {"pointer": "#/rater", "detail": "You rate for yourself: name nobody."}
                raise Unprocessable(error["detail"], [error])
            return rater_of_person(user_id=self.actor.user.pk)
        self.require(Ability.SUBMIT, self.arena.team_id)
        if name is None:
            error = {"pointer": "#/rater", "detail": "A token names the rater it asks for."}
            raise Unprocessable(error["detail"], [error])
        try:
            return rater_of_name(arena=self.arena, name=name, now=timezone.now())
        except TooManyNames as refusal:
            raise TooMany(refusal.sentence, HOUR) from None


class OfComparison(ArenaEndpoint):
    """Whatever is about a comparison that was issued to whoever asks."""

    tag = TAG

    @cached_property
    def comparison(self) -> Any:
        """The comparison that the path names, if it is the actor's; nobody else's is here."""
        issued = self.arena.comparisons.filter(issued_at__isnull=False).with_texts()
        found = get_object_or_404(issued.select_related("rater"), key=self.kwargs["key"])
        if not self._is_mine(found.rater):
            raise Http404
        return found

    def _is_mine(self, rater: Rater) -> bool:
        """A token's are those of the raters named in its team's arena."""
        if self.actor.token is None:
            return rater.user_id is not None and rater.user_id == self.actor.user.pk
        is_named = rater.arena_id == self.arena.pk and rater.kind == Rater.Kind.PERSON
        return is_named and self.actor.may(Ability.SUBMIT, self.arena.team_id)

    def shown(self) -> Response:
        """Answer with the comparison as it stands."""
        found = Comparison.objects.with_texts().get(pk=self.comparison.pk)
        vote = found.votes.filter(rater=found.rater_id).order_by("-pk").first()
        return Response(ComparisonShown(Ballot(found, vote)).data)


class OneComparison(OfComparison):
    is_open = False
    abilities = {"GET": Ability.SUBMIT}

    @described(
        "retrieve_comparison",
        "Retrieve a comparison that was given to you",
        answer=ComparisonShown,
        shown=OPEN,
    )
    def get(self, request: Request, slug: str, key: UUID) -> Response:
        return self.shown()


class CastVote(OfComparison):
    abilities = {"POST": Ability.SUBMIT, "DELETE": Ability.SUBMIT}

    @described(
        "cast_vote",
        "Vote on a comparison",
        body=VoteGiven,
        sent={"outcome": "left"},
        answer=ComparisonShown,
        shown=VOTED,
        description="The same vote again is the same vote; another one is refused with 409.",
    )
    def post(self, request: Request, slug: str, key: UUID) -> Response:
        comparison = self.comparison
        outcome = self.given(VoteGiven)["outcome"]
        voting.cast_vote(
            comparison=comparison, rater=comparison.rater, outcome=outcome, now=timezone.now()
        )
        return self.shown()

    @described(
        "undo_vote",
        "Undo your last vote",
        answer=None,
        shown=None,
        status=204,
        description="Within 30 seconds. The two answers go to somebody else.",
    )
    def delete(self, request: Request, slug: str, key: UUID) -> Response:
        comparison = self.comparison
        voting.undo_vote(comparison=comparison, rater=comparison.rater, now=timezone.now())
        return Response(status=204)


class Skip(OfComparison):
    abilities = {"POST": Ability.SUBMIT}

    @described(
        "skip_comparison",
        "Pass on a comparison",
        answer=ComparisonShown,
        shown=OPEN | {"state": "skipped"},
        description="A skip is missing data, never a tie. Whoever has voted cannot skip any more.",
    )
    def post(self, request: Request, slug: str, key: UUID) -> Response:
        comparison = self.comparison
        voting.skip_comparison(comparison=comparison, rater=comparison.rater, now=timezone.now())
        return self.shown()
