"""The models of the arena app, one file per subject."""

from arena.calls.models import Call, Capability, EndpointPace, Price, RunAsker
from arena.models.arenas import Arena, Candidate, Import, Prompt, Response
from arena.models.notices import Delivery, Notice, Webhook
from arena.models.runs import Run
from arena.models.teams import (
    ApiToken,
    AuditEntry,
    IdempotentRequest,
    Invitation,
    Membership,
    RateLimit,
    Role,
    Team,
)
from arena.models.voting import (
    ArenaTrust,
    Comparison,
    Hold,
    NetworkKey,
    Outcome,
    Pair,
    PairDemand,
    Rater,
    Reason,
    Uncounted,
    Vote,
    VoteChannel,
)

__all__ = [
    "ApiToken",
    "Arena",
    "ArenaTrust",
    "AuditEntry",
    "Call",
    "Candidate",
    "Capability",
    "Comparison",
    "Delivery",
    "EndpointPace",
    "Hold",
    "IdempotentRequest",
    "Import",
    "Invitation",
    "Membership",
    "NetworkKey",
    "Notice",
    "Outcome",
    "Pair",
    "PairDemand",
    "Price",
    "Prompt",
    "RateLimit",
    "Rater",
    "Reason",
    "Response",
    "Role",
    "Run",
    "RunAsker",
    "Team",
    "Uncounted",
    "Vote",
    "VoteChannel",
    "Webhook",
]
