"""Watching a run of judges from the command line."""

from django.utils import timezone

from arena import bells
from arena.management import following
from arena.management.following import NO_WORKER
from arena.models import Run
from judges import tasks
from judges.reports import RunReport, report_on

__all__ = ["NO_WORKER", "follow", "ring"]


def ring() -> str:
    """Ring for what is due; return a sentence where the broker does not answer."""
    return bells.ring(tasks.ring_calls)


def follow(run: Run) -> RunReport:
    """Show progress until the run ends, pauses, or nothing has moved for a while."""
    return following.follow(lambda: report_on(run.pk, timezone.now()), unit="verdict")
