"""`ringside check` during constant work: the exit code follows from the verdicts."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from arena.actors import Actor
from arena.endpoints import Endpoint, ModelPrice
from arena.models import Run
from arena.services.tokens import create_token
from clients.python import ringside_client
from judges.models import Experiment
from judges.services.experiments import advance_all
from tests.factories import make_arena, make_team
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import LOCAL, work_off

pytestmark = pytest.mark.slow
CHECKS = {"postgresql": 30, "sqlite": 12}  # where one writes at a time, less can meet
PROMPTS = (
    9  # the fewest that are conclusive are 8, so nearly every partial count is another verdict
)
PREFERRED = "-0 of somebody"  # what stands in the answers of candidate-0 alone


@contextmanager
def again_and_again(work: Any, pause: float) -> Iterator[None]:
    """Repeat something in another thread, and fail if it fails."""
    done, failures = threading.Event(), []

    def run() -> None:
        try:
            while not done.wait(pause):
                work()
        except Exception as failure:
            failures.append(failure)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not failures


def work() -> None:
    advance_all(now=timezone.now())
    for run in Run.objects.filter(state=Run.State.OPEN).select_related("arena"):
        work_off(run)


@pytest.fixture
def judged_for_nothing(settings: Any) -> Iterator[None]:
    with FakeServer() as server:
        server.otherwise = prefers(PREFERRED)
        price = {LOCAL.partition(":")[2]: ModelPrice(0, 0)}
        local = Endpoint("local", "openai", server.base_url, timeout=30.0, prices=price)
        settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": local}
        yield


@pytest.mark.usefixtures("transactional_db", "no_doorbell", "judged_for_nothing")
def test_checks_beside_constant_work_end_with_the_right_code(
    live_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("arena.tasks.make_calls.delay", lambda endpoint: None)
    monkeypatch.setattr(ringside_client, "FIRST_LOOK", 0.01)
    monkeypatch.setattr(ringside_client, "LONGEST_LOOK", 0.05)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    team = make_team()
    by = Actor(user=None, display_name="a test")
    _, token = create_token(team=team, name="CI", scopes=["read", "submit", "judge"], by=by)
    monkeypatch.setenv("RINGSIDE_TOKEN", token)

    n_checks, found, expected = CHECKS[connection.vendor], [], []
    with ExitStack() as stack:
        for _ in range(2):  # two workers at once take no step twice
            stack.enter_context(again_and_again(work, pause=0.02))
        for number in range(n_checks):
            arena = make_arena(2, PROMPTS, team=team)
            candidate, baseline = number % 2, 1 - number % 2
            found.append(
                ringside_client.main(
                    [
                        *("check", f"--url={live_server.url}", f"--arena={arena.slug}"),
                        *(f"--candidate=candidate-{candidate}", f"--baseline=candidate-{baseline}"),
                        *(f"--judge={LOCAL}", "--require=better"),
                    ]
                )
            )
            expected.append(ringside_client.FAILED if candidate else ringside_client.PASSED)
            if found[-1] != expected[-1]:
                pytest.fail(f"check {number}: {found[-1]}\n{capsys.readouterr().out}")
    assert found == expected
    assert Experiment.objects.filter(state="done").count() == n_checks
