"""`manage.py refresh_boards`: publish leaderboards now, without a worker."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from arena.management.terminal import find_arenas
from arena.models import Arena
from ranking.models import ArenaRefresh, Board
from ranking.services import elo as elo_service
from ranking.services import leases, refresh


class Command(BaseCommand):
    help = "Publish the leaderboards of the named arenas (or of all) now, without a worker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slugs", nargs="*", metavar="SLUG")

    def handle(self, *_: Any, slugs: list[str], **options: Any) -> None:
        for arena in find_arenas(slugs):
            self.stdout.write(f"{arena.slug}: {_refresh_in_words(arena)}")


def _refresh_in_words(arena: Arena) -> str:
    """Refresh without waiting for the pause; return a sentence about the result."""
    leases.open_arena(arena_id=arena.pk)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    published = refresh.refresh_arena(arena_id=arena.pk, now=timezone.now())
    elo_service.add_intervals(arena_id=arena.pk, now=timezone.now())
    row = ArenaRefresh.objects.get(arena=arena)
    if row.token:
        return "skipped: another refresh is running"
    problems = [row.problem, *Board.objects.filter(arena=arena).values_list("problem", flat=True)]
    count = f"{len(published)} leaderboard{'' if len(published) == 1 else 's'} published"
    if problem := "; ".join(filter(None, problems)):
        return f"{count}, with problems: {problem}"
    return count if published else "up to date"
