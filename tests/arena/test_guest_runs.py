"""Teams can always read and end the runs they pay for in another team's arena."""

from typing import Any

import pytest
from django.utils import timezone

from arena.actors import Actor
from arena.calls.models import Call
from arena.models import Arena, Candidate, Run, Team
from arena.services import runs as engine
from arena.services.arenas import ArenaError, update_arena
from arena.services.budgets import committed_by
from arena.services.candidates import retire_candidate
from arena.services.runs import RunError
from tests.arena.generation import order, stored, work_off
from tests.arena.ledger import Model, says
from tests.arena.rest import Caller, member_of, token_of
from tests.factories import DOLLAR, make_arena, make_member, make_paying_team, make_variant

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def host(model: Model) -> Team:
    return make_paying_team()


@pytest.fixture
def open_arena(host: Team) -> Arena:
    return make_arena(0, 3, team=host, open_to_teams=True)


@pytest.fixture
def guest() -> Team:
    return make_paying_team()


@pytest.fixture
def candidate(open_arena: Arena, guest: Team) -> Candidate:
    return make_variant(arena=open_arena, team=guest)


def by_member_of(team: Team) -> Actor:
    return Actor(user=make_member(team).user)


def retire(candidate: Candidate, by: Actor) -> None:
    retire_candidate(candidate=candidate, by=by, now=NOW)


def make_private(arena: Arena, by: Actor) -> Arena:
    return update_arena(arena=arena, by=by, visibility="private", open_to_teams=False)


def hide(arena: Arena) -> None:
    """As was possible before guests' unfinished runs prevented it."""
    Arena.objects.filter(pk=arena.pk).update(visibility="private", open_to_teams=False)


@pytest.mark.parametrize("whose", ["host", "guest"])
@pytest.mark.parametrize("state", ["ordered", "open", "paused"])
def test_retiring_a_candidate_ends_its_run_and_frees_the_money(
    whose: str, state: str, candidate: Candidate, request: Any
) -> None:
    run = order(candidate)
    Run.objects.filter(pk=run.pk).update(state=state)
    assert run.team is not None
    assert committed_by(run.team) == DOLLAR
    retire(candidate, by_member_of(request.getfixturevalue(whose)))
    assert (stored(run).state, stored(run).closed_at) == ("cancelled", NOW)
    assert committed_by(run.team) == 0
    work_off(run)
    assert stored(run).state == "cancelled"


def test_a_cancelled_runs_costs_stay_and_open_calls_are_booked(
    candidate: Candidate, guest: Team, model: Model
) -> None:
    run = order(candidate)

    def retired_meanwhile() -> Any:
        model.otherwise = says("too late")
        retire(candidate, by_member_of(guest))
        return says("A")

    model.otherwise = retired_meanwhile
    work_off(run)
    assert len(model.requests) == 1
    ended = stored(run)
    assert (ended.state, ended.reserved) == ("cancelled", 0)
    assert ended.settled == Call.objects.get(run=run, state="done").cost > 0
    assert committed_by(guest) == ended.settled


def test_a_run_that_is_over_stays_as_it_ended(candidate: Candidate, guest: Team) -> None:
    run = work_off(order(candidate))
    assert run.state == "done"
    retire(candidate, by_member_of(guest))
    assert (stored(run).state, stored(run).closed_at) == ("done", run.closed_at)


def test_both_audit_logs_name_the_run_and_nobody_of_the_host(
    candidate: Candidate, guest: Team, host: Team
) -> None:
    run = order(candidate)
    retire(candidate, by_member_of(host))
    entry = guest.audit_entries.get(action="retired a candidate")
    assert (entry.by, entry.details["runs_cancelled"]) == ("the arena's team", [run.pk])
    assert "runs_cancelled" not in host.audit_entries.get().details


def test_retiring_again_ends_a_run_that_was_left_paused(
    candidate: Candidate, guest: Team, host: Team
) -> None:
    """As archiving once left them; nothing else is done twice."""
    run = order(candidate)
    retired = Candidate.objects.filter(pk=candidate.pk)
    retired.update(retired_at=NOW)
    Run.objects.filter(pk=run.pk).update(state="paused")
    retire(candidate, by_member_of(host))
    assert stored(run).state == "cancelled"
    retire(candidate, by_member_of(host))
    assert not host.audit_entries.exists()
    said = list(guest.audit_entries.order_by("pk").values_list("by", "action"))
    assert said[1:] == [("the arena's team", "cancelled a run of answers")]


@pytest.mark.parametrize("state", ["paused", "done"])
def test_a_retired_candidates_run_does_not_continue(
    state: str, candidate: Candidate, guest: Team
) -> None:
    """It would reserve its cap again, and make no calls."""
    run = order(candidate)
    Call.objects.filter(run=run).update(state="failed")
    Run.objects.filter(pk=run.pk).update(state=state)
    Candidate.objects.filter(pk=candidate.pk).update(retired_at=NOW)
    again = engine.resume if state == "paused" else engine.retry_failed
    with pytest.raises(RunError, match="archived"):
        again(run=stored(run), by=by_member_of(guest), now=NOW)
    assert stored(run).state == state


@pytest.mark.parametrize("state", ["ordered", "open", "paused"])
def test_a_guests_unfinished_run_keeps_an_arena_public(
    state: str, open_arena: Arena, candidate: Candidate, guest: Team, host: Team
) -> None:
    run = order(candidate)
    Run.objects.filter(pk=run.pk).update(state=state)
    Candidate.objects.filter(pk=candidate.pk).update(retired_at=NOW)
    with pytest.raises(ArenaError, match="pays for an unfinished run") as refused:
        make_private(open_arena, by_member_of(host))
    assert refused.value.field == "visibility"
    retire(candidate, by_member_of(host))
    assert make_private(open_arena, by_member_of(host)).is_private


def test_a_run_of_the_arenas_own_team_does_not_keep_it_public(
    open_arena: Arena, host: Team
) -> None:
    run = order(make_variant(arena=open_arena, team=host))
    assert make_private(open_arena, by_member_of(host)).is_private
    assert stored(run).state == "open"


def test_the_payer_reads_and_cancels_a_run_in_a_hidden_arena(
    open_arena: Arena, candidate: Candidate, guest: Team
) -> None:
    run, caller = order(candidate), token_of(guest)
    hide(open_arena)
    shown = caller.get(f"answer-runs/{run.pk}/")
    assert (shown.status_code, shown.json()["cap"]) == (200, 1)
    assert caller.post(f"answer-runs/{run.pk}/cancel/").json()["state"] == "cancelled"
    assert committed_by(guest) == 0
    assert caller.get(f"arenas/{open_arena.slug}/").status_code == 404


def test_runs_of_hidden_arenas_are_not_found_by_outsiders(
    open_arena: Arena, candidate: Candidate, guest: Team, host: Team
) -> None:
    run = order(candidate)
    hide(open_arena)
    others = [token_of(make_paying_team()), Caller(user=make_member(make_paying_team()).user)]
    for caller in others:
        assert caller.get(f"answer-runs/{run.pk}/").status_code == 404
        assert caller.post(f"answer-runs/{run.pk}/cancel/").status_code == 404
    assert member_of(guest, "viewer").get(f"answer-runs/{run.pk}/").status_code == 200
    assert member_of(guest, "viewer").post(f"answer-runs/{run.pk}/cancel/").status_code == 403
    assert token_of(host).get(f"answer-runs/{run.pk}/").json()["cap"] is None
    assert stored(run).state == "open"
