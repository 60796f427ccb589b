"""`manage.py forget RATER`: remove what identifies a person who voted."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.management.terminal import confirm
from arena.models import Rater
from arena.services.privacy import AccountError, forget_rater


class Command(BaseCommand):
    help = (
        "Remove what identifies a rater: the account, the name, and what they wrote. Their votes "
        "stay under a pseudonym, so leaderboards and the vote log do not change."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("rater", type=int, help="the rater's id, as shown in the admin")
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *args: Any, rater: int, yes: bool, **options: Any) -> None:
        row = Rater.objects.select_related("user").filter(pk=rater).first()
        if row is None:
            raise CommandError(f"There is no rater {rater}.")
        name = row.user.get_username() if row.user else str(row)
        if not yes:
            confirm(f"Forget {name}? This cannot be undone. Type the rater's id:", str(rater))
        try:
            votes = forget_rater(rater=row, now=timezone.now())
        except AccountError as error:
            raise CommandError(error.message) from None
        stay = "One vote stays" if votes == 1 else f"{votes:,} votes stay"
        self.stdout.write(f"Forgotten. {stay} under a pseudonym.")
