"""What happens in an experiment's arena is read there alone."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Rater, Run
from arena.services.orders import reconcile_people_run
from judges.models import Experiment, Judgement
from judges.services.experiments import MeasurementPlan, advance, start_experiment
from ranking.models import ArenaRefresh, Board
from ranking.services import leases
from tests.arena.rest import Caller, token_of
from tests.factories import make_arena, make_candidate, make_team
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import LOCAL
from tests.judges.test_experiments import WRITER, answers, begin, make_calls, vote_for_the_draft

pytestmark = pytest.mark.django_db
NAME = "Greeting-trial-7"
LISTS = (
    *("/", "/judges/", "/sitemap.xml", "/metrics", "/operators/", "/operators/health/"),
    *("/operators/models/", "/healthz", "/readyz", "/api/v1/arenas/", "/robots.txt"),
)


@pytest.fixture
def running(team: Any, local: FakeServer, no_doorbell: None) -> Experiment:
    """Judged and voted on, and not over."""
    local.otherwise = answers
    origin = make_arena(0, 20, team=team)
    make_candidate(origin, "concise", endpoint="local", model=WRITER, system_prompt="plain")
    experiment = begin(origin, "GOOD", name=NAME)
    plan = MeasurementPlan([LOCAL], people=100)
    start_experiment(experiment=experiment, plan=plan, by=CLI, now=timezone.now())
    for _ in range(3):
        advance(experiment_id=experiment.pk, now=timezone.now())
        make_calls(experiment)
    reconcile_people_run(run=Run.objects.get(kind="person"), now=timezone.now())
    vote_for_the_draft(experiment, raters=2, votes=3)
    assert Judgement.objects.exists()
    experiment.refresh_from_db()
    return experiment


@pytest.mark.parametrize("reader", ["nobody", "operator"])
def test_no_list_names_an_experiments_arena(
    reader: str, running: Experiment, client: Client, staff: Client
) -> None:
    browser = staff if reader == "operator" else client
    for path in (*LISTS, f"/teams/{running.team.slug}/"):
        answer = browser.get(path)
        assert answer.status_code < 500, path
        told = answer.getvalue() if answer.streaming else answer.content
        assert running.arena.slug not in told.decode(), path
        assert NAME not in told.decode(), path


def test_a_stranger_finds_no_judge_run_or_verdict_by_its_number(running: Experiment) -> None:
    judgement = Judgement.objects.latest("pk")
    stranger, member = token_of(make_team(), "read"), token_of(running.team, "read")
    path = f"judge-runs/{judgement.run_id}/"

    assert member.get(path).status_code == 200
    assert stranger.get(path).status_code == 404
    assert Caller().get(path).status_code in (401, 404)
    assert stranger.get(f"{path}verdicts/").status_code == 404


def test_a_judge_of_an_experiment_alone_is_listed_for_nobody(
    running: Experiment, client: Client
) -> None:
    judge = Judgement.objects.latest("pk").epoch.judge

    assert judge.model not in client.get("/judges/").text
    assert client.get(f"/judges/{judge.pk}/").status_code == 404
    assert "scripted" not in token_of(make_team(), "judge").get("judges/").text


def test_an_experiments_arena_gets_no_leaderboard_from_sweeps(running: Experiment) -> None:
    leases.open_missing()
    now = timezone.now() + timedelta(minutes=1)

    assert not Board.objects.filter(arena=running.arena_id).exists()
    assert not ArenaRefresh.objects.filter(arena=running.arena_id).exists()
    assert running.arena_id not in ArenaRefresh.objects.due(now)


def test_a_rater_of_an_experiment_is_trusted_nowhere_for_it(running: Experiment) -> None:
    assert not Rater.objects.filter(trust__arena=running.arena_id).exists()
    assert not Rater.objects.exclude(trusted_at=None).exists()


@pytest.mark.parametrize("page", ["", "about/", "vote/", "compare/", "price/", "runs/", "manage/"])
def test_pages_of_the_arena_itself_do_not_fail(
    page: str, running: Experiment, staff: Client, client: Client
) -> None:
    path = f"/a/{running.arena.slug}/{page}"

    assert staff.get(path).status_code < 500
    assert client.get(path).status_code in (302, 404)
    assert Arena.objects.get(pk=running.arena_id).visibility == "private"
