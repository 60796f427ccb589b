"""Celery tasks of the arena: each takes only ids and calls a service.

The database records what there is to do, so a task that runs twice or in vain does no harm, and
sweeps find whatever was lost while the broker was unavailable.
"""

import logging
from collections.abc import Callable
from functools import partial

from celery import shared_task
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from arena import generation, generation_runs
from arena.calls.scheduling import MOST_RUNG, calls_to_ring, sweep
from arena.models import Run
from arena.services import candidates, idempotency, notices, rate_limits, runs


def enqueue_due_calls(enqueue: Callable[[], int]) -> str:
    """Enqueue the calls that are due; return a message for people if the broker is unreachable."""
    try:
        enqueue()
    except OperationalError as error:
        return f"The broker cannot be reached ({error}). The next sweep will start the calls."
    return ""


@shared_task
def reconcile_runs() -> None:
    """Open ordered runs of human votes, demand expired comparisons again, close finished runs."""
    for run in Run.objects.of_people().unfinished().order_by("pk"):
        runs.reconcile_run(run=run, now=timezone.now())


@shared_task
def disclose_candidates() -> None:
    """Disclose the candidates that have enough votes or whose date has come."""
    candidates.disclose_due(now=timezone.now())


@shared_task
def forget_old_requests() -> None:
    """Delete expired idempotency keys."""
    idempotency.forget_old_requests(now=timezone.now())


@shared_task
def forget_old_windows() -> None:
    """Delete old rate-limit counts, some of which are stored by network address."""
    rate_limits.forget_old_windows(now=timezone.now())


@shared_task
def forget_expired_sessions() -> None:
    """Delete expired sessions."""
    call_command("clearsessions")


# -- Answers ---------------------------------------------------------------------------------------


@shared_task
def generate_answer(call_id: int, enqueue_next: bool = False) -> None:
    """Generate one answer, then enqueue the next ones if asked to."""
    generation.generate_answer(call_id=call_id)
    if enqueue_next:
        enqueue_answers()


@shared_task
def sweep_answers() -> None:
    """Recover or give up abandoned calls and orders, and enqueue the answers that are due."""
    sweep(now=timezone.now())
    generation_runs.cancel_stale_orders(now=timezone.now())
    generation.reconcile_runs(now=timezone.now())
    enqueue_answers()


def enqueue_answers() -> int:
    """Enqueue every answer that may be generated now; return how many there were.

    The middle one of a full batch enqueues the next batch, so workers need not wait for a sweep.
    """
    calls = calls_to_ring(now=timezone.now(), kind=Run.Kind.ANSWERS)
    middle = len(calls) // 2 if len(calls) > MOST_RUNG // 2 else -1
    for position, call_id in enumerate(calls):
        generate_answer.delay(call_id, enqueue_next=position == middle)
    return len(calls)


# -- Notices ---------------------------------------------------------------------------------------


@shared_task
def send_delivery(delivery_id: int) -> None:
    """Send one notice to one webhook or member; enqueued twice, it is sent once."""
    notices.deliver(delivery_id=delivery_id, now=timezone.now())


@shared_task
def send_deliveries() -> None:
    """Enqueue every due delivery on its own, so that no slow receiver delays another."""
    for delivery_id in notices.take_due_deliveries(now=timezone.now()):
        send_delivery.delay(delivery_id)


logger = logging.getLogger(__name__)


def enqueue_on_commit(bell: Callable[[], int]) -> None:
    """Have workers start newly ordered or resumed work right after the commit."""
    transaction.on_commit(partial(_ring, bell))


def _ring(bell: Callable[[], int]) -> None:
    if trouble := enqueue_due_calls(bell):
        logger.warning(trouble)
