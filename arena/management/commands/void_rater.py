"""`manage.py void_rater ID --reason ...`: take all votes of a rater out of every count."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.access import COMMAND
from arena.models import Rater
from arena.services.voiding import void_rater


class Command(BaseCommand):
    help = "Void all votes of a rater, with a reason, and take no more of them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("rater", type=int, help="The rater's id, as the admin shows it.")
        parser.add_argument("--reason", required=True, help="Why: kept with each vote.")

    def handle(self, *args: Any, rater: int, reason: str, **options: Any) -> None:
        found = Rater.objects.filter(pk=rater).first()
        if found is None:
            raise CommandError(f"There is no rater {rater}.")
        if not reason.strip():
            raise CommandError("The reason is empty.")
        reason = reason.strip()[:200]
        voided = void_rater(rater=found, by=COMMAND, reason=reason, now=timezone.now())
        self.stdout.write(f"{voided} votes of {found} are void; new ones are refused.")
