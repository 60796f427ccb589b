"""The ledger: each call made by one worker at a time, ended once, tried six times at most."""

from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils import timezone

from arena.calls import leases, scheduling
from arena.calls.execution import execute_call
from arena.calls.models import MAX_REQUESTS, Call, RunRequester
from arena.calls.providers.base import RetryableError
from arena.services.runs import create_calls
from tests.arena.ledger import (
    LEASE,
    Model,
    Question,
    add_requesters,
    end,
    execute,
    hand_out,
    must_take,
    take,
)
from tests.deadlocks import at_once
from tests.factories import NOW, make_call, make_run

pytestmark = pytest.mark.django_db


def test_a_call_is_created_once_however_often_it_is_ordered() -> None:
    run = make_run()
    draft = {"run": run, "requester": "j", "subject": "1,2", "endpoint": "e", "model": "m"}
    first = create_calls(drafts=[Call(**draft, nonce="one")], now=NOW)
    second = create_calls(drafts=[Call(**draft, nonce="two")], now=NOW)
    assert second == first
    assert Call.objects.get().nonce == "one"


def test_the_database_refuses_a_second_call_for_the_same_order() -> None:
    call = make_call()
    with pytest.raises(IntegrityError, match=r"call_once|UNIQUE"):
        make_call(call.run, subject=call.subject)


def test_one_worker_takes_a_call_and_a_second_gets_nothing() -> None:
    call = make_call()
    taken = must_take(call)
    assert (taken.state, taken.attempts, taken.requests) == ("running", 1, 1)
    assert take(call) is None


@pytest.mark.django_db(transaction=True)
def test_one_of_eight_workers_takes_the_call() -> None:
    call = make_call()
    taken = at_once(*[lambda: take(call)] * 8)
    assert sum(one is not None for one in taken) == 1
    call.refresh_from_db()
    assert (call.attempts, call.requests) == (1, 1)


@pytest.mark.parametrize("state", ["paused", "ordered", "cancelled", "done"])
def test_calls_of_a_run_that_is_not_open_are_not_made(state: str) -> None:
    call = make_call(make_run(state))
    assert take(call) is None
    assert hand_out() == []


def test_a_call_that_is_not_due_waits() -> None:
    call = make_call(due_at=NOW + timedelta(seconds=10))
    assert take(call) is None
    assert take(call, NOW + timedelta(seconds=10)) is not None


def test_after_an_expired_lease_a_late_worker_changes_nothing() -> None:
    call = make_call()
    late = must_take(call)
    assert take(call, NOW + LEASE - timedelta(seconds=1)) is None
    second = must_take(call, NOW + LEASE)
    assert not end(late, "failed")
    assert end(second, "done")
    stored = Call.objects.get(pk=call.pk)
    assert (stored.state, stored.attempts, stored.cut_off_requests) == ("done", 2, 1)


def test_after_the_sweep_a_late_worker_changes_nothing() -> None:
    late = must_take(make_call())
    assert scheduling.free_abandoned(now=NOW + LEASE) == 1
    assert not end(late, "done")
    assert Call.objects.get().state == "waiting"


def test_an_ended_call_stays_ended() -> None:
    call = make_call()
    held = must_take(call)
    copy = Call.objects.get(pk=call.pk)
    assert end(held, "done")
    assert not end(copy, "failed")
    assert take(call, NOW + timedelta(days=1)) is None


def busy(retry_after: float | None = None) -> RetryableError:
    return RetryableError("HTTP 500", retry_after)


def test_retry_after_is_obeyed_without_a_thread_waiting(model: Model) -> None:
    model.otherwise = busy(42)
    began = timezone.now()
    call = execute(make_call())
    assert call.state == "waiting"
    seconds = (call.due_at - began).total_seconds()
    assert 42 <= seconds < 72
    assert hand_out(call.due_at - timedelta(seconds=1)) == []
    assert hand_out(call.due_at) == [call.pk]


def test_an_absurd_retry_after_is_cut(model: Model) -> None:
    model.otherwise = busy(1e9)
    began = timezone.now()
    call = execute(make_call())
    assert call.due_at - began < leases.LONGEST_PAUSE + timedelta(seconds=60)


