"""Measure the product against bare views. `make bench` runs it on a database of its own."""

import os
from argparse import ArgumentParser
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from benchmarks import contests, pages, report, results, sample
from benchmarks.contests import Measures
from benchmarks.report import p95_line, queries_line, rate_line, weight_line
from benchmarks.results import Line
from benchmarks.sample import Person
from benchmarks.serving import Web, serving

INSERT, CONSTANT = "a bare view with one INSERT", "a bare view with a string"
VOTE, VOTE_ON, BOARD = "Vote", "Vote with the next pair", "Stored leaderboard page"
HOME = "Stored home page"
GZIP = b"\x1f\x8b"
# A turn takes 32 raters and, at 1,000 votes a second, fifty more.
RATERS_PER_TURN = 82


class Command(BaseCommand):
    help = "Measure the product beside bare views. `make bench` runs it on a database of its own."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rounds", type=int, default=contests.ROUNDS)

    def handle(self, *_: Any, rounds: int, **options: Any) -> None:
        voters, newcomers = _prepare(turns=rounds + 1)
        made_anew, stored = pages.board_queries()
        with serving(os.environ) as web:
            weights = [pages.weigh(web.address, page) for page in (pages.BOARD, pages.VOTE)]
            measures = _compete(web, voters, newcomers, rounds)
        lines = [
            *_speed(measures),
            queries_line("Leaderboard page, stored", stored, 1),
            queries_line("Leaderboard page, recomputed", made_anew, 6),
            *map(weight_line, weights),
        ]
        text = report.table(lines, measures)
        results.keep("votes", text)
        self.stdout.write(text)
        if missed := results.missed(lines):
            raise CommandError(missed)


def _prepare(turns: int) -> tuple[list[Person], list[Person]]:
    call_command("migrate", run_syncdb=True, verbosity=0)
    arena = sample.load()
    count = turns * RATERS_PER_TURN
    people = sample.people(arena, count, contests.PAIRS_EACH), sample.newcomers(arena, count)
    sample.settle()
    return people


def _compete(web: Web, voters: list[Person], newcomers: list[Person], rounds: int) -> Measures:
    votes, onward, others = _each_once(voters), _each_once(newcomers), _each_once(voters)
    contestants = {
        INSERT: lambda: contests.inserting(others),
        VOTE: lambda: contests.voting(votes),
        VOTE_ON: lambda: contests.voting_on(onward),
        CONSTANT: lambda: contests.reading("/bare/constant/", b"Hello"),
        BOARD: partial(contests.reading, pages.BOARD, GZIP),
        HOME: partial(contests.reading, "/", GZIP),
    }
    return contests.compete(web.address, contestants, rounds)


def _each_once(people: list[Person]) -> Iterator[Person]:
    """Yield each person once; running out is an error, as it would look like a slow server."""
    yield from people
    raise RuntimeError("All raters have voted: measure with more of them.")


def _speed(measures: Measures) -> list[Line]:
    return [
        rate_line(measures, VOTE, INSERT, 0.60),
        rate_line(measures, VOTE_ON, INSERT, 0.35),
        p95_line(measures, VOTE, INSERT, 3),
        p95_line(measures, VOTE_ON, INSERT, 3),
        rate_line(measures, BOARD, CONSTANT, 0.30),
        rate_line(measures, HOME, CONSTANT, 0.25),
    ]
