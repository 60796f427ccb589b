"""Runs through real Celery workers, one of which is killed in the middle."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from arena.calls.models import Call
from arena.models import Run, Vote
from judges.models import Judgement
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
    """A second Ringside on the tests' database, with a broker and endpoints of its own."""

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

    def judge(self, slug: str, per_pair: int) -> subprocess.CompletedProcess[str]:
        numbers = [f"--per-pair={per_pair}", "--max-calls=1000"]
        return subprocess.run(
            [sys.executable, "manage.py", "judge", slug, f"--judge={LOCAL}", *numbers],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def database_url() -> str:
    facts = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{facts['NAME']}"
    password = f":{facts['PASSWORD']}" if facts["PASSWORD"] else ""
    port = f":{facts['PORT']}" if facts["PORT"] else ""
    return f"postgres://{facts['USER']}{password}@{facts['HOST']}{port}/{facts['NAME']}"


@pytest.fixture
def install(tmp_path: Path, server: FakeServer) -> Callable[[str], Installation]:
    """Make an installation with the broker given, asking the loopback server."""

    def make(broker: str) -> Installation:
        endpoint = {"provider": "openai", "base_url": server.base_url, "timeout": 1, "prices": FREE}
        settings = {
            "RINGSIDE_HOME": str(tmp_path),
            "SECRET_KEY": "k" * 50,
            "DATABASE_URL": database_url(),
            "CELERY_BROKER_URL": broker,
            "DJANGO_SETTINGS_MODULE": "arena.settings",
            "MODEL_ENDPOINTS": json.dumps({"local": endpoint}),
        }
        return Installation(tmp_path, os.environ | settings)

    return make


@pytest.fixture
def redis_of_our_own(redis_url: str, tmp_path: Path) -> Iterator[str]:
    """A private Redis if one can be started, otherwise the tests' own database."""
    if shutil.which("redis-server") is None:
        yield redis_url
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    yield f"redis://127.0.0.1:{port}/0"
    process.terminate()
    process.wait(10)


def agrees_with_itself(server: FakeServer, seconds: float = 0.0) -> None:
    """The answer of the first candidate of the arena always wins; no others differ."""
    server.otherwise = prefers("-0 of", seconds=seconds)


def check_books(server: FakeServer, comparisons: int, killed_with: int = 0) -> None:
    """One vote per comparison; no call answered and asked again, but for those cut off."""
    assert Run.objects.get().state == "done"
    assert Judgement.objects.filter(state="voted").count() == comparisons
    assert Vote.objects.live().count() == comparisons
    assert not [
        n for n in Counter(Vote.objects.values_list("comparison", flat=True)).values() if n > 1
    ]
    assert set(Call.objects.values_list("state", flat=True)) == {"done"}
    booked = sum(Call.objects.values_list("requests", flat=True))
    asked = sum(not is_probe(body) for body in server.requests)
    assert 2 * comparisons <= asked <= booked <= 2 * comparisons + killed_with


def run_to_the_end(installation: Installation, server: FakeServer) -> None:
    agrees_with_itself(server)
    arena = make_arena(3, 10)
    with installation.running(*WORKER):
        eventually(lambda: "ready." in log_of(installation))
        ended = installation.judge(arena.slug, per_pair=10)
    assert ended.returncode == 0, ended.stdout + ended.stderr + log_of(installation)
    assert "done 30" in ended.stdout
    check_books(server, 30)


def log_of(installation: Installation) -> str:
    return (installation.home / "output.txt").read_text()


@pytest.mark.slow
def test_a_run_goes_through_a_worker_on_the_broker_in_memory(
    install: Callable[[str], Installation], server: FakeServer
) -> None:
    run_to_the_end(install("memory://localhost//"), server)


@pytest.mark.services
def test_a_run_goes_through_a_worker_on_redis(
    install: Callable[[str], Installation], redis_of_our_own: str, server: FakeServer
) -> None:
    run_to_the_end(install(redis_of_our_own), server)


def kill_in_the_middle(installation: Installation, server: FakeServer) -> None:
    agrees_with_itself(server, seconds=0.2)
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
        eventually(lambda: Run.objects.get().state == "done")
    check_books(server, 30, killed_with=in_flight)
    for call in Call.objects.filter(pk__in=finished):
        assert (call.requests, call.reply) == (1, finished[call.pk])


@pytest.mark.slow
def test_killed_worker_s_open_calls_are_made_again(
    install: Callable[[str], Installation], server: FakeServer
) -> None:
    kill_in_the_middle(install("memory://localhost//"), server)


@pytest.mark.slow
@pytest.mark.services
def test_a_killed_workers_calls_are_made_again_on_redis_too(
    install: Callable[[str], Installation], redis_of_our_own: str, server: FakeServer
) -> None:
    kill_in_the_middle(install(redis_of_our_own), server)
