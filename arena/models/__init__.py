"""The tables of collecting, one file per subject."""

from arena.calls.models import Call
from arena.models.catalog import Arena, Candidate, Prompt, Response
from arena.models.imports import Import
from arena.models.limits import RateLimit
from arena.models.pairing import Pair, PairDemand
from arena.models.voting import Comparison, Outcome, Rater, Run, Vote

__all__ = [
    "Arena",
    "Call",
    "Candidate",
    "Comparison",
    "Import",
    "Outcome",
    "Pair",
    "PairDemand",
    "Prompt",
    "RateLimit",
    "Rater",
    "Response",
    "Run",
    "Vote",
]
