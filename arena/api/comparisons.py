"""The API for raters: comparisons, votes and skips.

Before the vote, a comparison shows two texts, but neither their authors nor how the pair was drawn.
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

from arena.actors import TeamPermission
from arena.api.core.errors import TooMany, Unprocessable
from arena.api.core.schema import operation
from arena.api.core.serializers import StrictSerializer
from arena.api.core.views import ArenaEndpoint
from arena.models import Comparison, Outcome, Rater, Vote
from arena.services import ballots, comparisons, voting
from arena.services.rate_limits import network_of
from arena.services.raters import (
    TooManyNamesError,
    allow_comparison,
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
class IssuedComparison:
    """A comparison with the last vote of its rater, if there is one."""

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
    def left(self) -> str | None:
        return self._text(self.comparison.left_response)

    @property
    def right(self) -> str | None:
        return self._text(self.comparison.right_response)

    def _text(self, response: Any) -> str | None:
        return response and ballots.ballot_text(self.comparison, response)

    @property
    def names(self) -> dict[str, str] | None:
        """The candidates' public names, once the rater may see them."""
        if self.vote is None or self.state != "voted" or self.vote.hides_names:
            return None
        return {"left": str(self.comparison.left), "right": str(self.comparison.right)}


class NamesShown(serializers.Serializer[Any]):
    left = serializers.CharField()
    right = serializers.CharField()


class ComparisonShown(serializers.Serializer[IssuedComparison]):
    """A comparison as its rater sees it; `candidates` holds the names once the rater has voted, or,
    if an order of votes hides names, once everyone has. For people without a confirmed email
    address it holds them in a limited number of votes per network and hour.
    """

    key = serializers.UUIDField(source="comparison.key")
    state = serializers.ChoiceField(choices=["open", "voted", "skipped", "expired", "undone"])
    prompt = serializers.CharField(
        source="comparison.prompt.text", allow_null=True, default=None, help_text="Markdown."
    )
    left = serializers.CharField(allow_null=True, help_text="Markdown.")
    right = serializers.CharField(allow_null=True, help_text="Markdown.")
    expires_at = serializers.DateTimeField(source="comparison.expires_at", allow_null=True)
    outcome = serializers.SerializerMethodField()
    candidates = NamesShown(source="names", allow_null=True)

    @extend_schema_field(serializers.ChoiceField(choices=Outcome.choices, allow_null=True))
    def get_outcome(self, ballot: IssuedComparison) -> str | None:
        return ballot.vote.outcome if ballot.vote and ballot.state == "voted" else None


class RaterGiven(StrictSerializer):
    """With a token, `rater` is the name of a rater; people vote for themselves and omit it."""

    rater = serializers.CharField(max_length=200, required=False)


class VoteGiven(StrictSerializer):
    outcome = serializers.ChoiceField(choices=Outcome.choices)


class Comparisons(ArenaEndpoint):
    tag = TAG
    permissions = {"POST": TeamPermission.SUBMIT}

    @extend_schema(
        operation_id="next_comparison",
        summary="Get the next comparison for a rater",
        description="A comparison that awaits the rater's vote comes first, so repeating the "
        "request returns the same one. With a token, `rater` is required, and the arena must "
        "belong to the token's team; its setting for who can vote does not apply. Its raters count "
        "as members: of two teams' candidates, they get no pairs with exactly one of their own.",
        request=RaterGiven,
        responses={
            200: ComparisonShown,
            204: OpenApiResponse(None, description="This rater has no comparisons left."),
        },
        examples=[
            OpenApiExample("A body", value={"rater": "anna"}, request_only=True),
            OpenApiExample("An answer", value=OPEN, response_only=True),
        ],
    )
    def post(self, request: Request, slug: str) -> Response:
        arena, rater = self.arena, self._rater()
        if rater.blocked_at:
            raise voting.BlockedError
        if not allow_comparison(rater=rater, now=timezone.now()):
            raise TooMany("This rater has reached the limit of comparisons per minute.", MINUTE)
        comparison = comparisons.next_comparison(arena=arena, rater=rater, now=timezone.now())
        if comparison is None:
            return Response(status=204)
        issued = IssuedComparison(Comparison.objects.with_texts().get(pk=comparison.pk), None)
        location = reverse("api_comparison", args=[arena.slug, comparison.key])
        return Response(ComparisonShown(issued).data, headers={"Location": location})

    def _rater(self) -> Rater:
        """The signed-in person, or the rater that a token names in an arena of its team."""
        name = self.validated(RaterGiven).get("rater")
        if self.actor.token is None:
            if name is not None:
                error = {"pointer": "#/rater", "detail": "You vote as yourself: omit `rater`."}
                raise Unprocessable(error["detail"], [error])
            return rater_of_person(user_id=self.actor.user.pk)
        self.require(TeamPermission.SUBMIT, self.arena.team_id)
        if name is None:
            error = {"pointer": "#/rater", "detail": "With a token, specify the rater."}
            raise Unprocessable(error["detail"], [error])
        try:
            return rater_of_name(arena=self.arena, name=name, now=timezone.now())
        except TooManyNamesError as error:
            raise TooMany(str(error), HOUR) from None


