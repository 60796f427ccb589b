"""Doorbells: load, call a service. The database knows what there is to do."""

from celery import shared_task
from django.utils import timezone

from arena.calls.services import MOST_RUNG, calls_to_ring, sweep
from judges.services.blocking import pause_blocked_judges
from judges.services.canaries import watch
from judges.services.decisions import Looked, write_decisions
from judges.services.judging import judge_call, settle_ready
from judges.services.ordering import give_up_left_behind


@shared_task(ignore_result=True)
def make_call(call_id: int, then_ring: bool = False) -> None:
    """Make one call of a judge; a doorbell rung twice, or for nothing, does no harm."""
    judge_call(call_id=call_id)
    if then_ring:
        ring_calls()


@shared_task(ignore_result=True)
def sweep_calls() -> None:
    """Free, settle and give up what was left behind, and ring for calls that are due."""
    sweep(now=timezone.now())
    give_up_left_behind(now=timezone.now())
    settle_ready(now=timezone.now())
    ring_calls()


def ring_calls() -> int:
    """Ring for every call that may be made now, and say how many there were.

    Judges that were blocked meanwhile are stopped first: whoever lets a run go on rings here. Of a
    full batch the middle one rings for the next, so workers need not wait for the sweep.
    """
    pause_blocked_judges(now=timezone.now())
    calls = calls_to_ring(now=timezone.now())
    middle = len(calls) // 2 if len(calls) > MOST_RUNG // 2 else -1
    for position, call_id in enumerate(calls):
        make_call.delay(call_id, then_ring=position == middle)
    return len(calls)


@shared_task(ignore_result=True)
def watch_canaries() -> None:
    """Evaluate canaries' checks that are through, and begin those that are due."""
    watch(now=timezone.now())
    ring_calls()


_looked: Looked = {}


@shared_task(ignore_result=True)
def watch_decisions() -> None:
    """Write what has become known, and tell the teams."""
    write_decisions(now=timezone.now(), looked=_looked)
