"""Doorbells: load, call a service. The database knows what there is to do."""

from celery import shared_task
from django.core.management import call_command
from django.utils import timezone

from arena.answers import keeping, making, ordering
from arena.calls.services import MOST_RUNG, calls_to_ring, sweep
from arena.models import Run
from arena.services import deliveries, disclosure, idempotency, limits, runs


@shared_task
def tend_runs() -> None:
    """Open ordered runs of people, ask again for what expired, close what is complete."""
    for run in Run.objects.of_people().unfinished().order_by("pk"):
        runs.tend_run(run=run, now=timezone.now())


@shared_task
def disclose_candidates() -> None:
    """Name the candidates whose votes or whose date has come."""
    disclosure.disclose_due(now=timezone.now())


@shared_task
def forget_old_requests() -> None:
    """Let go of Idempotency-Keys that have had their day."""
    idempotency.forget_old_requests(now=timezone.now())


@shared_task
def forget_old_windows() -> None:
    """Let go of what was counted for rate limits, by address among others, once it is long over."""
    limits.forget_old_windows(now=timezone.now())


@shared_task
def forget_expired_sessions() -> None:
    """Let go of the sessions of people who have not come back."""
    call_command("clearsessions")


# -- Answers ---------------------------------------------------------------------------------------


@shared_task
def make_answer(call_id: int, then_ring: bool = False) -> None:
    """Ask for one answer; a doorbell rung twice, or for nothing, does no harm."""
    making.make_answer(call_id=call_id)
    if then_ring:
        ring_answers()


@shared_task
def sweep_answers() -> None:
    """Free, keep and give up what was left behind, and ring for answers that are due."""
    sweep(now=timezone.now())
    ordering.give_up_left_behind(now=timezone.now())
    keeping.tend_runs(now=timezone.now())
    ring_answers()


def ring_answers() -> int:
    """Ring for every answer that may be asked for now, and say how many there were.

    Of a full batch the middle one rings for the next, so workers need not wait for the sweep.
    """
    calls = calls_to_ring(now=timezone.now(), kind=Run.Kind.ANSWERS)
    middle = len(calls) // 2 if len(calls) > MOST_RUNG // 2 else -1
    for position, call_id in enumerate(calls):
        make_answer.delay(call_id, then_ring=position == middle)
    return len(calls)


# -- Notices ---------------------------------------------------------------------------------------


@shared_task
def send_delivery(delivery_id: int) -> None:
    """Send one notice to one webhook or one member; rung twice it is sent once."""
    deliveries.deliver(delivery_id=delivery_id, now=timezone.now())


@shared_task
def send_deliveries() -> None:
    """Ring for every delivery that is due, each by itself, so that a slow receiver delays none."""
    for delivery_id in deliveries.deliveries_to_ring(now=timezone.now()):
        send_delivery.delay(delivery_id)
