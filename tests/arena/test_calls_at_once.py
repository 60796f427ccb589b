"""Money under threads that meet: claims, cut-offs, dying workers, sweeps, moves and resumptions."""

import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from arena.calls import execution
from arena.calls.execution import execute_call
from arena.calls.models import Call
from arena.calls.money import raise_cap
from arena.calls.pacing import take_turn
from arena.calls.providers.base import (
    RejectedError,
    Reply,
    RetryableError,
    UnsupportedParameterError,
)
from arena.calls.runs import move_calls, resume_run
from arena.calls.scheduling import sweep
from arena.endpoints import Endpoint
from arena.models import Run
from tests.arena.ledger import Model, Question, books, says
from tests.deadlocks import at_once
from tests.factories import DOLLAR, NOW, make_call, make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]
SHORT = timedelta(seconds=0.3)  # of the leases here: some are over before the answer is there
STEP = DOLLAR // 50


@pytest.fixture(autouse=True)
def only_where_threads_meet() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time.")


class Faulty:
    """Billed truly and counted; now and then busy, cut off, slow beyond its lease, or rejecting."""

    def __init__(self) -> None:
        self.billed = 0
        self.cut_off = 0
        self.answered = 0
        self._lock = threading.Lock()
        self._random = random.Random(4)

    def __call__(self) -> Reply:
        with self._lock:
            mood = self._random.random()
        if mood < 0.15:
            raise RetryableError("HTTP 503", retry_after=0.01)
        if mood < 0.2:
            raise RejectedError("HTTP 400")
        if mood < 0.25:
            raise UnsupportedParameterError("HTTP 400: seed", "seed")
        tokens = int(1000 * mood)
        with self._lock:
            self.billed += 1000 * tokens + 2000 * 100
        if mood < 0.35:
            with self._lock:
                self.cut_off += 1
            raise RetryableError("Connection lost.", maybe_billed=True, retry_after=0.01)
        time.sleep(0.5 if mood > 0.98 else 0.01)
        with self._lock:
            self.answered += 1
        return says("A" if mood < 0.8 else "Hm.", tokens, 100)


def long_question() -> Question:
    return Question(repair="The verdict.", text="Which one? " * 200, seed=1, max_tokens=100)


def until(end: float, work: Callable[[], Any], pause: float = 0.0) -> Callable[[], None]:
    """`work`, done over and over until `end`."""

    def going_on() -> None:
        while time.monotonic() < end:
            work()
            time.sleep(pause)

    return going_on


def test_the_three_sums_hold_and_the_cap_is_never_passed(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "lease_of", lambda endpoint: SHORT)
    monkeypatch.setattr(execution, "UNTIL_SETTLED", timedelta(seconds=0.02))
    model.otherwise = faulty = Faulty()
    run = make_run(cap=STEP)
    for _ in range(120):
        make_call(run, endpoint="paid")
    stop = time.monotonic() + 12
    at_once(
        *[until(stop, make_any_call)] * 10,
        until(stop, lambda: look(run), 0.01),
        until(stop, lambda: sweep(now=timezone.now()), 0.05),
        until(stop, lambda: operate(run), 0.2),
    )
    time.sleep(SHORT.total_seconds())
    sweep(now=timezone.now())
    settled, reserved, uncertain = books(run)
    assert (reserved, faulty.answered > 100) == (0, True)
    assert 0 < settled <= faulty.billed <= settled + uncertain
    assert sum(run.calls.values_list("cut_off_requests", flat=True)) >= faulty.cut_off


def make_any_call() -> None:
    ids = list(Call.objects.claimable(timezone.now()).values_list("pk", flat=True)[:40])
    if ids:
        execute_call(call_id=random.choice(ids), handler=long_question())


def look(run: Run) -> None:
    """The cap holds, and the run's sums are those of its calls, at this and at any moment."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        now = Run.objects.get(pk=run.pk)
        assert sum(books(now)) <= (now.cap or 0)


def operate(run: Run) -> None:
    """Raise the cap a little whenever it is reached, and let the run go on."""
    now = Run.objects.get(pk=run.pk)
    if now.state == Run.State.PAUSED:
        raise_cap(run_id=run.pk, cap=(now.cap or 0) + STEP)
        resume_run(run_id=run.pk, now=timezone.now())


def test_money_follows_calls_that_move_while_workers_ask(model: Model) -> None:
    first, second = make_run(cap=DOLLAR), make_run(cap=DOLLAR)
    calls = [make_call(first, endpoint="paid").pk for _ in range(40)]

    def think() -> Reply:
        time.sleep(0.02)
        return says("A")

    model.otherwise = think

    def worker(ids: list[int]) -> None:
        for pk in ids:
            execute_call(call_id=pk, handler=Question())

    def mover() -> None:
        for _ in range(10):
            for run in (second, first):
                move_calls(call_ids=calls, run_id=run.pk, now=NOW)
                time.sleep(0.01)

    at_once(mover, *(lambda ids=calls[i::8]: worker(ids) for i in range(8)))
    left = [pk for pk in calls if Call.objects.get(pk=pk).state == "waiting"]
    worker(left)
    settled = [sum(books(run)) for run in (first, second)]
    assert sum(settled) == 40 * 20_000
    assert set(Call.objects.values_list("state", "requests")) == {("done", 1)}


def test_a_pace_holds_whoever_asks() -> None:
    one = Endpoint("paced", "openai", "http://127.0.0.1:9", requests_per_minute=60)
    taken: list[int] = []

    def ask() -> None:
        for _ in range(20):
            if take_turn(endpoint=one, tokens=1, now=NOW) is None:
                taken.append(1)

    at_once(*[ask] * 8)
    assert len(taken) == 1 + 60 // 20
