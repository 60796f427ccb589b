"""Celery tasks of judges. The database knows what is due, so running a task twice is harmless."""

from celery import shared_task
from django.utils import timezone

from arena import tasks as arena_tasks
from arena.calls.scheduling import MOST_RUNG, calls_to_ring, sweep
from judges.services.calls import judge_call, settle_ready
from judges.services.decisions import SeenBoards, write_decisions
from judges.services.drift import run_drift_checks
from judges.services.runs import cancel_stale_orders, pause_blocked_judges


@shared_task(ignore_result=True)
def make_call(call_id: int, then_ring: bool = False) -> None:
    """Make one call of a judge, if it is still due."""
    judge_call(call_id=call_id)
    if then_ring:
        ring_calls()


@shared_task(ignore_result=True)
def sweep_calls() -> None:
    """Recover what killed workers left behind, and enqueue the calls that are due."""
    sweep(now=timezone.now())
    cancel_stale_orders(now=timezone.now())
    settle_ready(now=timezone.now())
    ring_calls()


def ring_calls() -> int:
    """Enqueue every call that may be made now; return how many there were.

    Judges that were blocked are paused first, because a resumed run enqueues its calls here. In a
    large batch, the call in the middle enqueues the next batch, so that workers need not wait for
    the sweep.
    """
    pause_blocked_judges(now=timezone.now())
    calls = calls_to_ring(now=timezone.now())
    middle = len(calls) // 2 if len(calls) > MOST_RUNG // 2 else -1
    for position, call_id in enumerate(calls):
        make_call.delay(call_id, then_ring=position == middle)
    return len(calls)


@shared_task(ignore_result=True)
def watch_canaries() -> None:
    """Evaluate complete drift checks, and begin those that are due."""
    run_drift_checks(now=timezone.now())
    ring_calls()


_seen: SeenBoards = {}


@shared_task(ignore_result=True)
def watch_decisions() -> None:
    """Store new conclusive decisions, and notify the teams."""
    write_decisions(now=timezone.now(), seen=_seen)


def enqueue_on_commit() -> None:
    """Have workers start new or resumed calls at once."""
    arena_tasks.enqueue_on_commit(ring_calls)
