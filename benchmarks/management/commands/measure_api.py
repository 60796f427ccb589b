"""Measure the REST API against bare views and inserts. `make bench` gives it a database."""

import os
from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.test import Client
from django.urls import reverse

from benchmarks import api, contests, pages, report, results, sample
from benchmarks.contests import Measures
from benchmarks.report import queries_line, rate_line
from benchmarks.serving import Web, serving
from ranking.models import Board

BOARD, CONSTANT = "Leaderboard as JSON", "a bare view with a string"
DECISION = "A team's decision page"
LEAST_SHARE = 0.30
MOST_QUERIES = 12
MOST_QUERIES_ANEW = 26  # the checks so far and the reasons are read as well
GZIP = b"\x1f\x8b"


class Command(BaseCommand):
    help = "Measure the REST API beside bare views and inserts, on PostgreSQL."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--rounds", type=int, default=contests.ROUNDS)

    def handle(self, *_: Any, rounds: int, **options: Any) -> None:
        call_command("migrate", run_syncdb=True, verbosity=0)
        sample.load()
        desk = api.make_desk()
        sample.settle()
        with serving(os.environ) as web:
            ours, bare = api.race(desk, web.address, rounds)
            measures = _compete(web, rounds)
        anew, again = api.decision_queries(desk.team)
        lines = [
            api.bulk_line(ours, bare),
            rate_line(measures, BOARD, CONSTANT, LEAST_SHARE),
            queries_line(f"{BOARD}, stored", _board_queries(), 1),
            queries_line(DECISION, again, MOST_QUERIES),
            queries_line(f"{DECISION}, for the first time", anew, MOST_QUERIES_ANEW),
        ]
        text = f"{report.table(lines, measures)}\n{api.bulk_text(ours, bare)}\n"
        results.keep("api", text)
        self.stdout.write(text)
        if missed := results.missed(lines):
            raise CommandError(missed)


def _board() -> str:
    board = Board.objects.get(arena__slug=sample.SLUG, raters="people", category="")
    return reverse("api_board", args=[board.pk])


def _board_queries() -> int:
    client = Client()
    pages.queries(client, _board())
    return pages.queries(client, _board())


def _compete(web: Web, rounds: int) -> Measures:
    contestants = {
        CONSTANT: lambda: contests.reading("/bare/constant/", b"Hello"),
        BOARD: partial(contests.reading, _board(), GZIP),
    }
    return contests.compete(web.address, contestants, rounds)
