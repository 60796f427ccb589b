"""`manage.py delete_arena`: take an arena away, votes and all."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.access import COMMAND
from arena.models import Arena
from arena.services.deleting import delete_arena


class Command(BaseCommand):
    help = "Delete an arena with its prompts, candidates, answers, votes and boards. No way back."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, slug: str, yes: bool, **options: Any) -> None:
        arena = Arena.objects.filter(slug=slug).first()
        if arena is None:
            raise CommandError(f"There is no arena {slug!r}.")
        question = f"Delete {arena.name} with its {arena.votes.count():,} votes? Type its slug: "
        if not yes and input(question) != slug:
            raise CommandError("Nothing was deleted.")
        delete_arena(arena=arena, by=COMMAND)
        self.stdout.write(f"{slug} is deleted.")
