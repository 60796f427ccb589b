"""The API of the reasons that raters gave."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.api.core.schema import operation
from arena.api.core.views import ArenaEndpoint
from ranking.api.votes import TAG
from ranking.reasons import NamedReason, count_reasons

REASON: dict[str, Any] = {
    "candidate_id": 17,
    "candidate": "short-answers",
    "category": "refunds",
    "tag": "missing step",
    "is_strength": False,
    "named": 12,
    "explained": 40,
    "elsewhere": 0.08,
    "odds": 0.96,
    "q": 0.02,
    "stands_out": True,
}


class ReasonShown(serializers.Serializer[Any]):
    """How often raters named a reason for or against a candidate."""

    candidate_id = serializers.IntegerField(source="candidate")
    candidate = serializers.SerializerMethodField()
    category = serializers.CharField(help_text="Empty for all prompts.")
    tag = serializers.CharField()
    is_strength = serializers.BooleanField(help_text="Whether it is a strength of the candidate.")
    named = serializers.IntegerField(help_text="Votes that named it.")
    explained = serializers.IntegerField(
        help_text="Votes with reasons that could have named it: for a strength, those the "
        "candidate did not lose; for a fault, those it did not win."
    )
    elsewhere = serializers.FloatField(
        allow_null=True,
        help_text="The share among the other candidates' votes in the category; null if there are "
        "none.",
    )
    odds = serializers.FloatField(help_text="The logarithm of the odds ratio.")
    q = serializers.FloatField(help_text="The false discovery rate of the difference.")
    stands_out = serializers.BooleanField()

    def get_candidate(self, reason: NamedReason) -> str:
        return str(self.context["names"][reason.candidate])


class ReasonsShown(serializers.Serializer[Any]):
    reasons = ReasonShown(many=True, help_text="The most striking first.")


class Reasons(ArenaEndpoint):
    tag = TAG

    @operation(
        "list_reasons",
        "List the reasons that people named for and against candidates",
        answer=ReasonsShown,
        shown={"reasons": [REASON]},
        description="Reasons in a category are listed if they stand out, or if you may know who "
        "wrote the answers to all of its prompts.",
    )
    def get(self, request: Request, slug: str) -> Response:
        candidates = self.arena.candidates.revealed()
        names = {candidate.pk: candidate for candidate in candidates}
        blind = {
            prompt.category
            for prompt in self.arena.prompts.only("arena", "category", "external_id", "retired_at")
            if prompt.category and not self.reader.reads_authors(prompt)
        }
        reasons = [
            reason
            for reason in count_reasons(self.arena)
            if reason.candidate in names and (reason.stands_out or reason.category not in blind)
        ]
        return Response(ReasonsShown({"reasons": reasons}, context={"names": names}).data)
