"""The ledger's door: what the floors above may do to calls and to the money of runs.

How a call is made stands in `making`; what it costs in `prices` and `money`.
"""

from arena.calls.booking import raise_cap
from arena.calls.capabilities import capability_of, probe_endpoint
from arena.calls.creating import create_calls, move_calls
from arena.calls.pausing import (
    BY_AN_OPERATOR,
    BY_THE_TEAM,
    cancel_run,
    pause_asker,
    pause_run,
    reopen_run,
    resume_run,
    why_not,
)
from arena.calls.ringing import MOST_RUNG, calls_to_ring
from arena.calls.sweeping import sweep

__all__ = [
    "BY_AN_OPERATOR",
    "BY_THE_TEAM",
    "MOST_RUNG",
    "calls_to_ring",
    "cancel_run",
    "capability_of",
    "create_calls",
    "move_calls",
    "pause_asker",
    "pause_run",
    "probe_endpoint",
    "raise_cap",
    "reopen_run",
    "resume_run",
    "sweep",
    "why_not",
]
