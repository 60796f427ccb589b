"""`manage.py order_votes`: ask people for N votes on every pair of an arena."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.access import COMMAND
from arena.models import Arena
from arena.services.runs import order_people_run


class Command(BaseCommand):
    help = "Order N votes of people for every pair of candidates; the worker opens and closes it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the arena")
        parser.add_argument("--per-pair", type=int, required=True, help="votes for each pair")

    def handle(self, *args: Any, slug: str, per_pair: int, **options: Any) -> None:
        arena = Arena.objects.revealed().filter(slug=slug).first()
        if arena is None:
            raise CommandError(f"There is no arena {slug!r}.")
        try:
            run = order_people_run(arena=arena, per_pair=per_pair, by=COMMAND)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        self.stdout.write(
            f"Run {run.pk}: {run.votes_wanted} votes ordered. Raters of /a/{slug}/vote/ get its"
            " pairs first, and that page shows how far it is."
        )
