"""The breaker: a requester that keeps failing is paused with a reason, and continues when
resumed."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from arena.calls import paces
from arena.calls.models import MAX_REQUESTS, Call, EndpointPace, RunRequester
from arena.calls.providers.base import EndpointStoppedError, RejectedError, RetryableError
from arena.calls.scheduling import sweep
from arena.endpoints import endpoint_named
from arena.models import Run
from arena.services import runs
from arena.services.runs import pause_requester, pause_run, reopen_run, resume_run
from tests.arena.ledger import (
    Model,
    Question,
    add_requesters,
    books,
    end,
    execute,
    hand_out,
    must_take,
)
from tests.factories import DOLLAR, NOW, make_call, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    """A run of two requesters."""
    run = make_run(cap=DOLLAR)
    add_requesters(run, "first", "second")
    return run


def row(run: Run, requester: str = "first", **fields: Any) -> Call:
    return make_call(run, **{"endpoint": "paid", "requester": requester} | fields)


def paused_requesters(run: Run) -> list[str]:
    return list(
        RunRequester.objects.filter(run=run, paused_at__isnull=False).values_list(
            "requester", flat=True
        )
    )


def test_a_wrong_key_stops_the_requester_and_not_the_others(model: Model, run: Run) -> None:
    model.outcomes = [EndpointStoppedError("HTTP 401: wrong key")]
    first, other = row(run), row(run, "second")
    first = execute(first)
    assert (first.state, first.error, first.reserved) == ("waiting", "HTTP 401: wrong key", 0)
    assert paused_requesters(run) == ["first"]
    assert RunRequester.objects.get(requester="first").pause_reason == "HTTP 401: wrong key"
    assert hand_out(timezone.now()) == [other.pk]
    assert execute(first).requests == 1
    assert execute(other).state == "done"


def test_the_run_pauses_with_all_reasons_when_the_last_stops(model: Model, run: Run) -> None:
    model.outcomes = [EndpointStoppedError("HTTP 401"), EndpointStoppedError("HTTP 404")]
    for call in (row(run), row(run, "second")):
        execute(call)
    run.refresh_from_db()
    assert run.state == "paused"
    assert run.pause_reason == "paid:m-1: HTTP 401; paid:m-1: HTTP 404."


def test_a_long_reason_ends_with_a_whole_word(model: Model, run: Run) -> None:
    model.outcomes = [EndpointStoppedError("HTTP 400: " + "invalid request " * 40)]
    execute(row(run))
    for paused in (RunRequester.objects.get(requester="first"), Run.objects.get(pk=run.pk)):
        assert len(paused.pause_reason) <= 300
        assert re.search(r" (?:invalid|request) …$", paused.pause_reason)
    Run.objects.filter(pk=run.pk).update(state="open")
    pause_run(run_id=run.pk, reason="HTTP 400: " + "x" * 400)
    run.refresh_from_db()
    assert run.pause_reason == f"HTTP 400: {'x' * 288} …"


def test_the_run_pauses_when_the_other_requester_has_no_call_left(model: Model, run: Run) -> None:
    model.outcomes = [EndpointStoppedError("HTTP 401")]
    row(run, "second", state="done")
    execute(row(run))
    run.refresh_from_db()
    assert run.state == "paused"


def test_the_sweep_pauses_a_run_once_the_others_have_ended(model: Model, run: Run) -> None:
    first, other = row(run), row(run, "second")
    model.outcomes = [EndpointStoppedError("HTTP 401")]
    execute(first)
    sweep(now=NOW)
    run.refresh_from_db()
    assert run.state == "open"
    execute(other)
    sweep(now=NOW)
    run.refresh_from_db()
    assert (run.state, run.pause_reason) == ("paused", "paid:m-1: HTTP 401.")


def test_a_run_stuck_behind_a_paused_requesters_call_pauses(run: Run) -> None:
    row(run, "second", needs=row(run))
    pause_requester(run_id=run.pk, requester="first", reason="No.", now=NOW)
    run.refresh_from_db()
    assert run.state == "paused"


def test_the_sweep_leaves_a_run_in_which_nothing_waits(run: Run) -> None:
    row(run, state="done")
    pause_requester(run_id=run.pk, requester="first", reason="No.", now=NOW)
    sweep(now=NOW)
    run.refresh_from_db()
    assert run.state == "open"


def test_a_question_that_cannot_be_put_stops_its_requester(model: Model, run: Run) -> None:
    question = Question()
    question.broken = "The rubric changed."
    row(run, "second")
    call = execute(row(run), question)
    assert (call.state, call.requests, paused_requesters(run)) == ("waiting", 0, ["first"])


def test_a_missing_endpoint_stops_its_requester_with_a_sentence(run: Run) -> None:
    row(run, "second")
    execute(row(run, endpoint="gone"))
    assert (
        "no model endpoint called 'gone'"
        in RunRequester.objects.get(requester="first").pause_reason
    )
    with pytest.raises(LookupError):
        endpoint_named("gone")


def test_a_run_from_before_requesters_had_rows_pauses_as_a_whole(model: Model) -> None:
    model.outcomes = [EndpointStoppedError("HTTP 403")]
    run = execute(row(make_run(cap=DOLLAR))).run
    assert (run.state, run.pause_reason) == ("paused", "HTTP 403")


def fail(run: Run, count: int, requester: str = "first") -> None:
    for i in range(count):
        call = must_take(row(run, requester))
        end(call, "failed", NOW + timedelta(seconds=i), error="boom")
        runs.pause_if_failing(run_id=run.pk, requester=requester, now=NOW)


def test_ten_failures_in_a_row_pause_the_requester_and_say_why(run: Run) -> None:
    row(run, "second")
    fail(run, 9)
    assert paused_requesters(run) == []
    fail(run, 1)
    assert paused_requesters(run) == ["first"]
    reason = RunRequester.objects.get(requester="first").pause_reason
    assert reason == "10 calls in a row failed. The last one: boom"
    run.refresh_from_db()
    assert run.state == "open"


def test_failures_are_counted_by_the_calls_that_are_made(model: Model, run: Run) -> None:
    model.otherwise = RejectedError("HTTP 400")
    for _ in range(10):
        execute(row(run))
    assert paused_requesters(run) == ["first"]


def test_failures_of_another_requester_do_not_count(run: Run) -> None:
    fail(run, 9)
    fail(run, 9, "second")
    assert paused_requesters(run) == []


def test_a_call_that_succeeds_breaks_the_row(run: Run) -> None:
    fail(run, 9)
    end(must_take(row(run)), "done", NOW + timedelta(minutes=1))
    assert not runs.pause_if_failing(run_id=run.pk, requester="first", now=NOW)


def test_calls_that_failed_with_the_one_they_needed_do_not_count(run: Run) -> None:
    note = must_take(row(run))
    for _ in range(12):
        row(run, needs=note)
    end(note, "failed")
    assert not runs.pause_if_failing(run_id=run.pk, requester="first", now=NOW)


def test_a_resumed_run_retries_failures_alone(run: Run) -> None:
    fail(run, 1)
    done = must_take(row(run))
    end(done, "done")
    pause_requester(run_id=run.pk, requester="first", reason="HTTP 401", now=NOW)
    pause_run(run_id=run.pk, reason="HTTP 401")
    assert resume_run(run_id=run.pk, now=NOW)
    run.refresh_from_db()
    failed = Call.objects.exclude(pk=done.pk).get()
    assert (run.state, run.pause_reason, paused_requesters(run)) == ("open", "", [])
    assert (failed.state, failed.requests_allowed) == ("waiting", 1 + MAX_REQUESTS)
    assert hand_out() == [failed.pk]


def test_a_wrong_key_costs_no_try_however_often_resumed(model: Model, run: Run) -> None:
    model.otherwise = EndpointStoppedError("HTTP 401")
    call = row(run)
    for _ in range(MAX_REQUESTS + 1):
        call = execute(call)
        resume_run(run_id=run.pk, now=NOW)
    assert (call.state, call.requests) == ("waiting", MAX_REQUESTS + 1)


@pytest.mark.parametrize("state", ["done", "cancelled", "ordered"])
def test_only_a_run_that_was_running_is_resumed(run: Run, state: str) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)
    call = row(run, state="failed")
    assert not resume_run(run_id=run.pk, now=NOW)
    run.refresh_from_db()
    call.refresh_from_db()
    assert (run.state, call.state) == (state, "failed")


def test_a_completed_run_is_reopened_for_its_failures_alone(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state="done", closed_at=NOW)
    failed, refused = row(run, state="failed"), row(run, state="refused")
    assert reopen_run(run_id=run.pk, now=NOW)
    for one in (run, failed, refused):
        one.refresh_from_db()
    assert (run.state, run.closed_at) == ("open", None)
    assert (failed.state, refused.state) == ("waiting", "refused")


@pytest.mark.parametrize("state", ["ordered", "open", "paused", "cancelled"])
def test_only_a_run_that_is_through_is_reopened(run: Run, state: str) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)
    call = row(run, state="failed")
    assert not reopen_run(run_id=run.pk, now=NOW)
    run.refresh_from_db()
    call.refresh_from_db()
    assert (run.state, call.state) == (state, "failed")


LOST = RetryableError("The connection broke: gone", maybe_billed=True)


def reopen_endpoint() -> None:
    """As if the pause after a broken request were over."""
    EndpointPace.objects.update(closed_until=0.0)


def test_after_ten_requests_without_an_answer_one_is_sent_at_a_time(model: Model, run: Run) -> None:
    model.otherwise = LOST
    for _ in range(10):
        execute(row(run))
    waiting = row(run)
    assert (execute(waiting).requests, len(model.requests)) == (0, 10)
    reopen_endpoint()
    paid, lease, now = endpoint_named("paid"), timedelta(seconds=30), timezone.now()

    def try_at(when: datetime) -> datetime | None:
        return paces.may_try(endpoint=paid, broken=10, lease=lease, now=when)

    assert try_at(now) is None
    later = try_at(now)
    assert later is not None
    assert later > now
    assert try_at(now + lease) is None


def test_an_answer_opens_the_endpoint_again(model: Model, run: Run) -> None:
    model.outcomes = [LOST] * 10
    for _ in range(10):
        execute(row(run))
    reopen_endpoint()
    assert execute(row(run)).state == "done"
    assert execute(row(run)).state == "done"
    assert EndpointPace.objects.get().broken == 0


@pytest.mark.parametrize("answer", [RejectedError("HTTP 400"), RetryableError("HTTP 503")])
def test_an_error_is_an_answer(model: Model, run: Run, answer: Exception) -> None:
    model.outcomes = [*[LOST] * 9, answer, *[LOST] * 9]
    for _ in range(19):
        execute(row(run))
    assert (execute(row(run)).state, len(model.requests)) == ("done", 20)


def test_a_server_that_answers_nothing_costs_a_few_cents_of_doubt_and_pauses_the_run(
    model: Model,
) -> None:
    run = make_run(cap=5 * DOLLAR)
    add_requesters(run, "first")
    model.otherwise = LOST
    calls = [row(run) for _ in range(200)]
    for call in calls:
        execute(call)
        reopen_endpoint()
    settled, reserved, uncertain = books(run)
    assert (len(model.requests), settled, reserved) == (20, 0, 0)
    assert uncertain == sum(call.uncertain for call in Call.objects.all()) < DOLLAR // 10
    assert run.state == "paused"
    assert "paid has left 20 requests in a row without an answer." in run.pause_reason
    assert "The last one: The connection broke: gone Resume the run once" in run.pause_reason


def test_a_resumed_run_sends_one_request_to_a_server_that_is_still_down(
    model: Model, run: Run
) -> None:
    model.otherwise = LOST
    for _ in range(20):
        execute(row(run))
        reopen_endpoint()
    assert paused_requesters(run) == ["first"]
    resume_run(run_id=run.pk, now=NOW)
    execute(row(run))
    assert (paused_requesters(run), len(model.requests)) == (["first"], 21)
