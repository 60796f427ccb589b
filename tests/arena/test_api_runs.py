"""An answer run in the API: followed, paused, resumed, cancelled, retried."""

from typing import Any

import pytest

from arena import tasks
from arena.calls.models import Call
from arena.calls.providers.base import ModelRefusedError, RejectedError
from arena.generation_runs import prepare_order
from arena.models import AuditEntry, Candidate, Run, Team
from tests.arena.generation import work_off
from tests.arena.ledger import Model, says
from tests.arena.rest import Caller, member_of, token_of
from tests.factories import DOLLAR, make_team, make_user, make_variant

pytestmark = pytest.mark.django_db


@pytest.fixture
def paying_team(model: Model) -> Team:
    """A team that may spend two dollars at an endpoint that answers as a test wants."""
    team = make_team()
    team.budget = 2 * DOLLAR
    team.save()
    return team


@pytest.fixture
def caller(paying_team: Team) -> Caller:
    return token_of(paying_team)


@pytest.fixture
def run(paying_team: Team, caller: Caller) -> Run:
    """A run of three answers, ordered through the API."""
    candidate = make_variant(3, paying_team)
    path = f"arenas/{candidate.arena.slug}/candidates/{candidate.pk}/answers/"
    return Run.objects.get(pk=caller.post(path, {"cap": 1}).json()["id"])


def steer(caller: Caller, run: Run, action: str, **body: Any) -> Any:
    return caller.post(f"answer-runs/{run.pk}/{action}/", body)


def test_an_order_says_where_its_run_is(paying_team: Team, caller: Caller) -> None:
    candidate = make_variant(1, paying_team)
    path = f"arenas/{candidate.arena.slug}/candidates/{candidate.pk}/answers/"
    ordered = caller.post(path, {"cap": 1})
    run = Run.objects.get()
    assert ordered["Location"] == f"/api/v1/answer-runs/{run.pk}/"
    work_off(run)
    shown = caller.get(f"answer-runs/{run.pk}/").json()
    assert (shown["candidate"], shown["done"], shown["wanted"]) == (candidate.pk, 1, 1)
    assert [shown] == caller.get(path).json()["results"]


@pytest.mark.parametrize("runs", [1, 3])
def test_a_run_says_how_many_failed_and_why(
    paying_team: Team, caller: Caller, model: Model, runs: int, django_assert_max_num_queries: Any
) -> None:
    model.otherwise = RejectedError("The server answered 401: unknown key.")
    candidate = make_variant(9, paying_team)
    path = f"arenas/{candidate.arena.slug}/candidates/{candidate.pk}/answers/"
    for _ in range(runs):
        model.outcomes = [ModelRefusedError(""), says("An answer.")]
        ordered = caller.post(path, {"cap": 0.5}).json()
        assert (ordered["failed"], ordered["errors"]) == (0, [])
        work_off(Run.objects.get(pk=ordered["id"]))
    shown = caller.get(f"answer-runs/{ordered['id']}/").json()
    assert shown["state"] == "done"
    assert shown["failed"] == shown["wanted"] - 1
    assert shown["errors"] == [
        {"reason": "The server answered 401: unknown key.", "count": shown["failed"] - 1},
        {"reason": "Refused", "count": 1},
    ]
    with django_assert_max_num_queries(12):
        listed = caller.get(path).json()["results"]
    assert listed[0] == shown
    assert len(listed) == runs


def test_a_run_tells_its_five_most_frequent_errors(
    paying_team: Team, caller: Caller, model: Model
) -> None:
    candidate = make_variant(8, paying_team)
    path = f"arenas/{candidate.arena.slug}/candidates/{candidate.pk}/answers/"
    model.outcomes = [RejectedError(f"Error {number}.") for number in (*range(7), 6)]
    run = Run.objects.get(pk=caller.post(path, {"cap": 1}).json()["id"])
    work_off(run)
    shown = caller.get(f"answer-runs/{run.pk}/").json()
    assert (shown["failed"], len(shown["errors"])) == (8, 5)
    assert shown["errors"][0] == {"reason": "Error 6.", "count": 2}


def quote(caller: Caller, candidate: Candidate, **body: Any) -> Any:
    path = f"arenas/{candidate.arena.slug}/candidates/{candidate.pk}/answers/"
    return caller.post(path, {"dry_run": True} | body)


def test_a_dry_run_says_what_the_page_says_and_writes_nothing(
    paying_team: Team, caller: Caller
) -> None:
    candidate = make_variant(3, paying_team)
    written = AuditEntry.objects.count()
    answer = quote(caller, candidate)
    expected = prepare_order(candidate=candidate).quote
    assert answer.status_code == 200
    assert answer.json() == {
        "calls": 3,
        "tokens_in": expected.tokens_in,
        "tokens_out": expected.tokens_out,
        "expected_cost": (expected.expected or 0) / DOLLAR,
        "worst_cost": (expected.worst or 0) / DOLLAR,
        "left_out": [],
    }
    assert not Run.objects.exists()
    assert not Call.objects.exists()
    assert AuditEntry.objects.count() == written


