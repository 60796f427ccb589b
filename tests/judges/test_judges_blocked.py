"""A judge that is blocked during its run is no longer paid for."""

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from arena import tasks
from arena.actors import CLI
from arena.calls.models import Call, RunRequester
from arena.models import Run
from arena.services.runs import resume_unfinished
from arena.services.voting import void_rater
from judges.models import Epoch
from judges.services.runs import pause_blocked_judges
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is
from tests.judges.helpers import LOCAL, judge_call, order, signed_in, work_off

pytestmark = pytest.mark.django_db
SECOND = "scripted:scripted-1"


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The endpoints for which workers were woken."""
    endpoints: list[str] = []
    monkeypatch.setattr("arena.tasks.make_calls.delay", endpoints.append)
    return endpoints


def block(run: Run, judge: str = LOCAL) -> Epoch:
    name, _, model = judge.partition(":")
    epoch = Epoch.objects.get(judge__endpoint=name, judge__model=model, run_judges__run=run)
    void_rater(rater=epoch.rater, by=CLI, reason="It is wrong.", now=timezone.now())
    return epoch


def test_the_sweep_pauses_a_run_whose_judge_was_blocked(
    local: FakeServer, woken: list[str]
) -> None:
    local.otherwise = better_is("TIE")
    run = order(make_arena(2, 3), per_pair=3)
    judge_call(call_id=Call.objects.earliest("pk").pk)
    epoch = block(run)
    tasks.sweep_calls()
    work_off(run)
    assert run.state == "paused"
    assert f"has blocked {epoch}" in run.pause_reason
    assert len(local.requests) == 1
    assert woken == []


def test_another_judge_of_the_run_continues(local: FakeServer) -> None:
    run = order(make_arena(2, 3), LOCAL, SECOND, per_pair=3, quorum=1)
    epoch = block(run)
    assert pause_blocked_judges(now=timezone.now()) == 1
    work_off(run)
    assert not local.requests
    assert RunRequester.objects.get(paused_at__isnull=False).requester == epoch.requester
    assert not Call.objects.filter(state="waiting").exclude(requester=epoch.requester).exists()


def test_letting_the_run_continue_pauses_it_again_before_a_call(
    local: FakeServer, woken: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    run = order(make_arena(2, 3), per_pair=3)
    block(run)
    tasks.sweep_calls()
    with django_capture_on_commit_callbacks(execute=True):
        signed_in("boss", staff=True).post(
            reverse("steer_run", args=[run.pk]), {"action": "resume"}
        )
    run.refresh_from_db()
    assert run.state == "paused"
    assert "has blocked" in run.pause_reason
    assert (woken, local.requests) == ([], [])


def test_a_judge_that_may_vote_again_continues(local: FakeServer) -> None:
    local.otherwise = better_is("TIE")
    run = order(make_arena(2, 3), per_pair=3)
    rater = block(run).rater
    tasks.sweep_calls()
    run.refresh_from_db()
    rater.blocked_at = None
    rater.save()
    resume_unfinished(run=run, now=timezone.now())
    tasks.sweep_calls()
    assert work_off(run).votes_done == 3


def test_runs_of_others_and_runs_at_rest_are_left_alone(local: FakeServer) -> None:
    order(make_arena(2, 3), SECOND, per_pair=3)
    resting = order(make_arena(2, 3), per_pair=3)
    Run.objects.filter(pk=resting.pk).update(state="cancelled")
    block(resting)
    assert pause_blocked_judges(now=timezone.now()) == 0
    assert not RunRequester.objects.filter(paused_at__isnull=False).exists()
