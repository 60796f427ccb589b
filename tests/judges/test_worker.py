"""A run through real Celery workers on the queue of one machine, one killed in the middle.

`tests.stress.test_judge_kills` kills workers on Redis.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from arena.calls.models import Call
from arena.models import Run, Vote
from judges.models import Judgement
from judges.services.quotes import MEASURED
from tests.environment import REPOSITORY
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, is_probe, prefers
from tests.judges.helpers import LOCAL
from tests.ops.running import eventually

pytestmark = [pytest.mark.any_database, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
CELERY = [sys.executable, "-m", "celery", "-A", "arena.celery"]
FREE = {"judge-7b-2024-07-01": {"input": 0, "output": 0}}
WORKER = [
    *CELERY,
    "worker",
    "--pool=threads",
    "--concurrency=8",
    "--queues=calls",
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
    "--loglevel=INFO",
]


@dataclass
class Installation:
    """A second Ringside on the tests' database, with a broker and an endpoint of its own."""

    home: Path
    environment: dict[str, str]

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run `command` until the block ends, then stop it."""
        with (self.home / "output.txt").open("ab") as out:
            process = subprocess.Popen(
                command, cwd=REPOSITORY, env=self.environment, stdout=out, stderr=out
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)


@pytest.fixture
def installation(tmp_path: Path, server: FakeServer) -> Installation:
    """An installation with its queue in files, asking the loopback server."""
    endpoint = {"provider": "openai", "base_url": server.base_url, "timeout": 1, "prices": FREE}
    settings = {
        "RINGSIDE_HOME": str(tmp_path),
        "SECRET_KEY": "k" * 50,
        "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
        "DJANGO_SETTINGS_MODULE": "arena.settings",
        "MODEL_ENDPOINTS": json.dumps({"local": endpoint}),
    }
    return Installation(tmp_path, os.environ | settings)


def check_books(server: FakeServer, comparisons: int, killed_with: int) -> None:
    """One vote per comparison; no call answered and asked again, but for those cut off."""
    assert Run.objects.get(arena__isnull=False).state == "done"
    assert Judgement.objects.filter(state="voted").count() == comparisons
    assert Vote.objects.live().count() == comparisons
    assert not [
        n for n in Counter(Vote.objects.values_list("comparison", flat=True)).values() if n > 1
    ]
    assert set(Call.objects.values_list("state", flat=True)) == {"done"}
    booked = sum(Call.objects.values_list("requests", flat=True))
    asked = sum(not is_probe(body) for body in server.requests) - MEASURED
    assert 2 * comparisons <= asked <= booked <= 2 * comparisons + killed_with


def test_killed_worker_s_open_calls_are_made_again(
    installation: Installation, server: FakeServer
) -> None:
    server.otherwise = prefers("-0 of", seconds=0.2)
    arena = make_arena(3, 10)
    beat = [*CELERY, "beat", "--schedule", str(installation.home / "schedule"), "--pidfile="]
    command: Any = [sys.executable, "manage.py", "judge", arena.slug, f"--judge={LOCAL}"]
    command += ["--per-pair=10", "--max-calls=60", "--no-wait"]
    with ExitStack() as stack:
        stack.enter_context(installation.running(*beat))
        first = stack.enter_context(installation.running(*WORKER))
        subprocess.run(command, cwd=REPOSITORY, env=installation.environment, check=True)
        eventually(lambda: len(server.requests) >= 20)
        first.kill()
        first.wait(60)
        in_flight = Call.objects.filter(state="running").count()
        finished = dict(Call.objects.filter(state="done").values_list("pk", "reply"))
        assert finished, "the kill came too early to prove anything"
        stack.enter_context(installation.running(*WORKER))
        eventually(lambda: Run.objects.get(arena__isnull=False).state == "done")
    check_books(server, 30, killed_with=in_flight)
    for call in Call.objects.filter(pk__in=finished):
        assert (call.requests, call.reply) == (1, finished[call.pk])
