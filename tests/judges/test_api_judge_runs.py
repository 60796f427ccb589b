"""Judge runs in the API: what an order costs and buys, and controlling its run."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena.calls.models import Call
from arena.endpoints import ModelPrice
from arena.models import Arena, Candidate, Run, Team
from arena.services.pairs import sync_pairs
from judges.models import Calibration, Epoch, Judge, Judgement
from judges.services.calibration import measure_arena
from judges.wording import REASON_HIDDEN
from tests.arena.rest import Caller, token_of
from tests.arena.teams import person
from tests.factories import make_arena, make_person, make_team
from tests.judges.fake_server import FakeServer, better_is, fails
from tests.judges.helpers import add_endpoint, issue_pair, order, vote_on, work_off

pytestmark = pytest.mark.django_db

SCRIPTED = "scripted:scripted-1"
COUNTS = ("won", "lost", "tied", "no_verdict")
PAID = "paid:m-2026-01-01"
DOLLAR = 10**9


@pytest.fixture
def two_dollar_model(settings: Any) -> None:
    """An endpoint whose model costs a dollar for a million tokens in, and two for as many out."""
    add_endpoint(settings, "paid", prices={"m-2026-01-01": ModelPrice(DOLLAR, 2 * DOLLAR)})


def post(caller: Caller, arena: Arena, **body: Any) -> Any:
    return caller.post(f"arenas/{arena.slug}/judge-runs/", {"judges": [SCRIPTED]} | body)


def test_runs_on_labelled_items_are_not_found() -> None:
    run = Run.objects.create(kind="judge")
    assert Caller(user=person(is_staff=True)).get(f"judge-runs/{run.pk}/").status_code == 404


def test_judges_that_are_known_are_listed(team: Team, arena: Arena) -> None:
    caller = token_of(team, "judge")
    path = f"arenas/{arena.slug}/judges/"
    assert caller.get(path).json()["results"] == []
    post(caller, arena, per_pair=1, cap=1)
    assert caller.get(path).json()["results"] == [
        {
            "name": f"{SCRIPTED}@pairwise",
            "endpoint": "scripted",
            "model": "scripted-1",
            "rubric": "pairwise",
            "trusted": False,
            "why": ["It has not been calibrated against people in this epoch."],
            "calibration": None,
            "honeypots": None,
        }
    ]
    assert caller.get(f"{path}?page_size=1").json()["next"] is None


def test_a_name_says_which_judge_an_order_would_ask(
    team: Team, arena: Arena, two_dollar_model: None
) -> None:
    caller = token_of(team, "judge")
    for name, judge in ((PAID, f"{PAID}@pairwise"), ("scripted@score-1-4", None)):
        found = caller.get(f"arenas/{arena.slug}/judges/?name={name}").json()
        assert [one["name"] for one in found["results"]] == [judge or f"{SCRIPTED}@score-1-4"]
    assert not Judge.objects.exists()


def measured_in(arena: Arena, caller: Caller, n_votes: int) -> Any:
    """The judge of a run, measured by as many human votes, as the API lists it."""
    ann = make_person()
    for number in range(n_votes):
        vote_on(issue_pair(arena, ann, number), ann, "left")
    run = work_off(order(arena, SCRIPTED, per_pair=20, pairs="voted"))
    measure_arena(epoch=run.run_judges.get().epoch, arena=arena, now=timezone.now())
    return caller.get(f"arenas/{arena.slug}/judges/").json()["results"][0]


def test_a_judge_is_listed_with_its_trust_here_and_the_figures_behind_it(team: Team) -> None:
    arena, caller = make_arena(2, 12, team=team), token_of(team, "judge")
    judge = measured_in(arena, caller, 12)
    report = Calibration.objects.get().report
    assert judge["trusted"] is False
    assert judge["why"] == report["trust"]["failed"]
    figures = judge["calibration"]
    assert (figures["arena"], figures["labels"], figures["items"]) == (arena.slug, None, 12)
    for name, stored in [("agreement", "on_all"), ("coverage", "coverage"), ("flips", "flips")]:
        assert figures[name] == {key: report[stored][key] for key in ("value", "low", "high", "n")}
    assert figures["pearson"] is None
    accuracy = figures["benchmarks"]["verdict"]["without_ties"]
    assert accuracy["value"] == report["benchmarks"]["verdict"]["without_ties"]["value"]
    for category, stored in zip(figures["categories"], report["categories"], strict=True):
        assert (category["category"], category["trusted"]) == (stored["category"], None)
        assert category["agreement"]["n"] == stored["decisive"]["n"]
    named = caller.get(f"arenas/{arena.slug}/judges/?name={SCRIPTED}").json()["results"]
    assert named == [judge]


def test_trust_elsewhere_is_not_trust_here(team: Team) -> None:
    """The arena's own newest measurement decides, and one that is private stays so."""
    arena, caller = make_arena(2, 12, team=team), token_of(team, "judge")
    measured_in(arena, caller, 12)
    report = Calibration.objects.get().report
    elsewhere = make_arena(2, 2, slug="elsewhere", visibility="private", team=make_team())
    passed = report | {"trust": report["trust"] | {"trusted": True, "failed": []}}
    Calibration.objects.create(
        epoch=Epoch.objects.get(),
        kind="pairs",
        report=passed,
        trusted=True,
        arena=elsewhere,
        made_at=timezone.now(),
    )
    (judge,) = caller.get(f"arenas/{arena.slug}/judges/").json()["results"]
    assert (judge["trusted"], judge["calibration"]["arena"]) == (False, arena.slug)
    Calibration.objects.filter(arena=arena).update(report=passed, trusted=True)
    (judge,) = caller.get(f"arenas/{arena.slug}/judges/").json()["results"]
    assert (judge["trusted"], judge["why"]) == (True, passed["trust"]["reasons"])
    Calibration.objects.filter(arena=arena).delete()
    (judge,) = caller.get(f"arenas/{arena.slug}/judges/").json()["results"]
    assert (judge["trusted"], judge["calibration"]) == (False, None)


