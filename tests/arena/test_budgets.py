"""A team's budget: the limit for all its runs together, whoever orders and however many at once."""

from functools import partial

import pytest
from django.db import connection, transaction
from django.utils import timezone

from arena.actors import CLI, Actor
from arena.calls.models import Call
from arena.calls.providers.base import RejectedError
from arena.generation import GenerationError
from arena.models import Arena, Run, Team
from arena.services import runs as engine
from arena.services.arenas import delete_arena
from arena.services.budgets import BudgetError, budget_left, committed_by, reserve_budget
from arena.services.runs import cancel_run
from tests.arena.generation import order, work_off
from tests.arena.ledger import Model
from tests.deadlocks import at_once
from tests.factories import DOLLAR, make_paying_team, make_variant

NOW = timezone.now()


def run_of(team: Team, state: str, **money: int) -> Run:
    candidate = make_variant(0, team)
    return Run.objects.create(
        arena=candidate.arena, kind="answers", candidate=candidate, team=team, state=state, **money
    )


def refusal(team: Team | None, cap: int | None) -> str:
    try:
        with transaction.atomic():
            reserve_budget(team=team, cap=cap)
    except BudgetError as refused:
        return str(refused)
    return ""


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["ordered", "open", "paused"])
def test_of_a_run_that_is_not_over_the_whole_cap_counts(state: str) -> None:
    team = make_paying_team(10 * DOLLAR)
    run_of(team, state, cap=7 * DOLLAR, settled=DOLLAR)
    assert committed_by(team) == 7 * DOLLAR
    assert refusal(team, 3 * DOLLAR) == ""
    said = refusal(team, 3 * DOLLAR + 1)
    assert "$3.00 left of its budget of $10.00" in said


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_of_a_run_that_is_over_what_it_cost_counts(state: str) -> None:
    team = make_paying_team(10 * DOLLAR)
    money = {"settled": 2 * DOLLAR, "uncertain": DOLLAR, "reserved": DOLLAR}
    run_of(team, state, cap=7 * DOLLAR, **money)
    assert committed_by(team) == 4 * DOLLAR
    assert (refusal(team, 6 * DOLLAR), bool(refusal(team, 6 * DOLLAR + 1))) == ("", True)


@pytest.mark.django_db
def test_free_runs_and_runs_of_no_team_need_no_budget() -> None:
    team = make_paying_team(0)
    run_of(team, "open", cap=None)
    assert [refusal(team, None), refusal(team, 0), refusal(None, DOLLAR)] == ["", "", ""]
    assert "has no budget yet" in refusal(team, 1)


@pytest.mark.django_db
def test_another_team_s_runs_do_not_count() -> None:
    run_of(make_paying_team(), "open", cap=9 * DOLLAR)
    assert refusal(make_paying_team(DOLLAR), DOLLAR) == ""


@pytest.mark.django_db
def test_an_order_above_the_budget_writes_nothing(model: Model) -> None:
    candidate = make_variant(2, make_paying_team(DOLLAR))
    with pytest.raises(BudgetError):
        order(candidate, cap=2 * DOLLAR)
    assert not Run.objects.exists()
    assert not Call.objects.exists()
    assert not model.requests


@pytest.mark.django_db
@pytest.mark.usefixtures("model")
def test_a_candidate_in_another_team_s_arena_is_paid_by_its_own() -> None:
    arena = make_variant(1, make_paying_team(0)).arena
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=True)
    mine = make_paying_team(DOLLAR)
    assert order(make_variant(arena=arena, team=mine)).team == mine
    without = make_variant(arena=arena, team=None)
    with pytest.raises(BudgetError, match=str(arena.team)):
        order(without)


@pytest.mark.django_db
@pytest.mark.usefixtures("model")
def test_a_higher_cap_is_within_the_budget_too() -> None:
    run = order(make_variant(2, make_paying_team(3 * DOLLAR)), cap=2 * DOLLAR)
    by = Actor()
    engine.pause(run=run, by=by)
    run.refresh_from_db()
    with pytest.raises(BudgetError):
        engine.resume(run=run, by=by, now=NOW, cap=3 * DOLLAR + 1)
    run.refresh_from_db()
    assert (run.state, run.cap) == ("paused", 2 * DOLLAR)
    engine.resume(run=run, by=by, now=NOW, cap=3 * DOLLAR)
    run.refresh_from_db()
    assert (run.state, run.cap) == ("open", 3 * DOLLAR)


@pytest.mark.django_db
def test_retried_failures_take_the_cap_from_the_budget(model: Model) -> None:
    team = make_paying_team(3 * DOLLAR)
    model.outcomes = [RejectedError("Not like this.")]
    run = work_off(order(make_variant(2, team), cap=2 * DOLLAR))
    other = order(make_variant(2, team), cap=2 * DOLLAR)
    with pytest.raises(BudgetError):
        engine.retry_failed(run=run, by=Actor(), now=NOW)
    run.refresh_from_db()
    assert run.state == "done"
    cancel_run(run_id=other.pk, now=NOW)
    engine.retry_failed(run=run, by=Actor(), now=NOW)
    assert work_off(run).votes_done == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("model")
def test_twenty_orders_at_once_never_pass_the_budget_together() -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time.")
    team = make_paying_team(7 * DOLLAR)
    candidates = [make_variant(2, team) for _ in range(20)]
    works = [partial(order, candidate, cap=2 * DOLLAR) for candidate in candidates]
    ordered = sum(isinstance(one, Run) for one in at_once(*works, expecting=(BudgetError,)))
    assert ordered == 3
    assert committed_by(team) == 6 * DOLLAR
    assert set(Run.objects.values_list("state", flat=True)) == {"open"}
    assert Call.objects.count() == 2 * ordered


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("model")
def test_ten_orders_of_one_candidate_at_once_make_one_run() -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time.")
    candidate = make_variant(2, make_paying_team())
    became = at_once(*[partial(order, candidate)] * 10, expecting=(GenerationError,))
    assert [one.state for one in became if isinstance(one, Run)] == ["open"]
    assert (Run.objects.count(), Call.objects.count()) == (1, 2)


@pytest.mark.django_db
def test_a_cap_that_was_lowered_meanwhile_gave_its_part_back() -> None:
    team = make_paying_team(100 * DOLLAR)
    page = run_of(team, "paused", cap=90 * DOLLAR)
    engine.resume(run=Run.objects.get(pk=page.pk), by=Actor(), now=NOW, cap=DOLLAR)
    Run.objects.filter(pk=page.pk).update(state="paused")
    run_of(team, "open", cap=95 * DOLLAR)
    with pytest.raises(BudgetError, match=r"has \$4.00 left"):
        engine.resume(run=page, by=Actor(), now=NOW, cap=92 * DOLLAR)
    assert committed_by(team) == 96 * DOLLAR


@pytest.mark.django_db
def test_what_a_deleted_arena_cost_stays_spent() -> None:
    team = make_paying_team(budget=100 * DOLLAR)
    run = run_of(team, "done", cap=70 * DOLLAR, settled=60 * DOLLAR)
    delete_arena(arena=run.in_arena, by=CLI)
    team.refresh_from_db()
    assert budget_left(team) == 40 * DOLLAR
