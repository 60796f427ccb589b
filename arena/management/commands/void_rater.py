"""`manage.py void_rater ID --reason TEXT`: void all votes of a rater and block them."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.actors import CLI
from arena.models import Rater
from arena.services.voting import void_rater


class Command(BaseCommand):
    help = "Void all of a rater's votes and block new ones."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("rater", type=int, help="the rater's id, as shown in the admin")
        parser.add_argument("--reason", required=True, help="the reason, stored with each vote")

    def handle(self, *args: Any, rater: int, reason: str, **options: Any) -> None:
        row = Rater.objects.filter(pk=rater).first()
        if row is None:
            raise CommandError(f"There is no rater {rater}.")
        reason = reason.strip()[:200]
        if not reason:
            raise CommandError("The reason is empty.")
        voided = void_rater(rater=row, by=CLI, reason=reason, now=timezone.now())
        self.stdout.write(f"{voided} votes of {row} voided; new ones are refused.")
