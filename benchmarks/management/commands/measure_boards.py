"""Measure leaderboards: how fresh they are, and what refreshing 22 of them costs."""

import os
import subprocess
import sys
from argparse import ArgumentParser
from dataclasses import astuple
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from arena.models import Arena
from benchmarks import freshness, refreshes, results, sample
from benchmarks.refreshes import Bounds
from benchmarks.serving import REPOSITORY
from benchmarks.stored import Sizes

CROWD = Sizes("crowd", 9_000, 59, prompts=13, people=124, judges=0, categories=0)
FEW, MANY = 100_000, 1_000_000


class Command(BaseCommand):
    help = "Measure how fresh leaderboards are, and what refreshes of 22 of them cost."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--many", type=int, default=MANY, help="Votes of the largest arena.")

    def handle(self, *_: Any, many: int, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        call_command("load_sample", quiet=True)
        crowd = stored(CROWD)
        with freshness.everything_running():
            fresh = [
                freshness.measure(Arena.objects.get(slug=sample.SLUG), most_seconds=3),
                freshness.measure(crowd, most_seconds=5),
            ]
        measured = [
            refreshes.measure(
                stored(Sizes(f"few-{candidates}", FEW, candidates)),
                f"{FEW:,} votes on {candidates} candidates",
                Bounds(cpu),
            )
            for candidates, cpu in ((8, 2.5), (60, 5.0))
        ]
        measured.append(
            refreshes.measure(
                stored(Sizes("many", many, 60)),
                f"{many:,} votes on 60 candidates, older intervals",
                Bounds(cpu=12, megabytes=1300),
                borrows=True,
            )
        )
        self.stdout.write(refreshes.table(fresh, measured))
        lines = [*fresh, *(line for one in measured for line in one.lines())]
        if missed := results.missed(lines):
            raise CommandError(missed)


def stored(sizes: Sizes) -> Arena:
    """Store an arena in a process of its own, so that its memory is not measured."""
    command = [sys.executable, "manage.py", "store_votes", *map(str, astuple(sizes))]
    subprocess.run(command, cwd=REPOSITORY, env=os.environ, check=True)
    return Arena.objects.get(slug=sizes.slug)
