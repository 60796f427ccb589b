"""`manage.py rebuild_tallies`: says what happens instead."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

INSTEAD = (
    "There are no tallies any more: every refresh counts all votes, so there is nothing to rebuild."
    " `verify_log` compares the votes with their log, `refresh_boards` computes the leaderboards."
)


class Command(BaseCommand):
    help = "Removed: every refresh counts all votes. This command will go in the next release."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arenas", nargs="*", help="Not used.")
        parser.add_argument("--wait", type=float, help="Not used.")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(INSTEAD)
