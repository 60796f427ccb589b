"""The models of the arena app, one file per subject."""

from arena.calls.models import Call, Capability, EndpointPace, Price, RunRequester
from arena.models.arenas import Arena
from arena.models.backups import Backup
from arena.models.candidates import Candidate
from arena.models.imports import Import
from arena.models.prompts import Prompt
from arena.models.responses import Response
from arena.models.runs import Run
from arena.models.teams import (
    ApiToken,
    AuditEntry,
    Delivery,
    IdempotentRequest,
    Invitation,
    Membership,
    Notice,
    RateLimit,
    Role,
    Team,
    Webhook,
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
    RunRater,
    Uncounted,
    Vote,
    VoteChannel,
)
