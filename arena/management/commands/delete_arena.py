"""`manage.py delete_arena SLUG`: delete an arena with everything in it."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from arena.actors import CLI
from arena.management.terminal import confirm, find_arena
from arena.services.arenas import delete_arena


class Command(BaseCommand):
    help = "Delete an arena for good, with its prompts, candidates, answers and votes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena's slug")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *args: Any, slug: str, yes: bool, **options: Any) -> None:
        arena = find_arena(slug, hidden_too=True)
        if not yes:
            votes = arena.votes.count()
            confirm(f"Delete {arena.name} with its {votes:,} votes? Type its slug:", slug)
        delete_arena(arena=arena, by=CLI)
        self.stdout.write(f"{slug} deleted.")
