"""The tables of the ledger."""

from arena.calls.models.calls import MAX_REQUESTS, Call, RunAsker
from arena.calls.models.endpoints import Capability, EndpointPace, Price

__all__ = ["MAX_REQUESTS", "Call", "Capability", "EndpointPace", "Price", "RunAsker"]
