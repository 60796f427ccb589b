"""How long a vote takes to reach the published leaderboard, with everything that `up` starts."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from django.utils import timezone

from arena.models import Arena, Comparison, Rater
from arena.services.voting import cast_vote
from benchmarks.results import Line
from benchmarks.serving import PATIENCE, REPOSITORY
from ranking.models import Snapshot

ROUNDS = 5
AT_REST = 4.0  # seconds between two votes, so that each finds an arena at rest


@contextmanager
def everything_running() -> Iterator[None]:
    """Start the web server, the worker and beat on this database; end them afterwards."""
    starter = subprocess.Popen(
        [sys.executable, "manage.py", "up"],
        cwd=REPOSITORY,
        env={**os.environ, "PORT": "0"},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        starter.terminate()
        starter.wait(PATIENCE)


def measure(arena: Arena, most_seconds: float) -> Line:
    """Cast one vote at a time; the first one, which waits for the start, is not measured."""
    seconds = []
    for _ in range(ROUNDS + 1):
        started = time.monotonic()
        newest = _vote(arena)
        published = Snapshot.objects.current().filter(
            board__arena=arena, board__raters="people", board__category="", last_vote_id=newest
        )
        while not published.exists():
            if time.monotonic() > started + PATIENCE:
                raise RuntimeError(f"vote {newest} was not published")
            time.sleep(0.02)
        seconds.append(time.monotonic() - started)
        time.sleep(AT_REST)
    slowest, typical = max(seconds[1:]), median(seconds[1:])
    return Line(
        f"A vote is on the leaderboard: {arena.name}, {arena.candidates.count()} candidates",
        f"within {most_seconds:g} s",
        f"{typical:.1f} s, at most {slowest:.1f} s",
        typical <= most_seconds,
    )


def _vote(arena: Arena) -> int:
    now = timezone.now()
    left, right = arena.candidates.order_by("pk")[:2]
    rater = Rater.objects.create(kind=Rater.Kind.PERSON)
    comparison = Comparison.objects.create(
        arena=arena,
        rater=rater,
        prompt=arena.prompts.earliest("pk"),
        left=left,
        right=right,
        draw_probability=0.5,
        issued_at=now,
    )
    vote = cast_vote(comparison=comparison, rater=rater, outcome="left", now=now, seconds=9.0)
    return vote.pk
