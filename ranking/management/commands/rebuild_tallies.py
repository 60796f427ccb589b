"""`manage.py rebuild_tallies`: recompute the running tallies and report drift."""

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.management.terminal import find_arenas
from arena.models import Arena
from ranking.models import ArenaRefresh
from ranking.services import fold, leases, vote_log
from ranking.services.refresh import release

LEASE = timedelta(minutes=5)
MOST_FAULTS = 20


class Command(BaseCommand):
    help = "Recompute the running tallies from the votes; fail if they had drifted."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arenas", nargs="*", help="Slugs of arenas; all arenas if omitted.")
        parser.add_argument(
            "--wait", type=float, default=60.0, help="Seconds to wait for a running refresh (60)."
        )

    def handle(self, *args: Any, arenas: list[str], wait: float, **options: Any) -> None:
        drifted = [
            arena.slug
            for arena in find_arenas(arenas, hidden_too=True)
            if self._rebuild(arena, wait)
        ]
        if drifted:
            raise CommandError(
                f"The tallies of {', '.join(drifted)} had drifted. They are now correct."
            )

    def _rebuild(self, arena: Arena, wait: float) -> bool:
        started = time.monotonic()
        with leased(arena, wait) as token:
            try:
                differences = fold.rebuild(arena_id=arena.pk, token=token)
            except vote_log.BrokenLogError as error:
                for line in list_faults(error.args):
                    self.stdout.write(f"{arena.slug}: {line}")
                raise CommandError(
                    f"The votes of {arena.slug} do not match its log. Nothing was rebuilt."
                ) from None
        seconds = time.monotonic() - started
        for difference in differences:
            self.stdout.write(f"{arena.slug}: {difference}")
        if not differences:
            self.stdout.write(f"{arena.slug}: correct ({seconds:.1f} s)")
        return bool(differences)


@contextmanager
def leased(arena: Arena, wait: float) -> Iterator[uuid.UUID]:
    """Lease the arena, so that no refresh folds votes meanwhile; the next one follows at once."""
    leases.open_arena(arena_id=arena.pk)
    token = _claim(arena, wait)
    try:
        yield token
    finally:
        release(token, is_stale=True, recheck_at=timezone.now())


def _claim(arena: Arena, wait: float) -> uuid.UUID:
    deadline = time.monotonic() + wait
    while True:
        ArenaRefresh.objects.filter(arena=arena, token=None).update(not_before=None)
        token = ArenaRefresh.objects.claim(arena.pk, timezone.now(), LEASE)
        if token is not None:
            return token
        if time.monotonic() > deadline:
            raise CommandError(f"{arena.slug} is being refreshed. Try again later.")
        time.sleep(0.2)


def list_faults(faults: Sequence[str]) -> list[str]:
    """The first faults, and how many more there are."""
    more = len(faults) - MOST_FAULTS
    return [*faults[:MOST_FAULTS], *([f"... and {more:,} more."] if more > 0 else [])]