class OfComparison(ArenaEndpoint):
    """The base of all endpoints about a comparison that was issued to the actor."""

    tag = TAG

    @cached_property
    def comparison(self) -> Any:
        """The comparison in the path; raises Http404 for another rater's."""
        issued = self.arena.comparisons.filter(issued_at__isnull=False).with_texts()
        comparison = get_object_or_404(issued.select_related("rater"), key=self.kwargs["key"])
        if not self._is_actors(comparison.rater):
            raise Http404
        return comparison

    def _is_actors(self, rater: Rater) -> bool:
        """Whether the actor votes as `rater`; a token does for raters named in its team's arena."""
        if self.actor.token is None:
            return rater.user_id is not None and rater.user_id == self.actor.user.pk
        is_named = rater.arena_id == self.arena.pk and rater.kind == Rater.Kind.PERSON
        return is_named and self.actor.may(TeamPermission.SUBMIT, self.arena.team_id)

    def shown(self) -> Response:
        comparison = Comparison.objects.with_texts().get(pk=self.comparison.pk)
        vote = comparison.votes.filter(rater=comparison.rater_id).order_by("-pk").first()
        return Response(ComparisonShown(IssuedComparison(comparison, vote)).data)


class OneComparison(OfComparison):
    is_open = False
    permissions = {"GET": TeamPermission.SUBMIT}

    @operation(
        "retrieve_comparison",
        "Retrieve a comparison that was issued to you",
        answer=ComparisonShown,
        shown=OPEN,
    )
    def get(self, request: Request, slug: str, key: UUID) -> Response:
        return self.shown()


class CastVote(OfComparison):
    permissions = {"POST": TeamPermission.SUBMIT, "DELETE": TeamPermission.SUBMIT}

    @operation(
        "cast_vote",
        "Vote on a comparison",
        body=VoteGiven,
        sent={"outcome": "left"},
        answer=ComparisonShown,
        shown=VOTED,
        description="Repeating the same vote has no effect; a different vote fails with 409.",
    )
    def post(self, request: Request, slug: str, key: UUID) -> Response:
        comparison = self.comparison
        outcome = self.validated(VoteGiven)["outcome"]
        now, is_person = timezone.now(), self.actor.token is None
        voting.cast_vote(
            comparison=comparison,
            rater=comparison.rater,
            outcome=outcome,
            now=now,
            seconds=voting.seconds_open(comparison, now) if is_person else None,
            network=network_of(request, now=now) if is_person else "",
        )
        return self.shown()

    @operation(
        "undo_vote",
        "Undo your last vote",
        answer=None,
        shown=None,
        status=204,
        description="Possible within 30 seconds, five times an hour. The pair then goes to another "
        "rater.",
    )
    def delete(self, request: Request, slug: str, key: UUID) -> Response:
        comparison = self.comparison
        voting.undo_vote(comparison=comparison, rater=comparison.rater, now=timezone.now())
        return Response(status=204)


class Skip(OfComparison):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "skip_comparison",
        "Skip a comparison",
        answer=ComparisonShown,
        shown=OPEN | {"state": "skipped"},
        description="A skip counts as missing data, never as a tie. You cannot skip a comparison "
        "that you have voted on.",
    )
    def post(self, request: Request, slug: str, key: UUID) -> Response:
        comparison = self.comparison
        voting.skip_comparison(comparison=comparison, rater=comparison.rater, now=timezone.now())
        return self.shown()
