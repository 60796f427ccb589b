"""A reply that was paid for survives a database that is away for a moment."""

from typing import Any

import pytest
from django.db import OperationalError

from arena.calls import execution
from arena.calls.execution import execute_call
from tests.arena.ledger import Model, Question, books
from tests.factories import DOLLAR, MODEL, make_call, make_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_database_away_for_a_moment_costs_no_paid_reply(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, tries = execution._finish, []

    def away(*args: Any) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError("server closed the connection unexpectedly")
        finish(*args)

    monkeypatch.setattr(execution, "_finish", away)
    monkeypatch.setattr(execution, "DATABASE_AGAIN", 0.01)
    run = make_run(cap=DOLLAR)
    call = execute_call(call_id=make_call(run, endpoint="paid").pk, handler=Question())
    assert call is not None
    assert (call.state, len(model.requests), books(run)) == ("done", 1, (20_000, 0, 0))


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
