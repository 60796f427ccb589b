"""Celery tasks: refreshes of boards, exports, and the sweeps that find what was missed.

Arenas take turns by what they are expected to cost: those whose refresh takes long have a queue and
one place of their own, so that none of the others ever waits for one of them.
"""

import ctypes
import logging
from collections.abc import Callable
from functools import wraps
from threading import Lock
from time import monotonic
from typing import Any

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from ranking.models import ArenaRefresh
from ranking.services import anomalies, exports, leases, refresh
from ranking.services import elo as elo_service
from ranking.views import pictures

logger = logging.getLogger(__name__)

LONG_REFRESH = 1.0  # seconds
LARGE_KEPT_FOR = 60.0  # seconds: what waited longer is found by the sweep again
_large_place = Lock()  # one machine has threads for all queues in one process


def in_turn(work: Callable[[int], None]) -> Callable[[Any, int], None]:
    """Make of work on an arena a bound task that waits among its like."""

    @wraps(work)
    def take_turn(task: Any, arena_id: int) -> None:
        queue = (task.request.delivery_info or {}).get("routing_key")
        if queue == settings.LARGE_FITS:
            if _large_place.acquire(blocking=False):  # else the sweep comes again
                try:
                    work(arena_id)
                finally:
                    _large_place.release()
        elif not task.request.called_directly and leases.is_large(arena_id):
            large = settings.LARGE_FITS
            task.apply_async([arena_id], queue=large, routing_key=large, expires=LARGE_KEPT_FOR)
        else:
            work(arena_id)

    return take_turn


@shared_task(bind=True)
@in_turn
def refresh_arena(arena_id: int) -> None:
    started = monotonic()
    if refresh.refresh_arena(arena_id=arena_id, now=timezone.now()):
        add_elo_intervals.delay(arena_id)
        pictures.draw_ahead(arena_id)
    if monotonic() - started > LONG_REFRESH:
        give_back_memory()


def give_back_memory() -> None:
    """Return freed memory to the system, which glibc keeps; a large fit leaves 50 MB of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not in other C libraries
    if trim is not None:
        trim(0)


@shared_task(bind=True)
@in_turn
def add_elo_intervals(arena_id: int) -> None:
    """Give the arena's current snapshots the intervals of their Elo ratings."""
    elo_service.add_intervals(arena_id=arena_id, now=timezone.now())


@shared_task
def sweep_boards() -> None:
    """Queue what was missed: arenas that are behind, or whose snapshots lack Elo intervals."""
    now = timezone.now()
    leases.open_missing()
    for arena_id in ArenaRefresh.objects.due(now):
        refresh_arena.delay(arena_id)
    for arena_id in elo_service.arenas_without_intervals(now):
        add_elo_intervals.delay(arena_id)


@shared_task
def examine_votes() -> None:
    """Test votes that were never tested, and hold those that look rigged."""
    for arena_id in anomalies.arenas_to_examine():
        try:
            anomalies.examine(arena_id=arena_id, now=timezone.now())
        except Exception:  # one arena must not keep the others untested
            logger.exception("The votes of arena %s could not be examined", arena_id)


@shared_task
def show_life() -> None:
    """Let `/healthz?full` see that somebody serves the queue of the other refreshes."""


_building = Lock()


@shared_task
def build_exports() -> None:
    """Build the exports that wait; one thread of a process does, as fits need the others."""
    if not _building.acquire(blocking=False):
        return
    try:
        exports.build_waiting()
    finally:
        _building.release()
    give_back_memory()


@shared_task
def sweep_exports() -> None:
    """Wake a worker for exports that wait, or that a killed worker has left."""
    if exports.has_waiting(timezone.now()):
        # While a worker is at it, messages must not pile up.
        build_exports.apply_async(expires=settings.SWEEPS[sweep_exports.name])


@shared_task
def delete_old_exports() -> None:
    exports.delete_old(timezone.now())
