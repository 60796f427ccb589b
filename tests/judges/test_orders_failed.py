"""An order that fails halfway reserves no money, and a killed one only for seconds."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from arena.calls.models import Call
from arena.models import Arena, Run, Team
from arena.services import locks
from arena.services import runs as engine
from arena.services.budgets import committed_by
from arena.services.runs import cancel_stale_orders
from arena.tasks import sweep_calls
from judges.services import runs
from tests.arena.rest import token_of
from tests.deadlocks import Other, deadlock, failing
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import LOCAL, order, order_lock_held, price_local

pytestmark = pytest.mark.django_db(transaction=True)
CAP = 10**9


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, no_worker: None) -> None:
    monkeypatch.setattr("ranking.signals.schedule_refresh", lambda arena_id: None)
    monkeypatch.setattr(runs, "BATCH", 1)


@pytest.fixture
def budgeted_arena(team: Team, local: FakeServer, settings: Any) -> Arena:
    """An arena of a team that can pay for one order at a time."""
    price_local(settings, CAP // 100)
    Team.objects.update(budget=CAP)
    return make_arena(2, 4, team=team)


@pytest.fixture
def left_behind(budgeted_arena: Arena, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose orderer was killed."""
    with monkeypatch.context() as patch:
        patch.setattr(engine, "open_run", lambda run: None)
        return order(budgeted_arena, cap=CAP)


def states() -> list[str]:
    return list(Run.objects.exclude(arena=None).order_by("pk").values_list("state", flat=True))


@pytest.mark.parametrize("error", [deadlock(), KeyboardInterrupt()], ids=["deadlock", "Ctrl-C"])
def test_an_order_that_fails_half_way_is_given_up(
    budgeted_arena: Arena, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run: Run) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(engine, "open_run", fail)
        with pytest.raises(type(error)):
            order(budgeted_arena, cap=CAP)
    assert budgeted_arena.team is not None
    assert (states(), committed_by(budgeted_arena.team)) == (["cancelled"], 0)
    run = order(budgeted_arena, cap=CAP)
    assert (run.state, run.votes_wanted, Call.objects.filter(run=run).count()) == ("open", 2, 4)


def test_a_batch_that_ends_in_a_deadlock_is_written_again(
    budgeted_arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the transaction of a batch, after its first writes."""
    name = "judges.services.runs._show_to_people"
    monkeypatch.setattr(name, failing(lambda *args: None, before=1))
    run = order(budgeted_arena, cap=CAP)
    assert (states(), run.votes_wanted, run.comparisons.count()) == (["open"], 2, 2)


def test_the_sweep_gives_up_what_a_killed_process_was_writing(left_behind: Run) -> None:
    sweep_calls()
    assert states() == ["cancelled"]
    assert left_behind.team is not None
    assert committed_by(left_behind.team) == 0


def test_next_order_cancels_it_and_takes_over_its_items(left_behind: Run) -> None:
    run = order(left_behind.in_arena, cap=CAP)
    assert (states(), run.votes_wanted) == (["cancelled", "open"], 2)


def test_a_run_that_is_being_written_is_not_given_up(left_behind: Run) -> None:
    with order_lock_held(left_behind.in_arena):
        cancel_stale_orders(now=timezone.now())
        assert states() == ["ordered"]
    cancel_stale_orders(now=timezone.now())
    assert states() == ["cancelled"]


def test_error_after_opening_does_not_fail_the_order(
    budgeted_arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "settle_ready", failing(lambda now, run: None))
    assert order(budgeted_arena, cap=CAP).state == "open"


@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": "one"}], ids=["no key", "key"])
def test_the_api_says_what_may_be_sent_again_and_it_can_be(
    budgeted_arena: Arena, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, path = token_of(budgeted_arena.team), f"arenas/{budgeted_arena.slug}/judge-runs/"
    asked: dict[str, Any] = {"judges": [LOCAL], "per_pair": 2, "cap": 1.0}
    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_comparisons", failing(runs.write_comparisons, times=9, before=1))
        failed = caller.post(path, asked, **headers)
    assert (failed.status_code, failed.json()["type"]) == (503, "urn:ringside:problem:busy")
    assert "Nothing was written" not in failed.json()["detail"]
    assert set(states()) <= {"cancelled"}
    assert budgeted_arena.team is not None
    assert committed_by(budgeted_arena.team) == 0
    made = caller.post(path, asked, **headers)
    assert (made.status_code, Run.objects.filter(state="open").count()) == (201, 1)


def test_counting_pairs_waits_for_the_open_batch(
    budgeted_arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each locks many pairs, in its own order."""
    if connection.vendor != "postgresql":
        pytest.skip("On SQLite whoever writes is alone.")
    other = Other(lambda: transaction.atomic(locks.lock_arena)(budgeted_arena.pk))
    waited = []

    def count_meanwhile(*args: Any) -> None:
        if not waited:
            other.start()
            waited.append(not other.ends_within(0.5))

    monkeypatch.setattr("judges.services.runs._show_to_people", count_meanwhile)
    run = order(budgeted_arena, cap=CAP)
    other.check()
    assert (waited, run.state) == ([True], "open")
