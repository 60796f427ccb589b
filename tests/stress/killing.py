"""Killing workers, and taking from them what they stand on."""

import random
import time
from dataclasses import dataclass

import redis
from django.db import connection

from arena.calls.models import Call
from tests.ops.running import eventually
from tests.stress.judged import Installation

BETWEEN = 20  # requests, and up to half a second more


@dataclass(frozen=True)
class Kills:
    """How many workers are killed, and after which of them broker and database go."""

    number: int
    flush_after: int
    crash_after: int


def kill_again_and_again(installation: Installation, plan: Kills, die: random.Random) -> int:
    """Kill one worker after the other, each at a moment of its own; return how many were at work.

    Between two of the kills the broker forgets all it had; between two others PostgreSQL crashes.
    """
    at_work = 0
    for number in range(plan.number):
        worker = installation.worker()
        enough = len(installation.server.requests) + BETWEEN
        if number == plan.flush_after:
            redis.Redis.from_url(installation.redis.url).flushdb()
        if number == plan.crash_after:
            connection.close()
            installation.postgres.crash()
        eventually(lambda enough=enough: len(installation.server.requests) >= enough)
        time.sleep(die.uniform(0, 0.5))
        worker.kill()
        worker.wait(10)
        at_work += Call.objects.filter(state="running").exists()
    return at_work
