"""Calls, and a model that replies as a test wants."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db.models import Sum

from arena.calls import leases
from arena.calls.execution import CannotAskError, ReplyReading, execute_call
from arena.calls.models import Call, RunRequester
from arena.calls.providers.base import Message, Reply, Request
from arena.calls.scheduling import endpoints_with_work, take_calls
from arena.models import Run
from tests.factories import DOLLAR, MODEL, NOW, make_call, make_run

LEASE = timedelta(seconds=30)


def paid_call(cap: int | None = DOLLAR, **fields: Any) -> Call:
    """A call at the endpoint `paid`, in its own run."""
    return make_call(make_run(cap=cap), endpoint="paid", **fields)


def add_requesters(run: Run, *requesters: str) -> None:
    RunRequester.objects.bulk_create(
        RunRequester(run=run, requester=requester, endpoint="paid", model=MODEL)
        for requester in requesters
    )


def take(call: Call, now: Any = NOW, amount: int = 0) -> Call | None:
    """Claim a call as a worker does."""
    due = leases.due_call(call_id=call.pk, now=now)
    if due is None or due.has_ended:
        return None
    return due if leases.claim(call=due, lease=LEASE, now=now, amount=amount) else None


def must_take(call: Call, now: Any = NOW, amount: int = 0) -> Call:
    taken = take(call, now, amount)
    assert taken is not None
    return taken


def hand_out(now: Any = NOW, at_most: int = 500) -> list[int]:
    """Take the calls due as workers do, at all endpoints; return their ids."""
    endpoints = endpoints_with_work(now=now)
    taken = [take_calls(endpoint=name, at_most=at_most, now=now) for name in endpoints]
    return sorted(call_id for calls in taken for call_id, _ in calls)


def end(call: Call, state: str, now: Any = NOW, error: str = "", **money: int) -> bool:
    return leases.write(call=call, now=now, **leases.ended(state, error, now), **money)


class Model:
    """A provider that gives these outcomes, one after the other, then `otherwise`."""

    def __init__(self) -> None:
        self.outcomes: list[Reply | Exception] = []
        self.otherwise: Reply | Exception | Callable[[], Reply] = says("A")
        self.requests: list[Request] = []

    def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        outcome = self.outcomes.pop(0) if self.outcomes else self.otherwise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome() if callable(outcome) else outcome


def says(text: str, tokens_in: int | None = 10, tokens_out: int | None = 5) -> Reply:
    return Reply(text, model=MODEL, tokens_in=tokens_in, tokens_out=tokens_out)


def cut_off(text: str) -> Reply:
    return replace(says(text), cut_off=True)


class Question:
    """One user message; "A" is a verdict, everything else is unreadable."""

    kind = "judge"

    def __init__(
        self, repair: str | None = None, text: str = "Which one?", **parameters: Any
    ) -> None:
        self.message = repair
        self.text = text
        self.parameters = parameters
        self.turns: list[int] = []
        self.broken = ""

    def render(self, call: Call) -> Request:
        if self.broken:
            raise CannotAskError(self.broken)
        return Request(call.model, (Message("user", self.text),), self.parameters)

    def read(self, call: Call, reply: Reply) -> ReplyReading:
        self.turns.append(call.turn)
        if reply.text == "A":
            return ReplyReading("done", {"outcome": "left"})
        return ReplyReading("unreadable", note="No verdict.")

    def repair(self, call: Call) -> str | None:
        return self.message

    def settle(self, call: Call) -> None:
        pass


def execute(call: Call, question: Question | None = None) -> Call:
    """Execute a call as if it were due; return it as stored in the database."""
    Call.objects.filter(pk=call.pk, state="waiting").update(due_at=NOW)
    made = execute_call(call_id=call.pk, handler=question or Question())
    stored = Call.objects.get(pk=call.pk)
    if made is not None:
        assert_alike(made, stored)
    return stored


def assert_alike(made: Call, stored: Call) -> None:
    """What execute_call returns without asking the database is what the database has."""
    for field in Call._meta.concrete_fields:
        assert getattr(made, field.attname) == getattr(stored, field.attname), field.name


def books(run: Run) -> tuple[int, int, int]:
    """(settled, reserved, uncertain) of a run, which are the sums over its calls."""
    run.refresh_from_db()
    sums = run.calls.aggregate(Sum("cost"), Sum("reserved"), Sum("uncertain"))
    booked = (run.settled, run.reserved, run.uncertain)
    assert booked == tuple(total or 0 for total in sums.values())
    return booked
