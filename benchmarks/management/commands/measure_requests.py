"""Measure the processor time of a request. `make bench` runs it on databases of its own."""

import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from benchmarks import contests, sample
from benchmarks.load import Script, play
from benchmarks.results import machine
from benchmarks.sample import Person
from benchmarks.serving import Web, serving

GZIP = b"\x1f\x8b"
CONNECTIONS, SECONDS, ROUNDS, PROCESSES, THREADS = 8, 2.0, 5, 1, 8
RATERS_PER_TURN = 300  # a turn ends before all of them have voted on all their pairs


class Command(BaseCommand):
    help = "Measure the processor time of pages and votes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rounds", type=int, default=ROUNDS)

    def handle(self, *_: Any, rounds: int, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        arena = sample.load()
        count = (rounds + 1) * RATERS_PER_TURN
        voters = iter(sample.people(arena, count, contests.PAIRS_EACH))
        newcomers = iter(sample.newcomers(arena, count))
        sample.settle()
        scripts: dict[str, Callable[[], Script]] = {
            "/healthz": lambda: contests.reading("/healthz", b"alive"),
            "Home page": lambda: contests.reading("/", GZIP),
            "Leaderboard": lambda: contests.reading(f"/a/{sample.SLUG}/", GZIP),
            "Vote": lambda: contests.voting(each_once(voters)),
            "Vote with the next pair": lambda: contests.voting_on(each_once(newcomers)),
        }
        with serving(os.environ, processes=PROCESSES, threads=THREADS) as web:
            for script in scripts.values():
                turn(web, script)  # to warm up
            rows = [
                {name: turn(web, script) for name, script in scripts.items()} for _ in range(rounds)
            ]
        self.stdout.write(
            f"{machine()}; {PROCESSES} process of {THREADS} threads, {CONNECTIONS} connections,"
            f" {rounds} rounds of {SECONDS:g} s each, in turn. Median (smallest to largest).\n\n"
            "| | ms of CPU | requests/s | p95, ms |\n|---|---|---:|---:|"
        )
        for name in scripts:
            cpu, rate, p95 = zip(*(row[name] for row in rows), strict=True)
            spread = f"{median(cpu):.2f} ({min(cpu):.2f} to {max(cpu):.2f})"
            self.stdout.write(f"| {name} | {spread} | {median(rate):,.0f} | {median(p95):.1f} |")


def turn(web: Web, script: Callable[[], Script]) -> tuple[float, float, float]:
    """Milliseconds of CPU per request, requests per second, and the 95th percentile in ms."""
    times: list[float] = []
    before = cpu_seconds(web.process.pid)
    scripts = [script() for _ in range(CONNECTIONS)]
    play(web.address, scripts, seconds=SECONDS, on_answer=lambda it: times.append(it.seconds))
    used = cpu_seconds(web.process.pid) - before
    return 1000 * used / len(times), len(times) / SECONDS, 1000 * quantiles(times, n=20)[18]


def cpu_seconds(root: int) -> float:
    """The processor time of a process and of all those below it."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(stat.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    family = {root}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def each_once(people: Iterator[Person]) -> Iterator[Person]:
    """Yield each person once; running out is an error, as it would look like a slow server."""
    yield from people
    raise RuntimeError("All raters have voted: measure with more of them.")
