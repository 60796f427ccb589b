"""The ledger: each call made by one worker at a time, ended once, tried six times at most."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.utils import timezone

from arena.calls import services
from arena.calls.models import MAX_REQUESTS, Call
from arena.models import Arena, Run

pytestmark = pytest.mark.django_db
NOW = timezone.now()
LEASE = timedelta(seconds=30)


def make_run(state: str = "open") -> Run:
    arena = Arena.objects.create(slug=f"a-{Run.objects.count()}", name="A")
    return Run.objects.create(arena=arena, kind="judge", per_pair=1, state=state)


def make_call(run: Run | None = None, **fields: Any) -> Call:
    values = {
        "run": run or make_run(),
        "asker": "judge",
        "subject": f"{Call.objects.count()},0",
        "endpoint": "scripted",
        "model": "m-1",
        "due_at": NOW,
        "ring_after": NOW,
    }
    return Call.objects.create(**values | fields)


def claim(call: Call, now: datetime = NOW) -> Call | None:
    return services.claim(call_id=call.pk, lease=LEASE, now=now)


def must_claim(call: Call, now: datetime = NOW) -> Call:
    taken = claim(call, now)
    assert taken is not None
    return taken


def test_a_call_is_created_once_however_often_it_is_ordered() -> None:
    run = make_run()
    draft = {"run": run, "asker": "j", "subject": "1,2", "endpoint": "e", "model": "m"}
    first = services.create_calls(drafts=[Call(**draft, nonce="one")])
    second = services.create_calls(drafts=[Call(**draft, nonce="two")])
    assert second["j", "1,2", 0] == first["j", "1,2", 0]
    assert Call.objects.get().nonce == "one"


def test_the_database_refuses_a_second_call_for_the_same_order() -> None:
    call = make_call()
    with pytest.raises(IntegrityError, match=r"call_once|UNIQUE"):
        make_call(call.run, subject=call.subject)


def test_one_worker_takes_a_call_and_a_second_gets_nothing() -> None:
    call = make_call()
    taken = must_claim(call)
    assert (taken.state, taken.attempts, taken.requests) == ("running", 1, 1)
    assert claim(call) is None


@pytest.mark.django_db(transaction=True)
def test_of_workers_that_come_at_the_same_moment_one_takes_the_call() -> None:
    call = make_call()
    together = threading.Barrier(8)

    def come(_: int) -> bool:
        together.wait()
        try:
            return claim(call) is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as workers:
        assert sum(workers.map(come, range(8))) == 1
    call.refresh_from_db()
    assert (call.attempts, call.requests) == (1, 1)


@pytest.mark.parametrize("state", ["paused", "ordered", "cancelled", "done"])
def test_calls_of_a_run_that_is_not_open_are_not_made(state: str) -> None:
    call = make_call(make_run(state))
    assert claim(call) is None
    assert services.calls_to_ring(now=NOW) == []


def test_a_call_that_is_not_due_waits() -> None:
    call = make_call(due_at=NOW + timedelta(seconds=10))
    assert claim(call) is None
    assert claim(call, NOW + timedelta(seconds=10)) is not None


def test_an_expired_lease_frees_the_call_and_the_late_worker_changes_nothing() -> None:
    call = make_call()
    late = must_claim(call)
    assert claim(call, NOW + LEASE - timedelta(seconds=1)) is None
    second = must_claim(call, NOW + LEASE)
    assert not services.finish(call=late, state="done", now=NOW, reply="late")
    assert services.finish(call=second, state="done", now=NOW, reply="in time")
    assert Call.objects.get(pk=call.pk).reply == "in time"


def test_an_ended_call_stays_ended() -> None:
    call = must_claim(make_call())
    assert services.finish(call=call, state="done", now=NOW)
    assert not services.finish(call=call, state="failed", now=NOW)
    assert not services.try_again(call=call, error="x", now=NOW)
    assert claim(call, NOW + timedelta(days=1)) is None


def test_retry_after_is_obeyed_without_a_thread_waiting() -> None:
    call = must_claim(make_call())
    services.try_again(call=call, error="HTTP 429", now=NOW, retry_after=42)
    call.refresh_from_db()
    assert (call.state, call.due_at) == ("waiting", NOW + timedelta(seconds=42))
    assert services.calls_to_ring(now=NOW + timedelta(seconds=41)) == []
    assert services.calls_to_ring(now=NOW + timedelta(seconds=42)) == [call.pk]


def test_an_absurd_retry_after_is_cut() -> None:
    call = must_claim(make_call())
    services.try_again(call=call, error="HTTP 429", now=NOW, retry_after=1e9)
    call.refresh_from_db()
    assert call.due_at == NOW + services.LONGEST_PAUSE


def test_without_retry_after_the_pause_is_jittered_and_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans: list[float] = []

    class Longest:
        def uniform(self, low: float, high: float) -> float:
            spans.append(high)
            return high

    monkeypatch.setattr(services, "_jitter", Longest())
    call, now = make_call(), NOW
    for _ in range(MAX_REQUESTS):
        services.try_again(call=must_claim(call, now), error="HTTP 500", now=now)
        now += timedelta(minutes=2)
    call.refresh_from_db()
    assert spans == [2, 4, 8, 16, 32]
    assert (call.state, call.requests, call.error) == ("failed", MAX_REQUESTS, "HTTP 500")


def test_a_call_whose_worker_dies_every_time_fails_after_six() -> None:
    call, now = make_call(), NOW
    for _ in range(MAX_REQUESTS):
        must_claim(call, now)
        now += LEASE
    assert claim(call, now) is None
    call.refresh_from_db()
    assert (call.state, call.error) == ("failed", "The worker died.")


def test_a_doorbell_is_rung_once_and_later_again_in_growing_pauses() -> None:
    call, now = make_call(), NOW
    for pause in (30, 60, 120):
        assert services.calls_to_ring(now=now) == [call.pk]
        assert services.calls_to_ring(now=now + timedelta(seconds=pause - 1)) == []
        now += timedelta(seconds=pause)


def test_an_abandoned_call_is_rung_again_when_its_lease_ends() -> None:
    call = make_call()
    services.calls_to_ring(now=NOW)
    must_claim(call)
    assert services.calls_to_ring(now=NOW + LEASE - timedelta(seconds=1)) == []
    assert services.calls_to_ring(now=NOW + LEASE) == [call.pk]


def test_the_queue_stays_short() -> None:
    run = make_run()
    calls = [make_call(run) for _ in range(5)]
    assert len(services.calls_to_ring(now=NOW, at_most=3)) == 3
    assert services.calls_to_ring(now=NOW, at_most=3) == []
    must_claim(calls[0])
    assert services.calls_to_ring(now=NOW, at_most=3) == [calls[3].pk]


def fail_all(run: Run, count: int) -> None:
    for i in range(count):
        call = must_claim(make_call(run))
        services.finish(call=call, state="failed", now=NOW + timedelta(seconds=i), error="boom")
        services.pause_if_failing(run_id=run.pk)


def test_ten_failures_in_a_row_pause_the_run_and_say_why() -> None:
    run = make_run()
    fail_all(run, 9)
    run.refresh_from_db()
    assert run.state == "open"
    fail_all(run, 1)
    Call.objects.filter(run=run).update(finished_at=NOW)
    services.pause_if_failing(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "paused"
    assert run.pause_reason == "10 calls in a row failed. The last one: boom"


def test_a_call_that_succeeds_breaks_the_row() -> None:
    run = make_run()
    fail_all(run, 9)
    services.finish(call=must_claim(make_call(run)), state="done", now=NOW + timedelta(minutes=1))
    assert not services.pause_if_failing(run_id=run.pk)


def test_a_resumed_run_tries_what_failed_again_and_leaves_what_is_done() -> None:
    run = make_run()
    fail_all(run, 1)
    done = must_claim(make_call(run))
    services.finish(call=done, state="done", now=NOW)
    services.pause_run(run_id=run.pk, reason="HTTP 401")
    services.resume_run(run_id=run.pk, now=NOW)
    run.refresh_from_db()
    failed = Call.objects.exclude(pk=done.pk).get()
    assert (run.state, run.pause_reason) == ("open", "")
    assert (failed.state, failed.requests_allowed) == ("waiting", 1 + MAX_REQUESTS)
    assert services.calls_to_ring(now=NOW) == [failed.pk]
