"""Compare an import of 1,000,000 votes with bare inserts. `make bench` gives it databases."""

import csv
import random
import resource
import tempfile
import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from arena.models import Arena, Candidate, Comparison, Prompt, Rater, Vote
from arena.services.imports import Options, import_files
from benchmarks import results
from benchmarks.report import machine_and_database
from benchmarks.results import Line
from benchmarks.sample import settle

VOTES = 1_000_000
CANDIDATES, PROMPTS, RATERS = 12, 1_000, 5_000
SEED = 7
CHUNK = 10_000  # rows prepared at a time, so that the bare inserts need little memory too
LEAST_RATIO = {"postgresql": 1.5, "sqlite": 1.0}  # by COPY, and by executemany
MOST_GROWTH = 32  # MB more for ten times as many votes
CAST_AT = datetime(2026, 11, 2, 9, tzinfo=UTC)


class Command(BaseCommand):
    help = "Measure an import of votes, with every check made, beside bulk_create of the same rows."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--votes", type=int, default=VOTES)

    def handle(self, *_: Any, votes: int, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        with tempfile.TemporaryDirectory() as folder:
            small, large = Path(folder) / "small.csv", Path(folder) / "large.csv"
            write_votes(small, votes // 10)
            write_votes(large, votes)
            import_seconds(small)
            before = megabytes()
            ours = import_seconds(large)
            grown = megabytes() - before
        bare = bare_seconds(votes)
        least = LEAST_RATIO[connection.vendor]
        ratio = f"Import of {votes:,} votes: times as fast as bulk_create of the same rows"
        lines = [
            Line(ratio, f"at least {least}", f"{bare / ours:.2f}", bare / ours >= least),
            Line(
                "Memory of an import: more for ten times as many votes",
                f"at most {MOST_GROWTH} MB",
                f"{grown:.1f} MB",
                grown <= MOST_GROWTH,
            ),
        ]
        text = "\n".join(
            [
                f"{machine_and_database()}. A CSV file with prompts, raters and times; every row is"
                " checked, written and revealed. The bare inserts are of prepared objects, whose"
                " making is not counted.",
                "",
                *results.targets(lines),
                "",
                f"Import {ours:.1f} s ({votes / ours:,.0f} votes/s), bulk_create {bare:.1f} s.",
            ]
        )
        if votes == VOTES:
            is_sqlite = connection.vendor == "sqlite"
            results.keep("imports_sqlite" if is_sqlite else "imports", text)
        self.stdout.write(text)
        if missed := results.missed(lines):
            raise CommandError(missed)


def write_votes(path: Path, votes: int) -> None:
    draw = random.Random(SEED)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["left", "right", "winner", "prompt", "worker", "cast_at"])
        for _ in range(votes):
            left, right = draw.sample(range(CANDIDATES), 2)
            outcome = draw.choice(["left", "right", "tie", "both_bad"])
            prompt, rater = draw.randrange(PROMPTS), draw.randrange(RATERS)
            names = (f"model-{left}", f"model-{right}", outcome, f"q-{prompt}", f"person-{rater}")
            writer.writerow([*names, CAST_AT.isoformat()])


def import_seconds(path: Path) -> float:
    settle()
    began = time.perf_counter()
    import_files(slug=path.stem, paths=[path], now=timezone.now(), options=Options())
    return time.perf_counter() - began


def bare_seconds(votes: int) -> float:
    """Time the inserts of as many comparisons and votes, in another arena with the same names."""
    large = Arena.objects.get(slug="large")
    if large.votes.count() != votes:
        raise CommandError(f"{large.votes.count():,} of {votes:,} votes were imported.")
    arena = Arena.objects.create(slug="bare", name="Bare")
    candidates = Candidate.objects.bulk_create(
        Candidate(arena=arena, name=f"model-{i}") for i in range(CANDIDATES)
    )
    prompts = Prompt.objects.bulk_create(
        Prompt(arena=arena, external_id=f"q-{i}") for i in range(PROMPTS)
    )
    raters = Rater.objects.bulk_create(
        Rater(arena=arena, kind=Rater.Kind.PERSON, name=f"person-{i}") for i in range(RATERS)
    )
    settle()
    draw, seconds = random.Random(SEED), 0.0
    numbers = iter(range(votes))
    while chunk := list(islice(numbers, CHUNK)):
        comparisons = []
        for _ in chunk:
            left, right = draw.sample(candidates, 2)
            comparisons.append(
                Comparison(
                    arena=arena,
                    rater=draw.choice(raters),
                    prompt=draw.choice(prompts),
                    left=left,
                    right=right,
                )
            )
        began = time.perf_counter()
        Comparison.objects.bulk_create(comparisons, batch_size=1000)
        seconds += time.perf_counter() - began
        cast = [
            Vote(
                arena=arena,
                comparison=comparison,
                rater_id=comparison.rater_id,
                outcome=draw.choice(["left", "right", "tie", "both_bad"]),
                cast_at=CAST_AT,
            )
            for comparison in comparisons
        ]
        began = time.perf_counter()
        Vote.objects.bulk_create(cast, batch_size=1000)
        seconds += time.perf_counter() - began
    return seconds


def megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
