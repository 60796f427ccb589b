"""Celery tasks of the arena: each takes only ids and calls a service.

The database records what there is to do, so a task that runs twice or for nothing does no harm, and
sweeps find whatever was lost while the broker was unavailable.
"""

import logging
from functools import partial

from celery import shared_task
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from arena.calls import scheduling
from arena.models import Run
from arena.services import candidates, clock, deliveries, expiry, live, orders, runs

logger = logging.getLogger(__name__)


@shared_task
def reconcile_runs() -> None:
    """Open ordered runs of human votes, demand expired comparisons again, close finished runs."""
    for run in Run.objects.of_people().unfinished().order_by("pk"):
        orders.reconcile_people_run(run=run, now=timezone.now())


@shared_task
def disclose_candidates() -> None:
    """Disclose the candidates that have enough votes or whose date has come."""
    candidates.disclose_due(now=timezone.now())


@shared_task
def bring_back_times() -> None:
    """Correct times written while the clock was ahead."""
    clock.bring_back_times(now=timezone.now())


is_clock_even = clock.make_clock_check()


@shared_task
def delete_old_rows() -> None:
    """Delete rows and files that are kept for a limited time, unless the clock was just set."""
    if is_clock_even():
        expiry.delete_old_rows(now=timezone.now())
        expiry.delete_old_uploads(now=timezone.now())


WOKEN = 4  # of several messages, at least one reaches a worker that has a slot


@shared_task
def make_calls(endpoint: str) -> None:
    """Make calls of one endpoint, while any is due and this worker has a slot for it."""
    scheduling.make_calls(endpoint=endpoint, wake_another=partial(make_calls.delay, endpoint))


@shared_task
def sweep_calls() -> None:
    """Recover or give up abandoned calls and orders, and wake workers for calls that are due."""
    if scheduling.is_idle():
        return
    now = timezone.now()
    scheduling.sweep(now=now)
    runs.cancel_stale_orders(now=now)
    for kind in (Run.Kind.JUDGE, Run.Kind.ANSWERS):
        runs.HANDLERS[kind]().reconcile(now)
    wake_workers()


@shared_task
def sweep_live() -> None:
    """End the live conversations whose page or process has gone, and the runs of past days."""
    now = timezone.now()
    live.settle_lost(now=now)
    live.close_past_runs(now=now)


def wake_workers() -> None:
    """Wake a few threads for every endpoint with calls due; those wake others."""
    now = timezone.now()
    for kind in (Run.Kind.JUDGE, Run.Kind.ANSWERS):
        runs.HANDLERS[kind]().before_calls(now)
    for endpoint, calls in scheduling.endpoints_with_work(now=now).items():
        for _ in range(min(calls, WOKEN)):
            make_calls.delay(endpoint)


def enqueue_due_calls() -> str:
    """Wake workers for the calls due; return a message for people if the broker is unreachable."""
    try:
        wake_workers()
    except OperationalError as error:
        return f"The broker cannot be reached ({error}). The next sweep will start the calls."
    return ""


def enqueue_on_commit() -> None:
    """Have workers start newly ordered or resumed work right after the commit."""
    transaction.on_commit(_wake_worker)


def _wake_worker() -> None:
    if trouble := enqueue_due_calls():
        logger.warning(trouble)


@shared_task
def send_delivery(delivery_id: int) -> None:
    """Send one notice to one webhook or member; enqueued twice, it is sent once."""
    deliveries.deliver(delivery_id=delivery_id, now=timezone.now())


@shared_task
def send_deliveries() -> None:
    """Enqueue every due delivery on its own, so that no slow receiver delays another."""
    for delivery_id in deliveries.take_due_deliveries(now=timezone.now()):
        send_delivery.delay(delivery_id)
