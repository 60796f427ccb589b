"""The tables of collecting, one file per subject."""

from arena.calls.models import Call, Capability, EndpointPace, Price, RunAsker
from arena.models.catalog import Arena, Candidate, Prompt, Response
from arena.models.idempotency import IdempotentRequest
from arena.models.imports import Import
from arena.models.limits import RateLimit
from arena.models.notices import Delivery, Notice, Webhook
from arena.models.pairing import Pair, PairDemand
from arena.models.raters import Rater
from arena.models.runs import Run
from arena.models.teams import ApiToken, AuditEntry, Invitation, Membership, Role, Team
from arena.models.voting import Comparison, Outcome, Vote

__all__ = [
    "ApiToken",
    "Arena",
    "AuditEntry",
    "Call",
    "Candidate",
    "Capability",
    "Comparison",
    "Delivery",
    "EndpointPace",
    "IdempotentRequest",
    "Import",
    "Invitation",
    "Membership",
    "Notice",
    "Outcome",
    "Pair",
    "PairDemand",
    "Price",
    "Prompt",
    "RateLimit",
    "Rater",
    "Response",
    "Role",
    "Run",
    "RunAsker",
    "Team",
    "Vote",
    "Webhook",
]
