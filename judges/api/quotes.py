"""Quotes of judge runs in the API, with money in dollars."""

from typing import Any

from rest_framework import serializers

from arena.api.core.serializers import Dollars
from judges.api.judges import JUDGE
from judges.services.quotes import JudgeQuote, Quote

JUDGE_QUOTE: dict[str, Any] = {
    "name": JUDGE,
    "endpoint": "scripted",
    "model": "scripted-1",
    "comparisons": 15,
    "calls": 30,
    "tokens_in": 21000,
    "tokens_out": 9000,
    "expected_cost": 0.31,
    "worst_cost": 1.4,
}
QUOTE: dict[str, Any] = {
    "pairs": 3,
    "comparisons": 15,
    "calls": 30,
    "expected_cost": 0.31,
    "worst_cost": 1.4,
    "finds": 0.92,
    "left_out": [],
    "judges": [JUDGE_QUOTE],
}


class JudgeQuoteShown(serializers.Serializer[JudgeQuote]):
    """One judge's part of a quote."""

    name = serializers.CharField(source="label")
    endpoint = serializers.CharField()
    model = serializers.CharField()
    comparisons = serializers.IntegerField()
    calls = serializers.IntegerField()
    tokens_in = serializers.IntegerField()
    tokens_out = serializers.IntegerField()
    expected_cost = Dollars(source="expected", allow_null=True)
    worst_cost = Dollars(source="worst", allow_null=True)


class QuoteShown(serializers.Serializer[Quote]):
    """What an order would buy; a cost is null without a price."""

    pairs = serializers.IntegerField()
    comparisons = serializers.IntegerField()
    calls = serializers.IntegerField()
    expected_cost = Dollars(source="expected", allow_null=True)
    worst_cost = Dollars(source="worst", allow_null=True)
    finds = serializers.FloatField(
        allow_null=True,
        help_text="The smallest win rate, of decisive verdicts, that so many prompts a pair find "
        "in 4 of 5 cases; null if they are too few for any.",
    )
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="Sentences that say what is left out, and why."
    )
    judges = JudgeQuoteShown(many=True)
