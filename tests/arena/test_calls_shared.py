"""Calls shared by several runs: one makes the call, the others copy it, and none waits for a paused
run."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from arena.calls import leases
from arena.calls.models import Call
from arena.calls.providers.base import RejectedError, RetryableError
from arena.calls.scheduling import sweep
from arena.models import Run
from arena.services.runs import cancel_run, create_calls, pause_run
from tests.arena.ledger import (
    LEASE,
    Model,
    Question,
    books,
    end,
    execute,
    hand_out,
    must_take,
    says,
    take,
)
from tests.factories import DOLLAR, NOW, make_call, make_run

pytestmark = pytest.mark.django_db
SOON = timedelta(seconds=1)
ONE_REPLY = 20_000  # nano-dollars, as `says` answers at the endpoint `paid`


def make_shared(**fields: str) -> tuple[Call, Call]:
    """The same call of two runs."""
    values = {"endpoint": "paid", "subject": "1,2"} | fields
    first, second = (make_call(make_run(cap=DOLLAR), **values) for _ in range(2))
    return first, second


@pytest.mark.parametrize("state", ["running", "done", "unreadable", "refused", "too_long"])
def test_the_database_refuses_a_second_original(state: str) -> None:
    first, second = make_shared()
    Call.objects.filter(pk=first.pk).update(state=state)
    with pytest.raises(IntegrityError), transaction.atomic():
        Call.objects.filter(pk=second.pk).update(state=state)
    Call.objects.filter(pk=second.pk).update(state=state, copied=True)


@pytest.mark.parametrize("state", ["waiting", "failed", "cancelled"])
def test_unanswered_calls_can_be_in_several_runs(state: str) -> None:
    make_shared()
    assert Call.objects.update(state=state) == 2


def test_a_claim_that_comes_second_is_not_taken() -> None:
    first, second = make_shared()
    late = leases.due_call(call_id=second.pk, now=NOW)
    must_take(first)
    assert late is not None
    assert not leases.claim(call=late, lease=LEASE, now=NOW)


@pytest.mark.parametrize("state", ["done", "unreadable", "refused", "too_long"])
def test_an_answer_is_copied_whatever_it_is(model: Model, state: str) -> None:
    first, second = make_shared(nonce="own")
    facts = {
        "reply": "A",
        "repair_reply": "B",
        "verdict": {"outcome": "left"},
        "nonce": "n",
        "prompt_digest": "p",
        "dropped": ["seed"],
        "model_returned": "m",
        "fingerprint": "f",
    }
    Call.objects.filter(pk=first.pk).update(state=state, error="why", cost=7, tokens_in=5, **facts)
    copy = execute(second)
    assert {name: getattr(copy, name) for name in facts} == facts
    assert (copy.state, copy.error, copy.copied) == (state, "why", True)
    assert (copy.requests, copy.cost, copy.tokens_in, model.requests) == (0, 0, None, [])


def test_a_copy_has_not_ended_before_its_original() -> None:
    """The copier may have looked at its clock before the other run's request was sent."""
    first, second = make_shared()
    assert end(must_take(first), "done", now=NOW + SOON)
    copy = leases.due_call(call_id=second.pk, now=NOW)
    assert copy is not None
    assert (copy.copied, copy.finished_at) == (True, NOW + SOON)


def test_what_was_answered_before_is_copied_as_calls_are_written() -> None:
    first = make_call(subject="1,2", state="done", reply="A")
    run = make_run()
    drafts = [Call(run=run, requester="judge", subject=name, nonce="x") for name in ("1,2", "2,1")]
    calls = create_calls(drafts=drafts, now=NOW)
    assert (calls["1,2"].state, calls["1,2"].reply, calls["1,2"].copied) == ("done", "A", True)
    assert (calls["2,1"].state, calls["2,1"].copied) == ("waiting", False)
    assert first.run.calls.count() == 1


def test_copies_stay_copies_when_the_run_that_asked_is_deleted(model: Model) -> None:
    first, second = make_shared()
    execute(first)
    execute(second)
    Run.objects.filter(pk=first.run_id).delete()
    third = execute(make_call(make_run(cap=DOLLAR, slug="third"), endpoint="paid", subject="1,2"))
    assert list(Call.objects.order_by("pk").values_list("copied", "cost", "state")) == [
        (True, 0, "done"),
        (True, 0, "done"),
    ]
    assert (third.reply, len(model.requests)) == ("A", 1)


def test_a_failure_is_not_another_runs(model: Model) -> None:
    first, second = make_shared()
    model.outcomes = [RejectedError("Not like this.")]
    assert execute(first).state == "failed"
    assert (execute(second).state, execute(second).copied) == ("done", False)


