"""The secrets of an arena's judging: references, rubrics, servers' messages, and money.

They are planted, and everything is requested by outsiders.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.actors import Actor
from arena.calls.models import Capability
from arena.endpoints import Endpoint, ModelPrice
from arena.models import Run
from arena.services.tokens import create_token
from judges.models import Judgement
from tests.arena.teams import signed_in
from tests.factories import make_candidate, make_empty_team, make_member
from tests.judges.fake_server import MODEL, FakeServer, Sent, completion, nonce_of
from tests.judges.helpers import LOCAL, order, work_off
from tests.security.requests import ask, path_of
from tests.security.table import ROWS
from tests.security.world import World, make_world

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
REFERENCE, RUBRIC, NOTE = "canary-reference", "canary-rubric", "canary-note"
BILLED = "Billing account 'ACME GmbH' (org-canary) is closed"
DOLLAR = 10**9
WORDS = f"By {REFERENCE} and {RUBRIC} it is better. {NOTE}"
JUDGED = (
    "judge_runs",
    "judge_run",
    "judge_verdict",
    "api_judge_runs",
    "api_judge_run",
)


@pytest.fixture
def server(settings: Any) -> Iterator[FakeServer]:
    """A model that costs money."""
    with FakeServer() as running:
        prices = {MODEL: ModelPrice(DOLLAR, DOLLAR)}
        endpoint = Endpoint("local", "openai", running.base_url, timeout=5.0, prices=prices)
        settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
        Capability.objects.create(endpoint="local", model=MODEL, probed_at="2026-01-01T00:00Z")
        yield running


@pytest.fixture
def world() -> World:
    """An open arena with a guest; its prompts have what is its team's alone."""
    world = make_world()
    world.arena.open_answers, world.arena.held_out = True, 0  # replies are hidden for secrets alone
    world.arena.save()
    world.arena.open_to_teams = True
    world.arena.save()
    world.arena.prompts.update(reference=REFERENCE, rubric=RUBRIC)
    world.team.budget = 10 * DOLLAR
    world.team.save()
    guests = make_empty_team(slug="guests", name="Guests")
    make_candidate(world.arena, "guest", team=guests)
    world.callers["guest"] = signed_in(make_member(guests).user)
    by = Actor(display_name="a test")
    _, secret = create_token(team=guests, name="g", scopes=["read", "submit", "judge"], by=by)
    world.callers["guest's token"] = Client(headers={"Authorization": f"Bearer {secret}"})
    return world


OUTSIDE = ("nobody", "stranger", "another", "guest", "guest's token")
TEAM = ("viewer", "member", "owner", "operator")


def show(world: World, run: Run) -> None:
    """Have the addresses of runs lead to this one."""
    world.at |= {"runs": run.pk, "judge-runs": run.pk}
    world.at["verdicts"] = Judgement.objects.filter(run=run)[0].pk


def told(world: World, caller: str, names: Any = None) -> dict[str, str]:
    """What every address that is read, or those that are named, answers."""
    names = names or [name for name, method in ROWS if method == "get"]
    client = world.callers[caller]
    return {
        name: ask(client, "get", path_of(name, world.at)).whole.decode(errors="replace")
        for name in names
    }


def repeats(body: dict[str, Any]) -> Sent:
    """A judge that repeats everything in its prompt, in its grading note too."""
    asks = "VERDICT-" in body["messages"][0]["content"]
    return completion(f"{WORDS}\n\nVERDICT-{nonce_of(body)}: A" if asks else WORDS)


def judged(world: World, server: FakeServer, rubric: str) -> None:
    """Have a run of that judge be what the addresses lead to."""
    server.otherwise = repeats
    run = work_off(order(world.arena, f"{LOCAL}@{rubric}", per_pair=1, cap=DOLLAR))
    assert run.state == "done"
    show(world, run)


@pytest.mark.slow
@pytest.mark.any_database
def test_others_find_no_reference_rubric_or_grading_note(world: World, server: FakeServer) -> None:
    judged(world, server, "pairwise-note")
    for caller in OUTSIDE:
        leaks = [name for name, text in told(world, caller).items() if "canary-" in text]
        assert not leaks, f"{caller}: {leaks}"


