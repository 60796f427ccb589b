"""Money: reserved before a request, settled after it, and never more than the cap together."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, OperationalError, connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from arena.calls import execution, money, scheduling
from arena.calls.execution import execute_call
from arena.calls.models import Call
from arena.calls.money import billed, cost, dollars, expected_cost, limited, raise_cap, worst_cost
from arena.calls.prices import Rate
from arena.calls.providers.base import (
    Message,
    ModelRefusedError,
    RejectedError,
    Reply,
    Request,
    RetryableError,
)
from arena.models import Run
from arena.services.runs import cancel_run, resume_run
from tests.arena.ledger import (
    LEASE,
    Model,
    Question,
    books,
    end,
    execute,
    must_take,
    paid_call,
    says,
    take,
)
from tests.factories import DOLLAR, MODEL, NOW, make_call, make_run

ONE = Rate(DOLLAR, 2 * DOLLAR)  # as at the endpoint `paid`
MUCH = 5 * DOLLAR  # more nano-dollars than 32 bits hold
OF_ONE_REPLY = 10 * 1000 + 5 * 2000


def worst() -> int:
    return worst_cost(ONE, Request(MODEL, (Message("user", "Which one?"),)))


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_cost_is_exact_and_rounded_up(into: int, out: int, n_in: int, n_out: int) -> None:
    exact = Fraction(n_in * into + n_out * out, 10**6)
    assert 0 <= cost(Rate(into, out), n_in, n_out) - exact < 1


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 10**6))
def test_cached_input_costs_its_own_price(into: int, less: int, n_in: int, cached: int) -> None:
    rate = Rate(into, 7, min(less, into))
    fresh = max(0, n_in - cached)
    exact = Fraction(fresh * into + min(cached, n_in) * min(less, into) + 5 * 7, 10**6)
    assert 0 <= cost(rate, n_in, 5, cached) - exact < 1
    assert cost(Rate(into, 7), n_in, 5, cached) == cost(Rate(into, 7), n_in, 5)
    assert cost(Rate(into, 7, 0), n_in, 5, n_in) == cost(Rate(into, 7), 0, 5)


@given(st.text(max_size=300), st.integers(1, 4000), st.data())
def test_no_reply_costs_more_than_the_worst_case(
    text: str, limit: int, data: st.DataObject
) -> None:
    request = Request(MODEL, (Message("user", text),), {"max_tokens": limit})
    tokens_in = data.draw(st.integers(0, len(text.encode("utf-8", "surrogatepass")) + 20))
    tokens_out = data.draw(st.integers(0, limit))
    assert cost(ONE, tokens_in, tokens_out) <= worst_cost(ONE, request)


def test_schemas_tools_and_several_answers_count_as_worst_case() -> None:
    plain = Request(MODEL, (Message("user", "Hi"),), {"max_tokens": 10})
    more = [
        Request(MODEL, plain.messages, {"max_tokens": 10}, schema={"type": "object"}),
        Request(MODEL, plain.messages, {"max_tokens": 10, "tools": [{"name": "x"}]}),
        Request(MODEL, plain.messages, {"max_tokens": 10, "n": 2}),
        Request(MODEL, plain.messages, {"max_tokens": 10, "max_completion_tokens": 50}),
    ]
    assert all(worst_cost(ONE, request) > worst_cost(ONE, plain) for request in more)


def test_a_request_without_a_limit_is_given_one() -> None:
    plain = Request(MODEL, (Message("user", "Hi"),), {"seed": 1})
    assert limited(plain).parameters == {"seed": 1, "max_tokens": money.DEFAULT_MAX_TOKENS}
    own = Request(MODEL, plain.messages, {"max_completion_tokens": 7})
    assert limited(own) == own


def test_the_expected_cost_takes_four_characters_for_a_token() -> None:
    request = Request(MODEL, (Message("user", "x" * 400),))
    assert expected_cost(ONE, request, 50) == cost(ONE, 100, 50)


def test_a_reply_without_usage_costs_the_worst_case() -> None:
    assert billed(ONE, says("A", None, None), 99) == 99
    assert billed(ONE, says("A", 10, None), 99) == 99
    assert billed(ONE, says("A", 10, 0), 99) == 10_000


@pytest.mark.parametrize(
    ("nano", "written"),
    [
        (0, "$0.00"),
        (5 * DOLLAR, "$5.00"),
        (12_345 * DOLLAR, "$12,345.00"),
        (1_200_000, "$0.0012"),
        (12_000, "$0.000012"),
        (7, "$0.000000007"),
        (None, "no limit"),
    ],
)
def test_amounts_are_written_as_people_do(nano: int | None, written: str) -> None:
    assert dollars(nano) == written


@pytest.mark.django_db
def test_a_call_costs_what_the_server_billed(model: Model) -> None:
    call = execute(paid_call())
    assert (call.state, call.cost, call.reserved) == ("done", OF_ONE_REPLY, 0)
    assert books(call.run) == (OF_ONE_REPLY, 0, 0)


@pytest.mark.django_db
def test_the_worst_case_is_reserved_while_the_model_thinks(model: Model) -> None:
    call = paid_call()
    seen: list[tuple[int, int, int]] = []

    def think() -> Reply:
        seen.append(books(call.run))
        return says("A")

    model.otherwise = think
    execute(call)
    assert seen == [(0, worst(), 0)]


@pytest.mark.django_db
def test_costs_of_all_requests_of_a_call_add_up(model: Model) -> None:
    model.outcomes = [RetryableError("HTTP 500"), says("?"), RetryableError("HTTP 500")]
    call = paid_call()
    for _ in range(3):
        call = execute(call, Question(repair="The verdict alone, please."))
    assert (call.state, call.requests, call.tokens_in) == ("done", 4, 20)
    assert books(call.run) == (2 * OF_ONE_REPLY, 0, 0)


@pytest.mark.django_db
def test_a_refusal_is_booked_and_an_error_costs_nothing(model: Model) -> None:
    model.outcomes = [ModelRefusedError("No.", says("I cannot.")), RejectedError("HTTP 400")]
    refused, rejected = execute(paid_call()), execute(paid_call())
    assert (refused.state, refused.cost) == ("refused", OF_ONE_REPLY)
    assert (rejected.state, rejected.cost, rejected.reserved) == ("failed", 0, 0)


@pytest.mark.django_db
def test_without_usage_the_worst_case_is_booked_and_said(model: Model) -> None:
    model.outcomes = [says("A", None, None)]
    call = execute(paid_call())
    assert (call.state, call.cost, call.tokens_in) == ("done", worst(), None)
    assert "no token counts" in call.error


@pytest.mark.django_db
def test_a_request_that_was_cut_off_is_uncertain_money(model: Model) -> None:
    model.outcomes = [RetryableError("Timeout.", maybe_billed=True)]
    call = execute(paid_call())
    assert (call.state, call.uncertain, call.cut_off_requests) == ("waiting", worst(), 1)
    assert books(execute(call).run) == (OF_ONE_REPLY, 0, worst())


@pytest.mark.django_db
def test_a_rejected_request_costs_nothing(model: Model) -> None:
    model.outcomes = [RetryableError("HTTP 429", retry_after=1)]
    assert books(execute(paid_call()).run) == (0, 0, 0)


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["open", "paused", "cancelled"])
def test_what_a_worker_that_died_had_reserved_becomes_uncertain(model: Model, state: str) -> None:
    call = paid_call()
    must_take(call, amount=700)
    run = call.run
    Run.objects.filter(pk=run.pk).update(state=state)
    scheduling.sweep(now=NOW)
    assert books(run) == (0, 700, 0)
    scheduling.sweep(now=NOW + LEASE)
    assert books(run) == (0, 0, 700)
    assert Call.objects.get().cut_off_requests == 1


@pytest.mark.django_db
def test_amounts_of_more_than_32_bits_are_booked_as_they_are() -> None:
    run = make_run(cap=4 * MUCH)
    cut_off = must_take(make_call(run), amount=MUCH)
    call = must_take(make_call(run), amount=MUCH)
    assert end(call, "done", cost=MUCH + 1)
    assert end(cut_off, "failed", uncertain=MUCH)
    assert books(run) == (MUCH + 1, 0, MUCH)
    with pytest.raises(money.BudgetDeniedError):
        must_take(make_call(run), amount=2 * MUCH)
    with pytest.raises(ValidationError, match=r"reserved \$5\.00, and up to \$5\.00 more may"):
        raise_cap(run_id=run.pk, cap=2 * MUCH)
    raise_cap(run_id=run.pk, cap=10 * MUCH)
    must_take(make_call(run), amount=2 * MUCH)


@pytest.mark.django_db
def test_a_worker_that_lost_its_lease_moves_no_money(model: Model) -> None:
    late = must_take(paid_call(), amount=700)
    second = must_take(late, NOW + LEASE, amount=700)
    assert not end(late, "done", cost=500)
    assert books(late.run) == (0, 700, 700)
    assert end(second, "done", cost=500)
    assert books(late.run) == (500, 0, 700)


@pytest.mark.django_db
def test_the_run_pauses_at_its_cap_and_resumes_with_a_higher(model: Model) -> None:
    call = paid_call(cap=worst() - 1)
    waiting = execute(call)
    run = waiting.run
    assert (waiting.state, waiting.requests, run.state) == ("waiting", 0, "paused")
    assert run.pause_reason.startswith("The cap of $0.0042 is reached: $0.00 is spent")
    assert model.requests == []
    raise_cap(run_id=run.pk, cap=worst())
    resume_run(run_id=run.pk, now=NOW)
    assert execute(call).state == "done"


@pytest.mark.django_db
def test_reservations_alone_do_not_reach_the_cap(model: Model) -> None:
    run = make_run(cap=worst() + 1)
    held = must_take(make_call(run, endpoint="paid"), amount=worst())
    waiting = execute(make_call(run, endpoint="paid"))
    assert (waiting.state, waiting.requests, waiting.run.state) == ("waiting", 0, "open")
    assert waiting.due_at > NOW
    end(held, "done", cost=1)
    assert execute(waiting).state == "done"


@pytest.mark.django_db
def test_a_cap_is_not_set_below_what_is_spent(model: Model) -> None:
    run = execute(paid_call()).run
    with pytest.raises(ValidationError, match=r"spent or reserved \$0\.000020"):
        raise_cap(run_id=run.pk, cap=OF_ONE_REPLY - 1)
    raise_cap(run_id=run.pk, cap=OF_ONE_REPLY)
    run.refresh_from_db()
    assert run.cap == OF_ONE_REPLY


@pytest.mark.django_db
def test_a_run_without_a_cap_spends_nothing(model: Model) -> None:
    call = execute(paid_call(cap=None))
    assert (call.state, call.run.state) == ("waiting", "paused")
    assert "no spending cap" in call.run.pause_reason


@pytest.mark.django_db
def test_a_call_of_no_run_spends_nothing(model: Model) -> None:
    call = paid_call()
    Call.objects.filter(pk=call.pk).update(run=None)
    call = execute(call)
    assert (call.state, model.requests) == ("failed", [])
    assert "belongs to no run" in call.error


@pytest.mark.django_db
def test_a_bill_above_the_bound_is_booked_and_stops_the_run(model: Model) -> None:
    model.outcomes = [says("A", 10**6, 10**6)]
    run = execute(paid_call(cap=worst())).run
    assert books(run) == (3 * DOLLAR, 0, 0)
    assert (run.state, run.pause_reason[:22]) == ("paused", "The server billed more")


@pytest.mark.django_db
def test_a_copied_reply_costs_its_run_nothing(model: Model) -> None:
    first, second = make_run(cap=DOLLAR), make_run(cap=1)
    one = execute(make_call(first, endpoint="paid", subject="1,2"))
    copy = execute(make_call(second, endpoint="paid", subject="1,2"))
    assert (copy.state, copy.copied, copy.reply) == ("done", True, one.reply)
    assert (copy.requests, copy.cost, copy.tokens_in, copy.seconds) == (0, 0, None, None)
    assert (books(first), books(second)) == ((OF_ONE_REPLY, 0, 0), (0, 0, 0))


@pytest.mark.django_db
def test_what_was_sent_stays_in_the_run_that_sent_it(model: Model) -> None:
    old, new = make_run(cap=20 * DOLLAR), make_run(cap=20 * DOLLAR)
    held = must_take(make_call(old, endpoint="paid", subject="1,2"), amount=MUCH)
    cancel_run(run_id=old.pk, now=NOW)
    waiting = make_call(new, endpoint="paid", subject="1,2")
    assert (take(waiting), books(new)) == (None, (0, 0, 0))
    assert end(held, "done", cost=MUCH - 1)
    assert execute(waiting).copied
    assert (books(old), books(new)) == ((MUCH - 1, 0, 0), (0, 0, 0))


@pytest.mark.django_db
def test_the_database_refuses_to_give_back_what_was_not_reserved(model: Model) -> None:
    call = paid_call()
    with pytest.raises(IntegrityError):
        money.book(run_id=call.run_id, released=1, cost=0, uncertain=0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("endpoint", ["paid", "scripted"])
def test_a_call_takes_few_statements(model: Model, endpoint: str) -> None:
    run = make_run(cap=DOLLAR)
    execute(make_call(run, endpoint=endpoint))
    call = make_call(run, endpoint=endpoint)
    with CaptureQueriesContext(connection) as asked:
        execute_call(call_id=call.pk, handler=Question())
    statements = [q["sql"] for q in asked if q["sql"].split()[0] in ("SELECT", "UPDATE", "INSERT")]
    assert len(statements) <= 5, "\n".join(statements)


@pytest.mark.django_db(transaction=True)
def test_a_database_away_for_a_moment_costs_no_paid_reply(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, tries = execution._finish_call, []

    def away(*args: Any) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError("server closed the connection unexpectedly")
        finish(*args)

    monkeypatch.setattr(execution, "_finish_call", away)
    monkeypatch.setattr(execution, "DATABASE_AGAIN", 0.01)
    run = make_run(cap=DOLLAR)
    call = execute_call(call_id=make_call(run, endpoint="paid").pk, handler=Question())
    assert call is not None
    assert (call.state, len(model.requests), books(run)) == ("done", 1, (20_000, 0, 0))


@pytest.mark.django_db(transaction=True)
def test_what_a_broken_connection_had_written_is_booked_once(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(execution, "_settle_usage", broken)
    run = make_run(cap=DOLLAR)
    call = execute_call(call_id=make_call(run, endpoint="paid").pk, handler=Question())
    assert call is not None
    assert (call.state, call.model_returned) == ("done", MODEL)
    assert books(run) == (20_000, 0, 0)


def keys_of(model: Model, *outcomes: Reply | Exception, idempotent: bool = True) -> list[str]:
    """The idempotency keys of a call's requests that come to these outcomes."""
    endpoints = django_settings.MODEL_ENDPOINTS
    django_settings.MODEL_ENDPOINTS = endpoints | {
        "paid": replace(endpoints["paid"], idempotent=idempotent)
    }
    model.outcomes = [*outcomes]
    call = make_call(make_run(cap=DOLLAR), endpoint="paid")
    while not (call := execute(call, Question("Again: A or B?"))).has_ended:
        Call.objects.filter(pk=call.pk).update(due_at=NOW, enqueue_after=NOW)
    return [request.idempotency_key for request in model.requests]


LOST = RetryableError("The connection broke", maybe_billed=True)
STILL_AT_IT = RetryableError("HTTP 409: in progress", in_progress=True)
BROKEN = RetryableError("HTTP 500")


@pytest.mark.django_db
def test_a_lost_answer_is_asked_for_with_the_same_key(model: Model, settings: Any) -> None:
    first, *others = keys_of(model, LOST, STILL_AT_IT, LOST, says("A"))
    assert len(first) == 64
    assert others == [first] * 3


@pytest.mark.django_db
def test_an_error_that_the_server_may_have_stored_is_not_asked_for_again(
    model: Model, settings: Any
) -> None:
    keys = keys_of(model, BROKEN, LOST, says("no verdict"), says("A"))
    assert len(set(keys)) == 3
    assert keys[1] == keys[2]


@pytest.mark.django_db
def test_servers_that_know_no_keys_get_none(model: Model, settings: Any) -> None:
    assert keys_of(model, LOST, says("A"), idempotent=False) == ["", ""]