def test_a_call_under_way_is_waited_for_until_its_lease_ends() -> None:
    first, second = make_shared()
    must_take(first)
    assert take(second) is None
    second.refresh_from_db()
    assert (second.state, second.due_at, second.enqueue_after) == ("waiting", *[NOW + LEASE] * 2)


@pytest.mark.parametrize("state", ["done", "failed"])
def test_the_end_of_a_call_makes_the_others_due_at_once(state: str) -> None:
    first, second = make_shared()
    held = must_take(first)
    take(second)
    assert end(held, state, now=NOW + SOON)
    assert hand_out(NOW + SOON) == [second.pk]


def test_a_shared_call_is_handed_out_soon_after_the_first_ends() -> None:
    first, second = make_shared()
    assert hand_out() == [first.pk, second.pk]
    held = must_take(first)
    assert end(held, "done", now=NOW + SOON)
    assert hand_out(NOW + SOON) == [second.pk]


def test_an_end_just_before_the_wait_for_it_is_not_missed() -> None:
    first, second = make_shared()
    held = must_take(first)
    ends = iter([held])

    def end_first(run_it: Any, statement: str, *given: Any) -> Any:
        if statement.lstrip().startswith("UPDATE") and (call := next(ends, None)):
            assert end(call, "done", now=NOW + SOON)
        return run_it(statement, *given)

    with connection.execute_wrapper(end_first):
        assert take(second, now=NOW + SOON) is None
    assert hand_out(NOW + SOON) == [second.pk]


def test_a_request_to_be_tried_again_later_lets_another_run_ask(model: Model) -> None:
    first, second = make_shared()
    model.outcomes = [RetryableError("Busy.", retry_after=600)]
    assert execute(first).state == "waiting"
    assert execute(second).state == "done"
    assert execute(first).copied


@pytest.mark.parametrize("how", ["open", "paused", "cancelled"])
def test_a_dead_worker_is_booked_in_its_own_run_and_the_other_asks(model: Model, how: str) -> None:
    first, second = make_shared()
    must_take(first, amount=500)
    if how == "paused":
        pause_run(run_id=first.run_id or 0, reason="Paused by me.")
    elif how == "cancelled":
        cancel_run(run_id=first.run_id or 0, now=NOW)
    late = NOW + LEASE
    due = leases.due_call(call_id=second.pk, now=late)
    assert due is not None
    assert leases.claim(call=due, lease=LEASE, now=late, amount=3)
    assert (books(first.run), books(second.run)) == ((0, 0, 500), (0, 3, 0))


@pytest.mark.parametrize("how", ["waiting", "cancelled", "failed"])
def test_a_first_turn_that_was_paid_is_not_paid_again(model: Model, how: str) -> None:
    """The worker died between the turns."""
    first, second = make_shared()
    spent = {"turn": 1, "reply": "Hm.", "nonce": "n", "cost": ONE_REPLY, "requests": 1}
    Call.objects.filter(pk=first.pk).update(state=how, **spent)
    model.outcomes = [says("A")]
    made = execute(second, Question("Just the verdict."))
    assert (made.state, made.reply, made.repair_reply, made.nonce) == ("done", "Hm.", "A", "n")
    assert (made.copied, made.requests, made.cost) == (False, 1, ONE_REPLY)
    assert len(model.requests[0].messages) == 3
    if how == "waiting":
        copy = execute(first, Question("Just the verdict."))
        assert (copy.state, copy.copied, copy.cost, copy.repair_reply) == (
            "done", True, ONE_REPLY, "A",
        )  # fmt: skip


@pytest.mark.parametrize("state", ["ordered", "open", "paused"])
def test_cancelling_closes_what_waits_and_books_what_is_under_way(state: str) -> None:
    run = make_run(cap=DOLLAR)
    waiting, held = (make_call(run, endpoint="paid") for _ in range(2))
    taken = must_take(held, amount=50)
    Run.objects.filter(pk=run.pk).update(state=state)
    assert cancel_run(run_id=run.pk, now=NOW)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.finished_at) == ("cancelled", NOW)
    assert end(taken, "done", cost=20)
    assert books(run) == (20, 0, 0)
    assert (run.state, run.closed_at) == ("cancelled", NOW)
    assert not cancel_run(run_id=run.pk, now=NOW)


def test_a_call_that_would_be_tried_again_in_a_cancelled_run_is_closed() -> None:
    run = make_run(cap=DOLLAR)
    held = must_take(make_call(run, endpoint="paid"), amount=50)
    cancel_run(run_id=run.pk, now=NOW)
    assert leases.write(call=held, now=NOW, **leases.waiting("Busy.", NOW))
    sweep(now=NOW)
    assert run.calls.get().state == "cancelled"


def test_a_run_that_is_over_is_not_cancelled() -> None:
    run = make_run(state="done")
    call = make_call(run)
    assert not cancel_run(run_id=run.pk, now=NOW)
    call.refresh_from_db()
    assert call.state == "waiting"