def test_listing_measured_judges_takes_no_query_for_each(
    team: Team, django_assert_max_num_queries: Any
) -> None:
    arena, caller = make_arena(2, 12, team=team), token_of(team, "judge")
    measured_in(arena, caller, 12)
    with CaptureQueriesContext(connection) as one:
        caller.get(f"arenas/{arena.slug}/judges/")
    for name in ("scripted:scripted-2", "scripted:scripted-3"):
        run = work_off(order(arena, name, per_pair=20, pairs="voted"))
        measure_arena(epoch=run.run_judges.get().epoch, arena=arena, now=timezone.now())
    with django_assert_max_num_queries(len(one)):
        rows = caller.get(f"arenas/{arena.slug}/judges/").json()["results"]
    assert [row["calibration"]["items"] for row in rows] == [12, 12, 12]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("name=nobody", "There is no judge called 'nobody', and no endpoint of that name."),
        ("name=scripted:slip", "There is no scripted judge 'slip'."),
        ("name=scripted@none", "rubric"),
        ("name=a%00b", "Null characters"),
        (f"name={'x' * 301}", "300"),
        ("name=", "blank"),
    ],
)
def test_a_name_that_no_order_takes_is_refused(
    team: Team, arena: Arena, query: str, words: str
) -> None:
    refused = token_of(team, "judge").get(f"arenas/{arena.slug}/judges/?{query}")
    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    assert error["parameter"] == "name"
    assert words in error["detail"]


