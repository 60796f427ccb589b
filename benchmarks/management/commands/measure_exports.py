"""Measure pages while 200 clients download exports of 200,000 votes. `make bench` gives it a
database.
"""

import http.client
import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from arena.processes import PROGRAMS
from benchmarks import results
from benchmarks.results import Line
from benchmarks.serving import REPOSITORY, serving
from benchmarks.stored import Sizes, store
from ranking.services.refresh import refresh_arena

CLIENTS, VOTES, CANDIDATES = 200, 200_000, 20
PROCESSES, THREADS = 1, 32
MOST_FOR_BOARD, MOST_FOR_HEALTH = 0.25, 1.0  # seconds
PAUSE = 0.05  # between two requests that are measured
SLUG = "large"


class Command(BaseCommand):
    help = "Measure a stored leaderboard and /healthz beside 200 clients that download exports."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--votes", type=int, default=VOTES)
        parser.add_argument("--clients", type=int, default=CLIENTS)

    def handle(self, *_: Any, votes: int, clients: int, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        arena = store(Sizes(SLUG, votes, CANDIDATES))
        refresh_arena(arena_id=arena.pk, now=timezone.now())
        settings = os.environ | {"API_READS_PER_MINUTE": "1000000"}
        with serving(settings, processes=PROCESSES, threads=THREADS) as web, worker(settings):
            alone = measure(web.address, lambda: time.sleep(5))
            command = [sys.executable, "-m", "benchmarks.downloads", *map(str, web.address), SLUG]
            said: list[bytes] = []
            beside = measure(
                web.address,
                lambda: said.append(
                    subprocess.check_output([*command, str(clients)], cwd=REPOSITORY, env=settings)
                ),
            )
        downloads = json.loads(said[0])
        lines = [
            line("p95 of a stored leaderboard", p95(beside["board"]), MOST_FOR_BOARD),
            line("slowest /healthz", max(beside["health"]), MOST_FOR_HEALTH),
            Line(
                "clients that got their whole file",
                f"{clients}",
                f"{downloads['files']}",
                downloads["files"] == clients,
            ),
        ]
        self.stdout.write(
            f"{results.machine()}; granian in {PROCESSES} process of {THREADS} threads, the worker"
            f" of `manage.py up`; {clients} clients download exports of {votes:,} votes:"
            f" {downloads['bytes'] / 1e9:.1f} GB in {downloads['seconds']:.0f} s, answers by"
            f" status {downloads['statuses']}. Requests measured: {len(beside['board'])} and"
            f" {len(beside['health'])}. Without these clients: {p95(alone['board']):.3f} s and"
            f" {max(alone['health']):.3f} s.\n"
        )
        self.stdout.write("\n".join(results.targets(lines)))
        if missed := results.missed(lines):
            raise CommandError(missed)


@contextmanager
def worker(environment: dict[str, str]) -> Iterator[None]:
    """The worker of one machine, with beat; it has read the votes before."""
    command = [sys.executable, *PROGRAMS["The worker"]]
    process = subprocess.Popen(command, cwd=REPOSITORY, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def measure(address: tuple[str, int], work: Any) -> dict[str, list[float]]:
    """Ask for both again and again while `work` is done; return the seconds of each answer."""
    ended, seconds = Event(), {"board": [], "health": []}
    paths = {"board": f"/a/{SLUG}/", "health": "/healthz"}

    def ask(name: str) -> None:
        while not ended.is_set():
            began = time.perf_counter()
            connection = http.client.HTTPConnection(*address, timeout=60)
            headers = {"Host": "localhost", "Accept-Encoding": "gzip"}
            connection.request("GET", paths[name], headers=headers)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            if answer.status != http.HTTPStatus.OK:
                raise CommandError(f"{paths[name]} answered {answer.status}.")
            seconds[name].append(time.perf_counter() - began)
            time.sleep(PAUSE)

    threads = [Thread(target=ask, args=[name], daemon=True) for name in paths]
    for thread in threads:
        thread.start()
    work()
    alive = all(thread.is_alive() for thread in threads)
    ended.set()
    for thread in threads:
        thread.join()
    if not alive:
        raise CommandError("A page was refused while clients downloaded.")
    return seconds


def p95(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.95 * len(seconds))]


def line(what: str, measured: float, most: float) -> Line:
    return Line(what, f"under {most:g} s", f"{measured:.3f} s", measured < most)
