"""What killed workers left behind, put right every few seconds."""

from datetime import datetime

from arena.calls import claiming, pausing
from arena.calls.models import Call

AT_MOST = 500


def sweep(*, now: datetime) -> None:
    """Write off requests whose worker died, end what waits in vain, pause runs that are stuck.

    Calls of runs that are paused or cancelled are freed too: nobody else would take their money
    out of what is reserved.
    """
    free_abandoned(now=now)
    end_what_waits_in_vain(now=now)
    pausing.pause_stuck_runs()


def free_abandoned(*, now: datetime) -> int:
    """Free the calls whose lease has ended; return how many."""
    left = Call.objects.filter(state=Call.State.RUNNING, lease_expires_at__lte=now)
    calls = list(left.order_by("lease_expires_at")[:AT_MOST])
    return sum(claiming.abandon(call=call, now=now) for call in calls)


def end_what_waits_in_vain(*, now: datetime) -> int:
    """End calls that need one which ended without a reply before they were written."""
    vain = Call.objects.filter(state=Call.State.WAITING, needs__state__in=claiming.WITHOUT_REPLY)
    needed = [call.needs_id for call in vain.order_by("pk")[:AT_MOST] if call.needs_id]
    return claiming.end_those_in_need(call_ids=needed, now=now)
