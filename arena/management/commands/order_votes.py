"""`manage.py order_votes SLUG --per-pair N`: request N human votes for every pair."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.actors import CLI
from arena.models import Arena
from arena.services.comparisons import order_people_run


class Command(BaseCommand):
    help = "Request N human votes for every pair of candidates. A worker opens and closes the run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena's slug")
        parser.add_argument("--per-pair", type=int, required=True, help="votes for each pair")

    def handle(self, *args: Any, slug: str, per_pair: int, **options: Any) -> None:
        arena = Arena.objects.revealed().filter(slug=slug).first()
        if arena is None:
            raise CommandError(f"There is no arena {slug!r}.")
        try:
            run = order_people_run(arena=arena, per_pair=per_pair, by=CLI)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        self.stdout.write(
            f"Run {run.pk}: {run.votes_wanted} votes requested. Raters at /a/{slug}/vote/ get these"
            " pairs first; the page shows the progress."
        )
