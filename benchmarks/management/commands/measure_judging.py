"""Measure a judge run of 2,000 comparisons. `make bench` provides database, broker and model."""

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from benchmarks import judging, results

COMPARISONS = 2000


class Command(BaseCommand):
    help = "Measure a judge run through Celery on PostgreSQL and Redis."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--comparisons", type=int, default=COMPARISONS)

    def handle(self, *_: Any, comparisons: int, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("This is measured on PostgreSQL.")
        call_command("migrate", verbosity=0)
        timings = judging.measure(comparisons)
        text = judging.table(timings)
        if comparisons == COMPARISONS:
            results.keep("judging", text)
        self.stdout.write(text)
        if missed := results.missed(judging.lines(timings)):
            raise CommandError(missed)
