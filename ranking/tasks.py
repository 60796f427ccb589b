"""Celery tasks: refreshes of boards, and the sweep that finds what was missed."""

from celery import shared_task
from django.utils import timezone

from ranking.models import ArenaRefresh
from ranking.services import elo as elo_service
from ranking.services import leases, refresh


@shared_task
def refresh_arena(arena_id: int) -> None:
    for board_id in refresh.refresh_arena(arena_id=arena_id, now=timezone.now()):
        add_elo_intervals.delay(board_id)


@shared_task
def add_elo_intervals(board_id: int) -> None:
    """Give the board's current snapshot the intervals of its Elo ratings."""
    elo_service.add_intervals(board_id=board_id, now=timezone.now())


@shared_task
def sweep_boards() -> None:
    """Queue what was missed: arenas behind their votes, and snapshots without Elo intervals."""
    now = timezone.now()
    leases.open_missing()
    for refreshing in ArenaRefresh.objects.free(now).behind(now):
        refresh_arena.delay(refreshing.arena_id)
    for board_id in elo_service.boards_without_intervals(now):
        add_elo_intervals.delay(board_id)