def test_a_quote_is_refused_as_the_order_would_be(
    paying_team: Team, caller: Caller, run: Run
) -> None:
    assert run.candidate
    under_way = quote(caller, run.candidate)
    assert (under_way.status_code, "is unfinished" in under_way.json()["detail"]) == (422, True)
    unpriced = quote(caller, make_variant(1, paying_team, model="unheard-of"))
    assert (unpriced.status_code, "price" in unpriced.json()["detail"]) == (422, True)
    nothing = quote(caller, make_variant(0, paying_team))
    assert nothing.json()["type"].endswith("nothing-to-do")
    assert quote(token_of(paying_team, "read"), run.candidate).status_code == 403
    assert quote(token_of(make_team()), run.candidate).status_code == 403


def test_a_run_is_paused_resumed_and_cancelled(caller: Caller, run: Run) -> None:
    states = []
    for action in ("pause", "resume", "cancel"):
        answer = steer(caller, run, action)
        assert answer.status_code == 200, answer.content
        states.append(answer.json()["state"])
    assert states == ["paused", "open", "cancelled"]
    late = steer(caller, run, "pause")
    assert late.status_code == 422
    assert "cancelled: it cannot be paused" in late.json()["detail"]
    said = AuditEntry.objects.order_by("-pk").values_list("action", flat=True)
    assert said[0] == "cancelled a run of answers"


def test_a_cap_is_raised_within_the_budget(caller: Caller, run: Run) -> None:
    steer(caller, run, "pause")
    beyond = steer(caller, run, "resume", cap=3)
    run.refresh_from_db()
    assert (beyond.status_code, run.state, run.cap) == (422, "paused", DOLLAR)
    assert "budget" in beyond.json()["detail"]
    raised = steer(caller, run, "resume", cap=2).json()
    assert (raised["state"], raised["cap"]) == ("open", 2)


@pytest.mark.parametrize("cap", [-1, "1", True, 10**9])
def test_an_invalid_cap_is_refused_and_changes_nothing(caller: Caller, run: Run, cap: Any) -> None:
    steer(caller, run, "pause")
    answer = steer(caller, run, "resume", cap=cap)
    run.refresh_from_db()
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "#/cap"
    assert (run.state, run.cap) == ("paused", DOLLAR)


def test_failures_are_retried_once_a_run_is_through(caller: Caller, run: Run, model: Model) -> None:
    model.outcomes = [RejectedError("Not like this.")]
    early = steer(caller, run, "retry")
    work_off(run)
    answer = steer(caller, run, "retry")
    assert (early.status_code, answer.status_code) == (422, 200)
    assert (answer.json()["state"], answer.json()["done"]) == ("open", 2)
    assert Call.objects.filter(run=run).in_progress().count() == 1


def test_workers_are_woken_when_a_run_continues(
    caller: Caller, run: Run, monkeypatch: Any, django_capture_on_commit_callbacks: Any
) -> None:
    rung: list[int] = []
    monkeypatch.setattr(tasks, "wake_workers", lambda: rung.append(1))
    steer(caller, run, "pause")
    with django_capture_on_commit_callbacks(execute=True):
        steer(caller, run, "resume")
        assert not rung
    assert rung == [1]


def test_the_candidates_team_steers_and_the_arenas_does_not(caller: Caller, run: Run) -> None:
    theirs = make_team()
    Candidate.objects.filter(pk=run.candidate_id).update(team=theirs)
    assert steer(caller, run, "pause").status_code == 403
    assert steer(token_of(theirs, "read"), run, "pause").status_code == 403
    assert steer(member_of(theirs, "viewer"), run, "pause").status_code == 403
    assert steer(member_of(theirs), run, "pause").status_code == 200
    run.refresh_from_db()
    assert run.state == "paused"


def test_a_run_of_an_undisclosed_candidate_is_its_teams(caller: Caller, run: Run) -> None:
    theirs = make_team()
    hidden = {"team": theirs, "disclosed_at": None, "private_until_votes": 9}
    Candidate.objects.filter(pk=run.candidate_id).update(**hidden)
    assert caller.get(f"answer-runs/{run.pk}/").status_code == 403
    assert token_of(theirs).get(f"answer-runs/{run.pk}/").status_code == 200


def test_the_money_of_a_guest_s_run_is_its_own_team_s(caller: Caller, run: Run) -> None:
    theirs = make_team()
    steer(caller, run, "pause")
    Candidate.objects.filter(pk=run.candidate_id).update(team=theirs)
    one = caller.get(f"answer-runs/{run.pk}/").json()
    path = f"arenas/{run.in_arena.slug}/candidates/{run.candidate_id}/answers/"
    for shown in (one, *caller.get(path).json()["results"]):
        money = [shown[name] for name in ("cap", "expected_cost", "worst_cost", "spent")]
        assert (money, shown["pause_reason"]) == ([None] * 4, "")
    own = token_of(theirs, "read").get(f"answer-runs/{run.pk}/").json()
    assert (own["cap"], own["spent"], own["pause_reason"]) == (1, 0, "Paused by the team.")


def test_judge_runs_are_not_found(run: Run) -> None:
    other = Run.objects.create(kind="judge", arena=run.arena)
    operator = Caller(user=make_user(is_staff=True))
    assert operator.get(f"answer-runs/{run.pk}/").status_code == 200
    assert operator.get(f"answer-runs/{other.pk}/").status_code == 404
    assert steer(operator, other, "cancel").status_code == 404