def test_dry_run_quotes_and_writes_nothing(
    team: Team, arena: Arena, two_dollar_model: None
) -> None:
    answer = post(token_of(team, "judge"), arena, judges=[PAID], per_pair=1, dry_run=True)
    found = answer.json()
    assert answer.status_code == 200
    assert (found["pairs"], found["comparisons"], found["calls"]) == (3, 3, 6)
    assert 0 < found["expected_cost"] < found["worst_cost"] < 1
    assert found["judges"][0]["name"].startswith(PAID)
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("cap", "budget", "words"),
    [(None, 10, "spending cap"), (0, 10, "above $0"), (5, 2, "budget"), (1, 2, "")],
)
def test_dry_run_with_a_cap_refuses_what_the_order_would(
    team: Team, arena: Arena, two_dollar_model: None, cap: int | None, budget: int, words: str
) -> None:
    """Before the candidates have an answer to judge."""
    team.budget = budget * DOLLAR
    team.save()
    caller = token_of(team, "judge")
    arena.prompts.update(retired_at="2026-01-01T00:00:00Z")
    sync_pairs(arena=arena)
    answer = post(caller, arena, judges=[PAID], dry_run=True, cap=cap)
    assert answer.status_code == 422
    found = answer.json()
    assert words in str(found) if words else found["type"].endswith("nothing-to-do")
    team.refresh_from_db()
    assert team.budget == budget * DOLLAR
    assert post(caller, arena, judges=[PAID], dry_run=True).json()["type"].endswith("nothing-to-do")


def test_a_judge_of_the_family_of_one_of_two_is_refused_before_they_answer(
    team: Team, settings: Any
) -> None:
    add_endpoint(settings, "paid", prices={"m-2026-01-01": ModelPrice(0, 0)})
    arena = make_arena(2, 0, team=team)
    one, other = arena.candidates.order_by("pk")
    arena.candidates.filter(pk=one.pk).update(model="m-large")
    body = {"judges": [PAID], "candidates": [one.pk, other.pk], "dry_run": True, "cap": None}
    refused = post(token_of(team, "judge"), arena, **body)
    assert "own_family" in refused.json()["detail"]
    allowed = post(token_of(team, "judge"), arena, **body, own_family=True)
    assert allowed.json()["type"].endswith("nothing-to-do")


def test_an_order_is_a_run_that_the_team_pays(
    team: Team, arena: Arena, two_dollar_model: None
) -> None:
    team.budget = 10 * DOLLAR
    team.save()
    caller = token_of(team, "read", "judge")
    answer = post(caller, arena, judges=[PAID], per_pair=2, cap=1.5)
    assert answer.status_code == 201
    run = Run.objects.get()
    assert (run.team, run.cap, run.state) == (team, 1_500_000_000, "open")
    assert answer["Location"] == f"/api/v1/judge-runs/{run.pk}/"
    shown = caller.get(f"judge-runs/{run.pk}/").json()
    assert shown == answer.json()
    assert (shown["wanted"], shown["done"], shown["cap"], shown["spent"]) == (6, 0, 1.5, 0)
    assert Call.objects.filter(run=run).count() == 12
    assert team.audit_entries.filter(action="ordered a run of judges").exists()


def test_a_finished_run_says_what_came_of_it(team: Team, arena: Arena) -> None:
    caller = token_of(team)
    run = work_off(Run.objects.get(pk=post(caller, arena, per_pair=1).json()["id"]))
    shown = caller.get(f"judge-runs/{run.pk}/").json()
    assert (shown["state"], shown["done"], shown["wanted"]) == ("done", 3, 3)
    assert sum(shown["verdicts"].values()) == 3
    [one] = shown["by_judge"]
    assert (one["done"], one["verdicts"]) == (3, shown["verdicts"])
    [listed] = caller.get(f"arenas/{arena.slug}/judge-runs/").json()["results"]
    assert listed == {name: shown[name] for name in listed}
    candidates = shown["candidates"]
    assert {row["id"]: row["name"] for row in candidates} == {
        candidate.pk: candidate.name for candidate in arena.candidates.all()
    }
    for name, state in (("won", "voted"), ("no_verdict", "abstained")):
        total = sum(row[name] for row in candidates)
        assert total <= 2 * shown["verdicts"][state]
    assert sum(row["won"] for row in candidates) == sum(row["lost"] for row in candidates)
    results = sum(sum(row[name] for name in COUNTS) for row in candidates)
    assert results == 2 * shown["wanted"]


