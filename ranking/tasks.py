"""Celery tasks: refreshes of boards, exports, and the sweeps that find what was missed."""

import ctypes
from threading import Lock
from time import monotonic

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from ranking.models import ArenaRefresh
from ranking.services import anomalies, exports, leases, refresh
from ranking.services import elo as elo_service
from ranking.views import pictures

LONG_REFRESH = 1.0  # seconds


@shared_task
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


@shared_task
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
        anomalies.examine(arena_id=arena_id, now=timezone.now())


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
