"""A judge that the operator has blocked while it was asked: no more is paid for its verdicts."""

from datetime import datetime

from arena.calls.models import RunAsker
from arena.calls.services import pause_asker
from arena.models import Run
from judges.models import Epoch

BLOCKED = "The operator has blocked {epoch}, so nothing more is asked of it."


def pause_blocked_judges(*, now: datetime) -> int:
    """Pause the askers of blocked judges in open runs; return how many there were.

    A run that somebody lets go on is open again, and so found again.
    """
    at_work = RunAsker.objects.filter(run__state=Run.State.OPEN, paused_at=None)
    blocked = Epoch.objects.filter(
        rater__blocked_at__isnull=False, asker__in=at_work.values("asker")
    )
    epochs = {epoch.asker: epoch for epoch in blocked.select_related("judge")}
    found = list(at_work.filter(asker__in=epochs)) if epochs else []
    for one in found:
        reason = BLOCKED.format(epoch=epochs[one.asker])
        pause_asker(run_id=one.run_id, asker=one.asker, reason=reason, now=now)
    return len(found)
