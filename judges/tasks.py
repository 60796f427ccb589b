"""Celery tasks of judges. The database knows what is due, so running a task twice is harmless."""

from celery import shared_task
from django.utils import timezone

from arena.tasks import wake_workers
from judges.services.decisions import SeenBoards, write_decisions
from judges.services.drift import run_drift_checks


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
