"""`manage.py merge_candidates ARENA NAME... --into NAME`: let the votes of several spellings of a
name count for one candidate, or undo that."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.actors import CLI
from arena.errors import ServiceError
from arena.management.terminal import find_arena, find_candidate
from arena.models import Arena, Candidate
from arena.services.candidates import merge_candidates, undo_merges
from arena.validation import numbered


class Command(BaseCommand):
    help = (
        "Let the votes of candidates count for another one, as if they had its name. Votes and "
        "answers stay as they are, and --undo takes it back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arena", metavar="ARENA", help="the arena's slug")
        parser.add_argument("names", nargs="+", metavar="NAME", help="a name or an id")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--into", metavar="NAME", help="the candidate that their votes count for")
        what.add_argument("--undo", action="store_true", help="let them be candidates again")

    def handle(
        self, *args: Any, arena: str, names: list[str], into: str | None, undo: bool, **options: Any
    ) -> None:
        found = find_arena(arena)
        candidates = [_find(found, name) for name in names]
        try:
            if into is None:
                n = undo_merges(candidates=candidates, by=CLI)
                self.stdout.write(f"{numbered(n, 'candidate')} no longer merged.")
                return
            target = _find(found, into)
            n = merge_candidates(candidates=candidates, into=target, by=CLI, now=timezone.now())
        except ServiceError as error:
            raise CommandError(error.message) from None
        self.stdout.write(f"{numbered(n, 'candidate')} merged into {target.own_name}.")


def _find(arena: Arena, name: str) -> Candidate:
    """The candidate that has this name on the leaderboard, else as other commands find it."""
    by_name = {one.own_name: one for one in arena.candidates.revealed()}
    return by_name.get(name) or find_candidate(arena, name)