def test_a_run_names_nobody_who_is_undisclosed(team: Team, arena: Arena) -> None:
    shown = post(token_of(team), arena, per_pair=1).json()
    Candidate.objects.filter(pk=shown["candidates"][0]["id"]).update(
        disclosed_at=None, private_until_votes=9
    )
    path = f"judge-runs/{shown['id']}/"
    hidden = Caller().get(path).json()["candidates"][0]
    assert hidden["name"] == f"Undisclosed {hidden['id']}"
    assert token_of(team).get(path).json()["candidates"] == shown["candidates"]


@pytest.mark.parametrize("runs", [1, 3])
def test_failures_are_told_with_reasons_to_the_team(
    team: Team, local: FakeServer, runs: int, django_assert_max_num_queries: Any
) -> None:
    arena, caller = make_arena(2, 9, team=team), token_of(team)
    for _ in range(runs):
        local.script.extend([better_is("TIE"), *[fails(400, "No account 77.")] * 3])
        local.otherwise = better_is("TIE")
        run = work_off(order(arena, per_pair=3))
    shown = caller.get(f"judge-runs/{run.pk}/").json()
    assert (shown["failed"], shown["failures"], shown["wanted"]) == (2, 2, 3)
    ((reason, count),) = [row.values() for row in shown["errors"]]
    assert ("No account 77." in reason, count) == (True, 2)
    path = f"arenas/{arena.slug}/judge-runs/"
    with django_assert_max_num_queries(12):
        (listed, *_) = caller.get(path).json()["results"]
    assert listed["errors"] == shown["errors"]
    (public, *_) = Caller().get(path).json()["results"]
    assert public["errors"] == [{"reason": REASON_HIDDEN, "count": shown["failed"]}]


def test_only_pairs_of_the_candidates_that_are_named_are_judged(team: Team, arena: Arena) -> None:
    first, _, third = arena.candidates.order_by("pk")
    answer = post(token_of(team, "judge"), arena, candidates=[third.pk, first.pk], per_pair=9)
    assert answer.status_code == 201
    pairs = Judgement.objects.values_list("comparison__left", "comparison__right")
    assert {frozenset(pair) for pair in pairs} == {frozenset([first.pk, third.pk])}


def test_comparisons_already_judged_are_skipped(team: Team, arena: Arena) -> None:
    caller = token_of(team, "judge")
    work_off(Run.objects.get(pk=post(caller, arena, per_pair=9).json()["id"]))
    again = post(caller, arena, per_pair=9)
    assert again.status_code == 422
    assert again.json()["type"] == "urn:ringside:problem:nothing-to-do"
    assert "has already judged" in again.json()["detail"]


def test_what_another_run_has_yet_to_judge_is_not_nothing_to_do(team: Team, arena: Arena) -> None:
    caller = token_of(team, "judge")
    run = Run.objects.get(pk=post(caller, arena, per_pair=9).json()["id"])
    again = post(caller, arena, per_pair=9)
    assert again.json()["type"] == "urn:ringside:problem:still-judging"
    assert again.json()["detail"] == f"Run {run.pk} is still judging these pairs."
    Run.objects.filter(pk=run.pk).update(state="paused", pause_reason="Its cap is reached.")
    again = post(caller, arena, per_pair=9)
    assert again.json()["type"] == "urn:ringside:problem:still-judging"
    assert again.json()["detail"] == (
        f"Run {run.pk} still has these pairs and is paused. Resume or cancel it first."
    )


