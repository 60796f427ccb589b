"""Celery tasks of judges. The database knows what is due, so running a task twice is harmless."""

from contextlib import suppress

from celery import shared_task
from django.utils import timezone

from arena.models import Arena
from arena.tasks import is_clock_even, wake_workers
from judges.models import Epoch
from judges.services.calibration import measure_arena
from judges.services.decisions import SeenBoards, write_decisions
from judges.services.drift import run_drift_checks
from judges.services.experiments import advance_all, expire_experiments
from judges.services.honeypots import measure_finished
from judges.services.registry import JudgeError


@shared_task(ignore_result=True)
def watch_canaries() -> None:
    """Evaluate complete drift checks and honeypots, and begin the checks that are due."""
    run_drift_checks(now=timezone.now())
    measure_finished(now=timezone.now())
    wake_workers()


_seen: SeenBoards = {}


@shared_task(ignore_result=True)
def watch_decisions() -> None:
    """Store new decisions, and notify the teams."""
    write_decisions(now=timezone.now(), seen=_seen)


@shared_task(ignore_result=True)
def advance_experiments() -> None:
    """Take the next step of each running experiment."""
    if advance_all(now=timezone.now()):
        wake_workers()


@shared_task(ignore_result=True)
def delete_old_experiments() -> None:
    """Delete experiments that nobody has used for a long time, unless the clock was just set."""
    if is_clock_even():
        expire_experiments(now=timezone.now())


@shared_task(ignore_result=True)
def measure_judge(epoch_id: int, arena_id: int) -> None:
    """Measure a judge by its verdicts on pairs of an arena that people voted on."""
    epoch = Epoch.objects.select_related("judge").get(pk=epoch_id)
    with suppress(JudgeError):  # these verdicts are gone
        measure_arena(epoch=epoch, arena=Arena.objects.get(pk=arena_id), now=timezone.now())
