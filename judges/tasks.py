"""Celery tasks of judges. The database knows what is due, so running a task twice is harmless."""

from celery import shared_task
from django.utils import timezone

from arena import tasks as arena_tasks
from arena.calls.scheduling import is_idle, sweep
from judges.services.calls import settle_ready
from judges.services.decisions import SeenBoards, write_decisions
from judges.services.drift import run_drift_checks
from judges.services.runs import cancel_stale_orders, pause_blocked_judges


@shared_task(ignore_result=True)
def sweep_calls() -> None:
    """Recover what killed workers left behind, and wake workers for the calls that are due."""
    if is_idle():
        return
    sweep(now=timezone.now())
    cancel_stale_orders(now=timezone.now())
    settle_ready(now=timezone.now())
    wake_workers()


def wake_workers() -> None:
    """Wake workers for the calls that are due, after pausing judges that were blocked."""
    pause_blocked_judges(now=timezone.now())
    arena_tasks.wake_workers()


@shared_task(ignore_result=True)
def watch_canaries() -> None:
    """Evaluate complete drift checks, and begin those that are due."""
    run_drift_checks(now=timezone.now())
    wake_workers()


_seen: SeenBoards = {}


@shared_task(ignore_result=True)
def watch_decisions() -> None:
    """Store new conclusive decisions, and notify the teams."""
    write_decisions(now=timezone.now(), seen=_seen)


def enqueue_on_commit() -> None:
    """Have workers start new or resumed calls at once."""
    arena_tasks.enqueue_on_commit(wake_workers)
