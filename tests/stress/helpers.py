"""Killing workers, their broker and their database; checking the money afterwards; load."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import redis
from django.db import connection
from django.db.models import Sum

from arena.calls.models import Call
from arena.models import Run
from benchmarks.load import Answer, Script, play
from benchmarks.serving import Web
from tests.judges.fake_server import FakeServer
from tests.ops.running import eventually
from tests.stress.installation import BILLED, Installation

REQUESTS_BETWEEN_KILLS = 20  # and up to half a second more


@dataclass(frozen=True)
class Kills:
    """How many workers are killed, and after which of them broker and database go."""

    number: int
    flush_after: int
    crash_after: int


def kill_again_and_again(
    installation: Installation,
    plan: Kills,
    die: random.Random,
    acts: Mapping[int, Callable[[], object]] = MappingProxyType({}),
) -> int:
    """Kill one worker after the other, each at its own moment; return how many were at work.

    Between two of the kills the broker forgets all it had; between two others PostgreSQL crashes.
    `acts` are done while the worker of that number works.
    """
    at_work = 0
    with installation.workers_to_kill() as start_worker:
        for number in range(plan.number):
            worker = start_worker()
            enough = len(installation.server.requests) + REQUESTS_BETWEEN_KILLS
            if number == plan.flush_after:
                redis.Redis.from_url(installation.redis.url).flushdb()
            if number == plan.crash_after:
                connection.close()
                installation.postgres.crash()
            eventually(lambda enough=enough: len(installation.server.requests) >= enough)
            acts.get(number, bool)()
            time.sleep(die.uniform(0, 0.5))
            worker.kill()
            at_work += Call.objects.filter(state="running").exists()
    return at_work


def check_money(server: FakeServer, runs: list[Run], n_calls: int) -> None:
    """What was billed is settled, except for the requests that the kills cut off."""
    sums = Call.objects.aggregate(cost=Sum("cost"), uncertain=Sum("uncertain"))
    cut_off = Call.objects.aggregate(n=Sum("cut_off_requests"))["n"]
    lost = len(server.billed) - n_calls
    said = f"{cut_off} requests were under way at a kill; {lost} of them had reached the server"
    for run in runs:
        run.refresh_from_db()
        assert (run.settled, run.reserved) == (n_calls // len(runs) * BILLED, 0), said
    assert sum(run.settled for run in runs) == sums["cost"], said
    assert sum(run.uncertain for run in runs) == sums["uncertain"] >= lost * BILLED, said
    assert 0 < lost <= cut_off, said


def once(asked: bytes) -> Script:
    yield asked


def count_codes(web: Web, asked: Iterable[bytes]) -> Counter[int]:
    """Send all requests at the same time; count what comes back."""
    answers: list[Answer] = []
    play(web.address, map(once, asked), on_answer=answers.append)
    return Counter(answer.status for answer in answers)
