"""An answer run is paused, resumed and cancelled, and its failures are retried."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from arena.actors import Actor
from arena.calls.models import Call
from arena.calls.providers.base import EndpointStoppedError, ModelRefusedError, RejectedError
from arena.generation_runs import answers_of, failures_of, report_on, with_prompts
from arena.models import AuditEntry, Response, Run
from arena.services import runs as engine
from arena.services.budgets import BudgetError
from arena.services.runs import RunError
from tests.arena.generation import generate_answer, order, stored, sweep, work_off
from tests.arena.ledger import Model, says
from tests.factories import DOLLAR, make_member, make_paying_team, make_variant

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def by() -> Actor:
    return Actor(user=make_member(make_paying_team()).user)


def test_a_paused_run_asks_nothing_until_it_continues(model: Model, by: Actor) -> None:
    run = order(make_variant(2, make_paying_team()))
    engine.pause(run=run, by=by)
    assert (stored(run).state, stored(run).pause_reason) == ("paused", "Paused by the team.")
    work_off(run)
    assert not model.requests
    engine.resume(run=stored(run), by=by, now=NOW)
    assert work_off(run).state == "done"
    said = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(said)[1:] == ["paused a run of answers", "resumed a run of answers"]


def test_a_run_that_spent_its_cap_resumes_with_a_higher_one(model: Model, by: Actor) -> None:
    run = order(make_variant(3, parameters={"max_tokens": 10}), cap=150_000)
    assert work_off(run).state == "paused"
    assert "The cap of" in run.pause_reason
    engine.resume(run=run, by=by, now=NOW, cap=DOLLAR)
    assert work_off(run).state == "done"
    assert len(model.requests) == 3


def test_a_cancelled_run_keeps_early_and_late_answers(model: Model, by: Actor) -> None:
    candidate = make_variant(3)
    run = order(candidate)
    one, two, _ = run.calls.order_by("pk").values_list("pk", flat=True)
    generate_answer(call_id=one)

    def meanwhile() -> Any:
        engine.cancel(run=run, by=by, now=NOW)
        return says("Late.")

    model.otherwise = meanwhile
    generate_answer(call_id=two)
    work_off(run)
    sweep()
    assert (stored(run).state, stored(run).votes_done) == ("cancelled", 2)
    assert candidate.responses.count() == 2
    assert len(model.requests) == 2


def test_only_failures_are_retried(model: Model, by: Actor) -> None:
    candidate = make_variant(4)
    model.outcomes = [RejectedError("Not like this."), ModelRefusedError("No."), says("")]
    run = work_off(order(candidate))
    report = report_on(run.pk, NOW)
    assert (report.total, report.settled, report.failures) == (4, 4, 2)
    before = len(model.requests)
    engine.retry_failed(run=run, by=by, now=NOW)
    work_off(run)
    assert (run.state, run.votes_done, len(model.requests) - before) == ("done", 3, 2)
    with pytest.raises(RunError, match="This run has no failures to retry"):
        engine.retry_failed(run=run, by=by, now=NOW)


def test_a_wrong_key_pauses_the_run_and_says_why(model: Model) -> None:
    model.otherwise = EndpointStoppedError("The key is not accepted.")
    run = work_off(order(make_variant(2)))
    assert (run.state, len(model.requests)) == ("paused", 1)
    assert "The key is not accepted." in run.pause_reason


@pytest.mark.usefixtures("model")
def test_a_run_whose_ordering_was_cut_short_can_be_resumed(by: Actor) -> None:
    run = order(make_variant(2))
    Run.objects.filter(pk=run.pk).update(state="ordered", votes_wanted=9)
    engine.resume(run=stored(run), by=by, now=NOW)
    assert work_off(run).state == "done"
    assert run.votes_wanted == 2


@pytest.mark.usefixtures("model")
def test_a_cap_beyond_the_budget_resumes_no_cut_short_run(by: Actor) -> None:
    run = order(make_variant(2, make_paying_team()))
    Run.objects.filter(pk=run.pk).update(state="ordered")
    with pytest.raises(BudgetError):
        engine.resume(run=stored(run), by=by, now=NOW, cap=10**6 * DOLLAR)
    assert (stored(run).state, stored(run).cap) == ("ordered", DOLLAR)


def test_failures_are_named_with_their_prompts_and_reasons(model: Model) -> None:
    candidate = make_variant(3)
    model.outcomes = [RejectedError("Not like this."), ModelRefusedError("No.")]
    run = work_off(order(candidate))
    found = with_prompts(list(failures_of(run)))
    assert [(one.prompt.external_id, one.label, one.reason) for one in found if one.prompt] == [
        ("p0", "Failed", "Not like this."),
        ("p1", "Refused", "No."),
    ]
    assert [one.prompt.external_id for one in answers_of(run)] == ["p2"]
    # An answer that was brought since is no failure any more.
    prompt = candidate.arena.prompts.get(external_id="p0")
    Response.objects.create(candidate=candidate, prompt=prompt, text="Mine.")
    assert len(failures_of(run)) == 1


def test_a_report_counts_states_tokens_time_and_money(model: Model) -> None:
    candidate = make_variant(4)
    model.outcomes = [ModelRefusedError("No.")]
    run = order(candidate)
    for call in run.calls.order_by("pk")[:3]:
        generate_answer(call_id=call.pk)
    Call.objects.filter(run=run, state="done").update(seconds=1.5)
    report = report_on(run.pk, NOW)
    assert {state: n for state, _, n in report.state_rows if n} == {"done": 2, "refused": 1}
    assert (report.total, report.settled, report.requests) == (4, 3, 3)
    assert (report.tokens_in, report.tokens_out, report.seconds) == (20, 10, 1.5)
    assert report.run.settled == 2 * 20_000
    assert report.goes_on
    assert not report.is_over
    later = report.run.created_at + timedelta(seconds=90)
    assert report.per_minute(later) == pytest.approx(2.0)
    assert report.seconds_left(later) == pytest.approx(30.0)
