"""Measure the server while clients that are slow on purpose are connected. `make bench` gives it a
database.
"""

import os
from statistics import median
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from benchmarks import results, slow_clients
from benchmarks.results import Line
from benchmarks.serving import Web, serving

PROCESSES, THREADS = 1, 32


class Command(BaseCommand):
    help = "Measure /healthz beside 100 slow clients of each kind."

    def handle(self, *_: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        with serving(os.environ, processes=PROCESSES, threads=THREADS) as web:
            lines = [_line(web, kind) for kind in slow_clients.BEGINNINGS]
        heading = (
            f"{results.machine()}; granian in {PROCESSES} process of {THREADS}"
            f" threads, nothing in front of it. {slow_clients.CLIENTS} clients of a kind stay"
            f" connected for {slow_clients.WATCHED:g} s, in which /healthz is asked for again and"
            " again: slowest answer (median)."
        )
        text = "\n".join([heading, "", *results.targets(lines)])
        self.stdout.write(text)
        if missed := results.missed(lines):
            raise CommandError(missed)


def _line(web: Web, kind: str) -> Line:
    answers = slow_clients.answers_beside(web.address, slow_clients.BEGINNINGS[kind])
    if {code for code, _, _ in answers} != {200}:
        raise CommandError(f"/healthz did not answer beside {kind}.")
    seconds = [taken for _, taken, _ in answers]
    slowest, most = max(seconds), slow_clients.MOST_SECONDS
    return Line(
        f"/healthz beside {slow_clients.CLIENTS} {kind}",
        f"within {most:g} s",
        f"{slowest:.3f} s ({median(seconds):.3f})",
        slowest < most,
    )
