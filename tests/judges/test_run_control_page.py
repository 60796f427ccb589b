"""Pausing, resuming and cancelling a run, and retrying its failures, on its page."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.models import Run
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is
from tests.judges.helpers import hide_arena, order, page_text, run_url, signed_in, steer, work_off

pytestmark = pytest.mark.django_db
CENT = 10**7


def steered(client: Client, run: Run, action: str, **fields: Any) -> str:
    """The page to which the button leads."""
    answer = client.get(steer(client, run, action, **fields).url)
    assert answer.status_code == 200, answer.status_code
    run.refresh_from_db()
    return answer.content.decode()


@pytest.mark.parametrize("name", ["", "ann"])
@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "ask_again"])
def test_only_staff_may(name: str, action: str) -> None:
    run = order(make_arena(2, 2), "scripted")
    client = signed_in(name) if name else Client()
    url = reverse("steer_run", args=[run.pk])
    assert client.post(url, {"action": action}).status_code == 403
    assert url not in page_text(client, run_url(run))
    run.refresh_from_db()
    assert run.state == "open"


def test_a_run_is_paused_and_says_by_whom_and_continues(staff: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    html = steered(staff, run, "pause")
    assert run.state == "paused"
    assert "Paused by an administrator." in html
    assert "Run resumed." in steered(staff, run, "resume")
    assert (run.state, run.pause_reason) == ("open", "")


def test_a_run_at_its_cap_resumes_with_a_new_one(staff: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    Run.objects.filter(pk=run.pk).update(state="paused", cap=5 * CENT, settled=5 * CENT)
    assert 'name="cap" min="0" step="any" inputmode="decimal" value="0.05"' in page_text(
        staff, run_url(run)
    )
    steered(staff, run, "resume", cap="0.10")
    assert (run.state, run.cap) == ("open", 10 * CENT)


@pytest.mark.parametrize("cap", ["0.01", "-1", "much"])
def test_a_cap_that_cannot_be_leaves_the_run_paused(staff: Client, cap: str) -> None:
    run = order(make_arena(2, 2), "scripted")
    Run.objects.filter(pk=run.pk).update(state="paused", cap=5 * CENT, settled=5 * CENT)
    assert 'role="alert"' in steered(staff, run, "resume", cap=cap)
    assert (run.state, run.cap) == ("paused", 5 * CENT)


def test_cancelled_run_keeps_verdicts_and_cannot_resume(staff: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    steered(staff, run, "cancel")
    assert run.state == "cancelled"
    for action in ("pause", "resume", "cancel"):
        assert "This run is cancelled" in steered(staff, run, action)
    assert "retry failures once the run is finished" in steered(staff, run, "ask_again")


def test_cancelling_asks_first(staff: Client) -> None:
    html = page_text(staff, run_url(order(make_arena(2, 2), "scripted")))
    assert "<details" in html
    assert html.index("resume a cancelled run") < html.index("Yes, cancel run")


def test_failures_alone_are_judged_again(staff: Client, local: FakeServer) -> None:
    arena = make_arena(2, 2)
    local.otherwise = better_is("TIE")
    run = work_off(order(arena))
    calls = run.calls.count()
    one = run.judgements.first()
    run.judgements.filter(pk=one.pk).update(state="failed")
    run.calls.filter(pk=one.forward_id).update(state="failed", error="HTTP 500")
    asked = len(local.requests)
    assert "Retry 1 failure" in page_text(staff, run_url(run))
    steered(staff, run, "ask_again")
    assert run.state == "open"
    work_off(run)
    assert run.state == "done"
    assert len(local.requests) == asked + 1
    assert run.calls.count() == calls
    assert "Retry 1 failure" not in page_text(staff, run_url(run))


def test_what_cannot_be_done_to_a_run_is_reported(staff: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    assert "A run can be paused, resumed, cancelled or retried." in steered(staff, run, "explode")


def test_runs_of_hidden_arenas_are_not_found(staff: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    hide_arena(run.arena)
    url = reverse("steer_run", args=[run.pk])
    assert staff.post(url, {"action": "cancel"}).status_code == 404
