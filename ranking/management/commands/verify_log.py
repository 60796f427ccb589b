"""`manage.py verify_log [SLUG...]`: compare the votes with their signed logs."""

import secrets
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.actors import CLI
from arena.management.terminal import find_arenas
from arena.models import Arena
from arena.validation import numbered
from ranking.log import verification
from ranking.log.file import as_jsonl, write_lines
from ranking.models import ArenaRefresh
from ranking.services import leases
from ranking.services.refresh import release

HELD_FOR = timedelta(minutes=5)
MOST_FAULTS = 20


class Command(BaseCommand):
    help = (
        "Find votes that were changed, deleted or added without an entry in the log, and altered "
        "links. With --repair, accept them as they are and record that in a signed entry."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arenas", nargs="*", help="Slugs of arenas; all arenas if omitted.")
        parser.add_argument(
            "--repair",
            choices=verification.REPAIR_REASONS,
            help="Accept what was found; the log and the team's audit log keep the reason.",
        )
        parser.add_argument(
            "--export",
            type=Path,
            metavar="FILE",
            help="Write the log and its leaderboards to a file that `verify` checks anywhere.",
        )
        parser.add_argument(
            "--wait", type=float, default=60.0, help="Seconds to wait for a running refresh (60)."
        )

    def handle(
        self, *args: Any, arenas: list[str], repair: str | None, wait: float, **options: Any
    ) -> None:
        if repair and not arenas:
            raise CommandError("Specify the arenas whose logs should be repaired.")
        if options["export"]:
            self._export(arenas, options["export"])
            return
        broken = [
            arena.slug
            for arena in find_arenas(arenas, hidden_too=True)
            if self._check(arena, repair, wait)
        ]
        if broken and not repair:
            raise CommandError(f"The votes of {', '.join(broken)} do not match the log.")

    def _export(self, arenas: list[str], path: Path) -> None:
        if len(arenas) != 1:
            raise CommandError("Specify exactly one arena to export.")
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with draft.open("w", encoding="utf-8") as stream:
                stream.writelines(as_jsonl(write_lines(find_arenas(arenas, hidden_too=True)[0])))
            draft.replace(path)
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}.") from None
        finally:
            draft.unlink(missing_ok=True)
        self.stdout.write(f"{path}: the log of {arenas[0]}")

    def _check(self, arena: Arena, reason: str | None, wait: float) -> bool:
        with leased(arena, wait) as token:
            if reason:
                findings = verification.repair(arena=arena, reason=reason, by=CLI, token=token)
            else:
                findings = verification.verify(arena_id=arena.pk, token=token)
        faults = findings.sentences
        for line in list_faults(faults):
            self.stdout.write(f"{arena.slug}: {line}")
        if faults:
            accepted = ", accepted" if reason else ""
            self.stdout.write(f"{arena.slug}: {numbered(len(faults), 'fault')}{accepted}")
        elif findings.head is None:
            self.stdout.write(f"{arena.slug}: no log yet; the next refresh starts it")
        else:
            head = findings.head
            self.stdout.write(
                f"{arena.slug}: correct, {findings.n_votes:,} votes in {findings.n_links:,} links."
                f" Head: {head['number']} {head['digest']}, signed with {head['key']}"
            )
        return bool(faults)


@contextmanager
def leased(arena: Arena, wait: float) -> Iterator[uuid.UUID]:
    """Lease the arena, so that no refresh runs meanwhile; the next one follows at once."""
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
        token = ArenaRefresh.objects.claim(arena.pk, timezone.now(), HELD_FOR)
        if token is not None:
            return token
        if time.monotonic() > deadline:
            raise CommandError(f"{arena.slug} is being refreshed. Try again later.")
        time.sleep(0.2)


def list_faults(faults: Sequence[str]) -> list[str]:
    """The first faults, and how many more there are."""
    more = len(faults) - MOST_FAULTS
    return [*faults[:MOST_FAULTS], *([f"... and {more:,} more."] if more > 0 else [])]
