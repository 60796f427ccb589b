"""The doors through which the queue reaches the boards."""

from celery import shared_task
from django.utils import timezone

from ranking.models import ArenaRefresh
from ranking.services import boards, elo_intervals, refresh


@shared_task
def refresh_arena(arena_id: int) -> None:
    """Publish the arena's boards from the votes that are there now."""
    for board_id in refresh.refresh_arena(arena_id=arena_id, now=timezone.now()):
        add_elo_intervals.delay(board_id)


@shared_task
def add_elo_intervals(board_id: int) -> None:
    """Give the board's current snapshot the intervals of its Elo ratings."""
    elo_intervals.add(board_id=board_id, now=timezone.now())


@shared_task
def sweep_boards() -> None:
    """Ring for all that was missed: arenas behind their votes, snapshots without Elo intervals."""
    now = timezone.now()
    boards.open_missing()
    for refreshing in ArenaRefresh.objects.free(now).behind(now):
        refresh_arena.delay(refreshing.arena_id)
    for board_id in elo_intervals.missing(now):
        add_elo_intervals.delay(board_id)
