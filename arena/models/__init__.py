"""The tables of collecting, one file per subject."""

from arena.calls.models import Call, Capability, EndpointPace, Price, RunAsker
from arena.models.catalog import Arena, Candidate, Prompt, Response
from arena.models.imports import Import
from arena.models.limits import RateLimit
from arena.models.pairing import Pair, PairDemand
from arena.models.voting import Comparison, Outcome, Rater, Run, Vote

__all__ = [
    "Arena",
    "Call",
    "Candidate",
    "Capability",
    "Comparison",
    "EndpointPace",
    "Import",
    "Outcome",
    "Pair",
    "PairDemand",
    "Price",
    "Prompt",
    "RateLimit",
    "Rater",
    "Response",
    "Run",
    "RunAsker",
    "Vote",
]
