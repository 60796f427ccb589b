"""Money under concurrent threads: claims, cut-offs, dying workers, sweeps, shared calls."""

import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from arena.calls import execution, leases
from arena.calls.execution import execute_call
from arena.calls.models import Call
from arena.calls.money import raise_cap
from arena.calls.paces import take_turn
from arena.calls.providers.base import (
    RejectedError,
    Reply,
    RetryableError,
    UnsupportedParameterError,
)
from arena.calls.scheduling import sweep
from arena.endpoints import Endpoint
from arena.models import Run
from arena.services.runs import cancel_run, pause_run, resume_run
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


def until(
    is_over: Callable[[], bool], work: Callable[[], Any], pause: float = 0.0
) -> Callable[[], None]:
    """`work`, repeated until `is_over`, or for two minutes."""

    def going_on() -> None:
        end = time.monotonic() + 120
        while not is_over() and time.monotonic() < end:
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
    began = time.monotonic()

    def is_over() -> bool:
        return faulty.answered > 100 and time.monotonic() > began + 6

    at_once(
        *[until(is_over, make_any_call)] * 10,
        until(is_over, lambda: look(run), 0.01),
        until(is_over, lambda: sweep(now=timezone.now()), 0.05),
        until(is_over, lambda: operate(run), 0.2),
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
    """Raise the cap a little whenever it is reached, and resume the run."""
    now = Run.objects.get(pk=run.pk)
    if now.state == Run.State.PAUSED:
        raise_cap(run_id=run.pk, cap=(now.cap or 0) + STEP)
        resume_run(run_id=run.pk, now=timezone.now())


def test_of_two_runs_with_the_same_calls_one_asks_and_the_other_copies(model: Model) -> None:
    """While workers ask, one run is paused and resumed, and another one cancelled and deleted."""
    runs = [make_run(cap=DOLLAR) for _ in range(3)]
    for number in range(40):
        for run in runs:
            make_call(run, endpoint="paid", subject=f"{number},0")

    def think() -> Reply:
        time.sleep(0.02)
        return says("A")

    model.otherwise = think
    kept = Call.objects.filter(run__in=[runs[0], runs[2]])

    def are_done() -> bool:
        return not kept.exclude(state="done").exists()

    def steer() -> None:
        time.sleep(0.1)
        pause_run(run_id=runs[0].pk, reason="Paused by me.")
        cancel_run(run_id=runs[1].pk, now=timezone.now())
        time.sleep(0.2)
        resume_run(run_id=runs[0].pk, now=timezone.now())

    at_once(steer, *[until(are_done, make_any_call)] * 8)
    assert set(kept.values_list("state", flat=True)) == {"done"}
    originals = Call.objects.filter(copied=False, state="done")
    assert originals.count() == len(set(originals.values_list("subject", flat=True))) == 40
    assert sum(Call.objects.values_list("requests", flat=True)) == len(model.requests) == 40
    assert sum(books(run)[0] for run in runs) == 40 * 20_000
    assert all(books(run)[1:] == (0, 0) for run in runs)
    Run.objects.filter(pk=runs[1].pk).delete()
    assert not runs[2].calls.exclude(state="done").exists()


def test_two_claimers_of_one_identity_send_one_request(model: Model) -> None:
    claimed: list[int] = []
    for number in range(30):
        calls = [make_call(subject=f"{number},1") for _ in range(2)]
        due = [leases.due_call(call_id=call.pk, now=NOW) for call in calls]

        def claim(call: Any) -> None:
            if leases.claim(call=call, lease=SHORT, now=NOW):
                claimed.append(call.pk)

        at_once(*(lambda call=call: claim(call) for call in due))
    assert len(claimed) == 30


def test_a_pace_holds_for_every_worker() -> None:
    one = Endpoint("paced", "openai", "http://127.0.0.1:9", requests_per_minute=60)
    taken: list[int] = []

    def ask() -> None:
        for _ in range(20):
            if take_turn(endpoint=one, tokens=1, now=NOW) is None:
                taken.append(1)

    at_once(*[ask] * 8)
    assert len(taken) == 1 + 60 // 20
