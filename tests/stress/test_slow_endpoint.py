"""A model server that answers slowly delays its own calls, and nothing else."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db.models import Max, Min

from arena.models import Run
from ranking.models import Snapshot
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import LOCAL, order
from tests.ops.running import eventually
from tests.stress.installation import Installation, endpoint_of

pytestmark = [pytest.mark.slow, pytest.mark.services]
SLOW = "small:judge-7b-2024-07-01"
ONE_ANSWER = 0.6
PROMPTS = 30  # six calls each, for three candidates


@pytest.fixture
def small(installation: Installation, settings: Any) -> Iterator[FakeServer]:
    """Another endpoint, whose model takes a minute for each answer."""
    with FakeServer() as server:
        server.otherwise = prefers("-0 of", seconds=60)
        endpoints = json.loads(installation.environment["MODEL_ENDPOINTS"])
        endpoints["small"] = endpoint_of(server, timeout=120)["local"]
        for endpoint in endpoints.values():
            del endpoint["concurrency"]  # 8, unless an operator sets another
        installation.environment["MODEL_ENDPOINTS"] = json.dumps(endpoints)
        settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {
            "small": replace(settings.MODEL_ENDPOINTS["local"], name="small")
        }
        yield server


def seconds_of_a_run(slug: str) -> float:
    """Order a run at the quick endpoint; return the time from its first answer to its last."""
    run = order(make_arena(3, PROMPTS, slug=slug), LOCAL, per_pair=PROMPTS, cap=10**12)
    eventually(lambda: Run.objects.get(pk=run.pk).state == "done", patience=300)
    ended = run.calls.aggregate(first=Min("finished_at"), last=Max("finished_at"))
    return float((ended["last"] - ended["first"]).total_seconds())


def test_slow_endpoint_delays_neither_runs_nor_boards(
    installation: Installation, small: FakeServer
) -> None:
    installation.server.otherwise = prefers("-0 of", seconds=ONE_ANSWER)
    installation.beat()
    worker = installation.worker(calls=16, queues="fits,large-fits,sweeps,calls")
    installation.stack.callback(worker.kill)  # asked to end, it would wait for the slow answers
    alone = seconds_of_a_run("alone")

    slow = order(make_arena(3, PROMPTS, slug="slow"), SLOW, per_pair=PROMPTS, cap=10**12)
    eventually(lambda: len(small.requests) == 8)
    beside = seconds_of_a_run("beside")
    assert Run.objects.get(pk=slow.pk).state == "open"
    assert len(small.requests) == 8
    # Both have the same slots; the rest is what a busy machine takes from one and not the other.
    assert beside < 1.7 * alone, f"{alone:.2f} s alone, {beside:.2f} s beside"

    began = time.monotonic()
    board = Snapshot.objects.current().filter(board__arena__slug="beside", n_votes=3 * PROMPTS)
    eventually(board.exists, patience=60)
    fresh = time.monotonic() - began
    print(f"{alone:.2f} s alone, {beside:.2f} s beside; board after {fresh:.2f} s")
    assert fresh < 30, "it waited for the slow answers"