@pytest.mark.parametrize("rubric", ["pairwise", "pairwise-reference", "pairwise-note"])
def test_a_reply_that_may_repeat_the_reference_is_its_teams(
    world: World, server: FakeServer, rubric: str
) -> None:
    judged(world, server, rubric)
    path = path_of("judge_verdict", world.at)
    for caller in OUTSIDE:
        page = world.callers[caller].get(path).text
        assert "canary-" not in page, caller
        assert "canary-" not in world.callers[caller].get(f"{path}?names=1").text
        assert "that only the arena’s team can read" in " ".join(page.split())
        assert "only the arena’s team can read its replies" in " ".join(page.split())
        assert "answer is better</strong>" in page
        assert "Rate the reasoning" not in page
    for caller in TEAM:
        page = world.callers[caller].get(path).text
        assert all(secret in page for secret in (REFERENCE, RUBRIC, NOTE)), caller


def test_a_reply_without_the_reference_is_read_by_everybody(
    world: World, server: FakeServer
) -> None:
    world.arena.prompts.update(reference="so-it-is", rubric="")
    judged(world, server, "pairwise")
    page = world.callers["nobody"].get(path_of("judge_verdict", world.at)).text
    assert NOTE in page
    assert "so-it-is" not in page


def test_nobody_marks_words_that_they_may_not_read(world: World, server: FakeServer) -> None:
    judged(world, server, "pairwise")
    path, mark = path_of("mark_verdict", world.at), {"mark": "coherent:yes"}
    assert world.callers["stranger"].post(path, mark).status_code == 403
    assert world.callers["viewer"].post(path, mark).status_code == 302


# Amounts that no id or time contains by chance: three digits before the point.
SPENT, CAP = 32_147 * DOLLAR // 100, 65_429 * DOLLAR // 100


@pytest.mark.slow
@pytest.mark.any_database
def test_a_servers_words_and_the_money_are_the_teams_alone(
    world: World, server: FakeServer
) -> None:
    said = {"error": {"message": BILLED, "code": "bad"}}
    server.otherwise = lambda body: Sent(said, status=401)
    run = work_off(order(world.arena, LOCAL, per_pair=1, cap=DOLLAR), rounds=2)
    Judgement.objects.filter(run=run).update(state="failed", settled_at=run.created_at)
    run.calls.update(error=BILLED, state="failed", cost=SPENT)
    Run.objects.filter(pk=run.pk).update(settled=SPENT, reserved=DOLLAR, cap=CAP)
    assert "ACME" in run.pause_reason
    show(world, run)
    for caller in OUTSIDE:
        for name, text in told(world, caller).items():
            assert "org-canary" not in text, f"{caller}: {name}"
        for name, text in told(world, caller, JUDGED).items():
            assert not [one for one in ("321.47", "654.29") if one in text], f"{caller}: {name}"
    for caller in TEAM:
        pages = told(world, caller, JUDGED)
        for name, text in pages.items():
            assert "org-canary" in text, f"{caller}: {name}"
            assert "321.47" in text, f"{caller}: {name}"
        assert any("654.29" in text for text in pages.values())


def test_hidden_money_is_null_and_a_pause_says_who_knows_why(world: World) -> None:
    run = order(world.arena, "scripted:scripted-2", per_pair=1)
    reason = "Cap reached: $1.00."
    Run.objects.filter(pk=run.pk).update(state="paused", pause_reason=reason, cap=DOLLAR)
    show(world, run)
    [listed] = [
        one
        for one in world.callers["nobody"]
        .get(path_of("api_judge_runs", world.at))
        .json()["results"]
        if one["id"] == run.pk
    ]
    one = world.callers["nobody"].get(path_of("api_judge_run", world.at)).json()
    for shown in (listed, one):
        money = ("cap", "expected_cost", "worst_cost", "spent")
        assert [shown[name] for name in money] == [None] * 4
        assert shown["pause_reason"] == "The arena’s team can see why."
    assert (one["reserved"], one["by_judge"][0]["spent"]) == (None, None)
    own = world.callers["all"].get(path_of("api_judge_run", world.at)).json()
    assert (own["cap"], own["pause_reason"]) == (1.0, reason)


def test_a_judging_token_reads_the_money_of_its_run(world: World) -> None:
    run = order(world.arena, "scripted:scripted-2", per_pair=1)
    path = reverse("api_pause_judge_run", args=[run.pk])
    shown = world.callers["judges"].post(path, {}, content_type="application/json").json()
    assert (shown["spent"], shown["pause_reason"]) == (0, "Paused by the team.")
