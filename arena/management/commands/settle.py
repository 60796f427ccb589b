"""`manage.py settle RUN --billed DOLLARS`: settle what a run may have been billed."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from arena.actors import CLI
from arena.calls.money import dollars
from arena.errors import ServiceError
from arena.models import Run
from arena.services.runs import settle
from arena.validation import dollars_argument


class Command(BaseCommand):
    help = "Settle what a run may have been billed for requests that got no answer."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=int, help="its number, as in /runs/NUMBER/")
        parser.add_argument(
            "--billed",
            type=dollars_argument,
            required=True,
            metavar="USD",
            help="what the server billed for these requests, for example 0.42; 0 for nothing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        run, billed = Run.objects.filter(pk=options["run"]).first(), options["billed"]
        if run is None:
            raise CommandError(f"There is no run {options['run']}.")
        try:
            released = settle(run=run, billed=billed, by=CLI)
        except ServiceError as error:
            raise CommandError(error.message) from None
        self.stdout.write(f"Run {run.pk}: {dollars(billed)} is booked, {dollars(released)} free.")
