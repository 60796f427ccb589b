"""`manage.py drill`: says what happens instead."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    help = "Removed: the leaderboard itself says how few votes would change number one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs="*", help="Not used.")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(
            "Attacks are not simulated any more. The methodology page of a leaderboard says how few"
            " votes, and whether one rater or prompt less, would change number one."
        )
