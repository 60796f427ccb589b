"""`manage.py void_rater ID... --reason TEXT`: void all votes of raters and block them, or undo that
block."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from arena.actors import CLI
from arena.models import Rater
from arena.services.raters import unblock_rater
from arena.services.voting import void_rater


class Command(BaseCommand):
    help = "Void all votes of raters and block new ones."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "rater", type=int, nargs="+", help="the rater's id, as shown in the admin"
        )
        parser.add_argument("--reason", required=True, help="the reason, stored with each vote")
        parser.add_argument(
            "--unblock",
            action="store_true",
            help="let blocked raters vote again instead; their voided votes stay void",
        )

    def handle(
        self, *args: Any, rater: list[int], reason: str, unblock: bool, **options: Any
    ) -> None:
        found = Rater.objects.in_bulk(rater)
        for number in rater:
            if number not in found:
                raise CommandError(f"There is no rater {number}.")
        reason = reason.strip()[:200]
        if not reason:
            raise CommandError("The reason is empty.")
        for row in found.values():
            if unblock:
                changed = unblock_rater(rater=row, by=CLI, reason=reason)
                self.stdout.write(f"{row} {'may vote again' if changed else 'was not blocked'}.")
                continue
            voided = void_rater(rater=row, by=CLI, reason=reason, now=timezone.now())
            self.stdout.write(f"{voided} votes of {row} voided; new ones are refused.")
