"""`manage.py rebuild_tallies`: recompute the running tallies and say whether they had drifted."""

import time
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.models import Arena
from ranking.models import ArenaRefresh
from ranking.services import boards, rebuilding
from ranking.services.refresh import let_go

LEASE = timedelta(minutes=5)


class Command(BaseCommand):
    help = "Recompute the running tallies from the votes; fail where they had drifted."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arenas", nargs="*", help="Slugs; all arenas when none is given.")
        parser.add_argument(
            "--wait", type=float, default=60.0, help="Seconds to wait for a running refresh."
        )

    def handle(self, *args: Any, arenas: list[str], wait: float, **options: Any) -> None:
        drifted = [arena.slug for arena in self._find(arenas) if self._rebuild(arena, wait)]
        if drifted:
            raise CommandError(
                f"The tallies of {', '.join(drifted)} had drifted; they are right now."
            )

    def _find(self, slugs: list[str]) -> list[Arena]:
        found = Arena.objects.order_by("slug")
        if not slugs:
            return list(found)
        known = {arena.slug: arena for arena in found.filter(slug__in=slugs)}
        if missing := sorted(set(slugs) - set(known)):
            raise CommandError(f"There is no arena {', '.join(missing)}.")
        return [known[slug] for slug in slugs]

    def _rebuild(self, arena: Arena, wait: float) -> bool:
        boards.open_arena(arena_id=arena.pk)
        token = self._claim(arena, wait)
        started = time.monotonic()
        try:
            found = rebuilding.rebuild(arena_id=arena.pk, token=token)
        finally:
            let_go(token, look_again=True)
        seconds = time.monotonic() - started
        for sentence in found:
            self.stdout.write(f"{arena.slug}: {sentence}")
        if not found:
            self.stdout.write(f"{arena.slug}: as they should be ({seconds:.1f} s)")
        return bool(found)

    def _claim(self, arena: Arena, wait: float) -> Any:
        """Take the arena from its refreshes, which fold meanwhile otherwise."""
        until = time.monotonic() + wait
        while True:
            row = ArenaRefresh.objects.filter(arena=arena)
            row.filter(token=None).update(not_before=None)
            token = ArenaRefresh.objects.claim(arena.pk, timezone.now(), LEASE)
            if token is not None:
                return token
            if time.monotonic() > until:
                raise CommandError(f"{arena.slug} is being refreshed; try again later.")
            time.sleep(0.2)