def test_without_retry_after_the_pause_is_jittered_and_grows(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[float] = []

    class Longest:
        def uniform(self, low: float, high: float) -> float:
            spans.append(high)
            return high

    monkeypatch.setattr(leases, "_jitter", Longest())
    model.otherwise = busy()
    call = make_call()
    for _ in range(MAX_REQUESTS):
        call = execute(call)
    assert spans == [2, 4, 8, 16, 32]
    assert (call.state, call.requests, call.error) == ("failed", MAX_REQUESTS, "HTTP 500")


def test_a_call_fails_after_six_attempts_that_killed_the_worker() -> None:
    call, now = make_call(), NOW
    for _ in range(MAX_REQUESTS):
        must_take(call, now)
        now += LEASE
    assert take(call, now) is None
    call.refresh_from_db()
    assert (call.state, call.error) == ("failed", "The worker died.")
    assert call.cut_off_requests == MAX_REQUESTS


def test_a_call_that_died_too_often_is_returned_as_failed() -> None:
    call = make_call(state="running", requests=6, lease_expires_at=NOW, attempts=6)
    made = execute_call(call_id=call.pk, handler=Question())
    assert made is not None
    assert made.state == "failed"


def test_a_finished_call_is_not_executed_again() -> None:
    assert execute_call(call_id=make_call(state="done").pk, handler=Question()) is None


def test_what_a_server_says_is_fitted_into_its_column(model: Model) -> None:
    model.otherwise = RetryableError("\x00boom\ud800" + "x" * 1000)
    assert execute(make_call()).error.startswith("boom?xx")


def test_a_call_that_no_worker_began_is_handed_out_again() -> None:
    call = make_call()
    assert hand_out() == [call.pk]
    assert hand_out(NOW + timedelta(seconds=29)) == []
    assert hand_out(NOW + timedelta(seconds=30)) == [call.pk]


def test_an_abandoned_call_is_handed_out_when_its_lease_ends() -> None:
    call = make_call()
    hand_out()
    must_take(call)
    assert hand_out(NOW + LEASE - timedelta(seconds=1)) == []
    assert hand_out(NOW + LEASE) == [call.pk]


def test_no_more_calls_are_handed_out_than_asked_for() -> None:
    run = make_run()
    calls = [make_call(run).pk for _ in range(5)]
    assert [hand_out(at_most=3), hand_out(at_most=3), hand_out(at_most=3)] == [
        calls[:3],
        calls[3:],
        [],
    ]


def test_runs_take_turns_at_an_endpoint() -> None:
    long, short = make_run(), make_run(slug="short")
    for run, number in ((long, 9), (short, 4)):
        add_requesters(run, "judge")
        for _ in range(number):
            make_call(run, endpoint="paid")
    for _ in range(2):
        taken = Call.objects.filter(pk__in=hand_out(at_most=4))
        assert [taken.filter(run=run).count() for run in (long, short)] == [2, 2]
    assert len(hand_out(at_most=4)) == 4


@pytest.mark.parametrize("run_state", ["open", "paused", None])
@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("needs", [None, "waiting", "done", "failed"])
def test_a_worker_finds_the_calls_that_are_claimable(
    run_state: str | None, paused: bool, needs: str | None
) -> None:
    run = make_run(run_state or "open")
    add_requesters(run, "judge")
    RunRequester.objects.update(paused_at=NOW if paused else None)
    needed = make_call(run, state=needs, requester="other") if needs else None
    calls = [
        make_call(run, needs=needed, state=state, due_at=due, lease_expires_at=due)
        for state in ("waiting", "running", "done")
        for due in (NOW, NOW + timedelta(seconds=1))
    ]
    if run_state is None:
        Call.objects.update(run=None)
    claimable = set(Call.objects.claimable(NOW).values_list("pk", flat=True))
    due = {call.pk for call in calls if leases.due_call(call_id=call.pk, now=NOW)}
    assert due == claimable & {call.pk for call in calls}
