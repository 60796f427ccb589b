"""Measure many raters who open the vote page at once. `make bench` gives it a database."""

import os
from argparse import ArgumentParser
from statistics import median, quantiles
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from benchmarks import pages, report, results, sample
from benchmarks.load import Answer, Script, play, request
from benchmarks.results import Line
from benchmarks.serving import Web, serving

RATERS, ROUNDS = 200, 7
MOST_SECONDS = 2.0
PROCESSES, THREADS = 2, 8  # as in the Dockerfile


class Command(BaseCommand):
    help = "Measure 200 new raters who open the vote page at once, on PostgreSQL."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rounds", type=int, default=ROUNDS)

    def handle(self, *_: Any, rounds: int, **options: Any) -> None:
        call_command("migrate", run_syncdb=True, verbosity=0)
        sample.load()
        sample.settle()
        with serving(os.environ, processes=PROCESSES, threads=THREADS) as web:
            times = [_open_at_once(web) for _ in range(rounds)]
        p50s, p95s = ([quantiles(seconds, n=20)[cut] for seconds in times] for cut in (9, 18))
        value = f"{median(p95s):.2f} s ({min(p95s):.2f} to {max(p95s):.2f})"
        what = f"{RATERS} new raters open the vote page at once: p95"
        line = Line(what, f"under {MOST_SECONDS:g} s", value, median(p95s) < MOST_SECONDS)
        heading = (
            f"{report.machine_and_database()}; the web server with {PROCESSES} processes of"
            f" {THREADS} threads, just started; {rounds} rounds of {RATERS} browsers without"
            " cookies, each on a connection of its own. Median (smallest to largest)."
        )
        text = "\n".join(
            [
                heading,
                "",
                *results.targets([line]),
                "",
                f"p50: {median(p50s):.2f} s ({min(p50s):.2f} to {max(p50s):.2f});"
                f" first round: p50 {p50s[0]:.2f} s, p95 {p95s[0]:.2f} s.",
            ]
        )
        results.keep("ballot", text)
        self.stdout.write(text)
        if missed := results.missed([line]):
            raise CommandError(missed)


def _open_at_once(web: Web) -> list[float]:
    """The seconds that each browser waited for its first pair."""
    answers: list[Answer] = []
    play(web.address, [_first_visit() for _ in range(RATERS)], on_answer=answers.append)
    for answer in answers:
        if answer.status != 200 or b" rater=" not in answer.head:
            raise RuntimeError(f"An unexpected answer: {answer.status}\n{answer.body[:2000]!r}")
    return [answer.seconds for answer in answers]


def _first_visit() -> Script:
    yield request("GET", pages.VOTE, Accept_Encoding="gzip")