def test_the_same_order_with_a_key_is_carried_out_once(team: Team, arena: Arena) -> None:
    caller = token_of(team, "judge")
    path, body = f"arenas/{arena.slug}/judge-runs/", {"judges": [SCRIPTED], "per_pair": 1}
    first = caller.post(path, body, Idempotency_Key="order-1")
    again = caller.post(path, body, Idempotency_Key="order-1")
    assert (first.status_code, again.content) == (201, first.content)
    assert again["Idempotency-Replayed"] == "true"
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "status", "pointer", "words"),
    [
        ({"judges": []}, 400, "#/judges", "at least 1"),
        ({"judges": ["nobody"]}, 422, "", "no judge called"),
        ({"judges": ["nowhere:m-1"]}, 422, "", "nowhere"),
        ({"judges": [f"{SCRIPTED}@../../settings"]}, 422, "", "rubric"),
        ({"judges": [SCRIPTED, SCRIPTED]}, 422, "", "named twice"),
        ({"judges": [f"{SCRIPTED}@no-such-rubric"]}, 422, "", "rubric"),
        ({"quorum": 2}, 422, "#/quorum", "more verdicts than it has judges"),
        ({"per_pair": 0}, 400, "#/per_pair", "greater than or equal to 1"),
        ({"pairs": "best"}, 400, "#/pairs", "not a valid choice"),
        ({"candidates": [1]}, 400, "#/candidates", "at least 2"),
        ({"candidates": [10**12, 10**12 + 1]}, 422, "#/candidates", "Not active candidates"),
        ({"cap": -1}, 400, "#/cap", "from 0 to"),
        ({"judges": [PAID]}, 422, "#/cap", "a spending cap in dollars"),
        ({"judges": [PAID], "cap": 0}, 422, "", "enter a cap above"),
        ({"judges": [PAID], "cap": 5}, 422, "#/cap", "no budget yet"),
        ({"judges": ["paid:other-2026-01-01"], "cap": 5}, 422, "", "has no price"),
        ({"judge": SCRIPTED}, 400, "#/judge", "unknown member"),
    ],
)
def test_an_order_that_cannot_be_says_why_and_leaves_nothing(
    team: Team,
    arena: Arena,
    two_dollar_model: None,
    body: dict[str, Any],
    status: int,
    pointer: str,
    words: str,
) -> None:
    answer = post(token_of(team, "judge"), arena, **body)
    found = answer.json()
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert words.lower() in found["detail"].lower()
    if pointer:
        assert found["errors"][0]["pointer"].startswith(pointer)
    assert not Run.objects.exists()


def test_a_retired_candidate_is_not_judged(team: Team, arena: Arena) -> None:
    first, second, _ = arena.candidates.order_by("pk")
    arena.candidates.filter(pk=first.pk).update(retired_at=first.created_at)
    answer = post(token_of(team, "judge"), arena, candidates=[first.pk, second.pk])
    assert answer.status_code == 422
    assert str(first.pk) in answer.json()["detail"]


def test_a_run_is_paused_resumed_and_cancelled(team: Team, arena: Arena) -> None:
    caller = token_of(team, "judge")
    run = post(caller, arena, per_pair=1).json()["id"]

    def steer(action: str, **body: Any) -> str:
        answer = caller.post(f"judge-runs/{run}/{action}/", body)
        assert answer.status_code == 200, answer.content
        state: str = answer.json()["state"]
        return state

    assert steer("pause") == "paused"
    assert Run.objects.get().pause_reason == "Paused by the team."
    assert steer("resume") == "open"
    assert steer("cancel") == "cancelled"
    late = caller.post(f"judge-runs/{run}/pause/")
    assert late.status_code == 422
    assert "cancelled: it cannot be paused" in late.json()["detail"]


def test_failures_are_retried_once_a_run_is_through(team: Team, arena: Arena) -> None:
    caller = token_of(team, "judge")
    run = work_off(Run.objects.get(pk=post(caller, arena, per_pair=1).json()["id"]))
    Judgement.objects.filter(run=run).update(state=Judgement.State.FAILED)
    answer = caller.post(f"judge-runs/{run.pk}/retry/").json()
    assert answer["verdicts"]["waiting"] == 3
    assert answer["state"] == "open"
