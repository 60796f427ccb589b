"""Publish boards now, without a worker."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from arena.models import Arena
from ranking.models import ArenaRefresh, Board
from ranking.services import boards, elo_intervals, refresh


class Command(BaseCommand):
    help = "Publish the boards of the named arenas (of all, where none is named) now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slugs", nargs="*", metavar="SLUG")

    def handle(self, *_: Any, slugs: list[str], **options: Any) -> None:
        for arena in _arenas(slugs):
            self.stdout.write(f"{arena.slug}: {_refresh(arena)}")


def _arenas(slugs: list[str]) -> list[Arena]:
    arenas = Arena.objects.revealed().order_by("slug")
    found = list(arenas.filter(slug__in=slugs) if slugs else arenas)
    if missing := sorted(set(slugs) - {arena.slug for arena in found}):
        raise CommandError(f"There is no arena {', '.join(missing)}.")
    return found


def _refresh(arena: Arena) -> str:
    """Refresh without waiting for the pause, and say what came of it."""
    boards.open_arena(arena_id=arena.pk)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    published = refresh.refresh_arena(arena_id=arena.pk, now=timezone.now())
    for board in arena.boards.all():
        elo_intervals.add(board_id=board.pk, now=timezone.now())
    row = ArenaRefresh.objects.get(arena=arena)
    if row.token:
        return "another refresh is at it"
    problems = [row.problem, *Board.objects.filter(arena=arena).values_list("problem", flat=True)]
    if found := "; ".join(filter(None, problems)):
        return f"{len(published)} boards published, but: {found}"
    return f"{len(published)} boards published" if published else "nothing has changed"
