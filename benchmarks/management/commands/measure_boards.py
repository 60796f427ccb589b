"""Measure refreshes at 100,000 and 10,000,000 stored votes. `make bench` gives it a database."""

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from benchmarks import refreshes, results
from benchmarks.stored import Sizes, store

SMALL, LARGE = 100_000, 10_000_000
ROUNDS = 7


class Command(BaseCommand):
    help = "Measure refreshes of boards on PostgreSQL, beside a rebuild from the votes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--large", type=int, default=LARGE, help="Votes of the larger arena.")
        parser.add_argument("--rounds", type=int, default=ROUNDS)

    def handle(self, *_: Any, large: int, rounds: int, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("This is measured on PostgreSQL.")
        call_command("migrate", verbosity=0)
        arenas = store([Sizes("small", SMALL), Sizes("large", large)])
        timings = refreshes.measure(*arenas, rounds)
        text = refreshes.table(timings)
        self.stdout.write(text)
        if missed := results.missed(refreshes.lines(timings)):
            raise CommandError(missed)
