"""The models of the arena app, one file per subject."""

from arena.calls.models import (
    Call,
    Capability,
    EndpointPace,
    ModelEndpoint,
    Price,
    RunRequester,
)
from arena.models.arenas import Arena
from arena.models.audit import AuditEntry
from arena.models.backups import Backup
from arena.models.candidates import Candidate
from arena.models.checks import AnswerCheck, AnswerCheckQuerySet
from arena.models.comparisons import Comparison
from arena.models.holds import Hold, Review
from arena.models.idempotency import IdempotentRequest
from arena.models.imports import Import, KeptUpload
from arena.models.invitations import Invitation
from arena.models.live import LiveConversation, LiveTurn
from arena.models.notices import Delivery, Notice, Webhook
from arena.models.pairs import Pair, PairDemand, RunRater
from arena.models.prompts import Prompt
from arena.models.rate_limits import NetworkKey, RateLimit
from arena.models.raters import ArenaTrust, Rater
from arena.models.responses import Response
from arena.models.runs import Run
from arena.models.site import SiteSettings
from arena.models.teams import Membership, Role, Team
from arena.models.tokens import ApiToken
from arena.models.votes import Outcome, Reason, Vote, VoteChannel
