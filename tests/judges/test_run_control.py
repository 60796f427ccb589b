"""The current state of a judge run decides what can be done to it."""

from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count
from django.utils import timezone

from arena.actors import CLI
from arena.calls.models import Call
from arena.errors import ServiceError
from arena.models import AuditEntry, Run, Team
from arena.services import runs as engine
from arena.services.runs import resume_unfinished
from judges.models import Judgement
from judges.services.label_runs import one_label_run_at_a_time, order_label_run
from judges.services.runs import JudgeRunHandler
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is, prefers
from tests.judges.helpers import LOCAL, epoch_of, order, pair_row, store_labels, work_off

pytestmark = pytest.mark.django_db
NOW = timezone.now()
DOLLAR = 10**9
FIRST = "first-7b-2024-07-01"


@pytest.fixture
def run(team: Team, local: FakeServer) -> Run:
    """A run of two verdicts, of which one has failed with its call."""
    Team.objects.update(budget=10 * DOLLAR)
    local.otherwise = better_is("TIE")
    run = order(make_arena(2, 2, team=team))
    Run.objects.filter(pk=run.pk).update(cap=DOLLAR)
    failed = run.judgements.earliest("pk")
    run.calls.filter(pk=failed.forward_id).update(state="failed", error="HTTP 500", finished_at=NOW)
    run.judgements.filter(pk=failed.pk).update(state="failed", settled_at=NOW)
    return stored(run)


def stored(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def failures() -> int:
    calls = Call.objects.filter(state="failed").count()
    assert calls == Judgement.objects.filter(state="failed").count()
    return calls


def trail() -> list[str]:
    """The audit log of runs after their order."""
    return list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))[1:]


def test_a_run_that_was_cancelled_meanwhile_is_not_resumed(run: Run) -> None:
    engine.pause(run=run, by=CLI)
    seen = stored(run)
    engine.cancel(run=run, by=CLI, now=NOW)
    with pytest.raises(ServiceError, match="cancelled: it cannot be resumed"):
        engine.resume(run=seen, by=CLI, now=NOW, cap=2 * DOLLAR)
    assert (stored(run).state, stored(run).cap, failures()) == ("cancelled", DOLLAR, 1)
    assert trail() == ["paused a run of judges", "cancelled a run of judges"]


def test_command_resumes_no_run_cancelled_meanwhile(run: Run) -> None:
    engine.pause(run=run, by=CLI)
    seen = stored(run)
    engine.cancel(run=run, by=CLI, now=NOW)
    with pytest.raises(ServiceError, match="cancelled: it cannot be resumed"):
        resume_unfinished(run=seen, now=NOW)
    assert failures() == 1


def test_cancelled_half_written_run_is_not_resumed(
    team: Team, local: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine, "open_run", lambda run: None)
        run = order(make_arena(2, 2, team=team))
    seen = stored(run)
    assert seen.state == "ordered"
    engine.cancel(run=run, by=CLI, now=NOW)
    with pytest.raises(ServiceError, match="cancelled: it cannot be resumed"):
        engine.resume(run=seen, by=CLI, now=NOW)
    assert trail() == ["cancelled a run of judges"]


@pytest.mark.parametrize("state", ["open", "paused", "cancelled"])
def test_failures_of_a_reopened_run_are_not_retried(run: Run, state: str) -> None:
    Run.objects.filter(pk=run.pk).update(state="done")
    seen = stored(run)
    Run.objects.filter(pk=run.pk).update(state=state)
    with pytest.raises(ServiceError, match="once the run is finished"):
        engine.retry_failed(run=seen, by=CLI, now=NOW)
    assert (stored(run).state, failures(), trail()) == (state, 1, [])


def test_run_reopened_during_retry_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may be faster between reading the state and changing it."""
    Run.objects.filter(pk=run.pk).update(state="done")

    def meanwhile(_: object, run: Run) -> bool:
        return bool(Run.objects.filter(pk=run.pk).update(state="cancelled"))

    monkeypatch.setattr(JudgeRunHandler, "has_failures", meanwhile)
    with pytest.raises(ServiceError, match="cancelled: it cannot be reopened"):
        engine.retry_failed(run=stored(run), by=CLI, now=NOW)
    assert (failures(), trail()) == (1, [])


def test_run_closed_meanwhile_is_not_paused_or_cancelled(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state="done")
    with pytest.raises(ServiceError, match="done: it cannot be paused"):
        engine.pause(run=run, by=CLI)
    run.state = Run.State.OPEN
    with pytest.raises(ServiceError, match="done: it cannot be cancelled"):
        engine.cancel(run=run, by=CLI, now=NOW)
    assert (stored(run).state, trail()) == ("done", [])


@pytest.mark.parametrize(
    ("state", "action"),
    [
        ("paused", "pause"),
        ("done", "pause"),
        ("done", "resume"),
        ("open", "resume"),
        ("cancelled", "resume"),
        ("done", "cancel"),
        ("open", "retry_failed"),
        ("paused", "retry_failed"),
        ("cancelled", "retry_failed"),
    ],
)
def test_what_a_state_does_not_allow_is_refused(run: Run, state: str, action: str) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)
    given: dict[str, Any] = {} if action == "pause" else {"now": NOW}
    with pytest.raises(ServiceError):
        getattr(engine, action)(run=stored(run), by=CLI, **given)
    assert (stored(run).state, failures(), trail()) == (state, 1, [])


def test_cap_below_spending_is_refused_and_names_the_field(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state="paused", settled=DOLLAR // 2)
    with pytest.raises(ServiceError, match="spent or reserved") as refusal:
        engine.resume(run=stored(run), by=CLI, now=NOW, cap=1)
    assert refusal.value.field == "cap"
    assert (stored(run).state, stored(run).cap, failures(), trail()) == ("paused", DOLLAR, 1, [])


def test_resumed_run_retries_failures_and_records_it(run: Run) -> None:
    engine.pause(run=run, by=CLI)
    engine.resume(run=stored(run), by=CLI, now=NOW, cap=2 * DOLLAR)
    assert (stored(run).cap, failures()) == (2 * DOLLAR, 0)
    assert work_off(stored(run)).votes_done == 2
    assert trail() == ["paused a run of judges", "resumed a run of judges"]
    assert AuditEntry.objects.latest("pk").details["cap"] == "$2.00"


def test_a_failure_without_a_failed_call_is_settled_again(run: Run) -> None:
    run.calls.update(state="done", verdict={"label": "TIE"}, finished_at=NOW)
    Run.objects.filter(pk=run.pk).update(state="done", closed_at=NOW - timedelta(1))
    engine.retry_failed(run=stored(run), by=CLI, now=NOW)
    assert (stored(run).state, stored(run).closed_at) == ("open", None)
    assert trail() == ["asked failed verdicts again"]


@pytest.fixture
def cut_short(tmp_path: Path, local: FakeServer) -> Run:
    """A run on labelled items that nobody is writing any more."""
    items = list(store_labels(tmp_path, [pair_row(i) for i in range(3)]).items.all())
    trial = order_label_run(epoch=epoch_of(), items=items, cap=DOLLAR, now=NOW)
    Run.objects.filter(pk=trial.pk).update(state="ordered", votes_wanted=9)
    return stored(trial)


def test_half_written_label_run_continues(cut_short: Run) -> None:
    engine.resume(run=cut_short, by=CLI, now=NOW)
    assert (stored(cut_short).state, stored(cut_short).votes_wanted) == ("open", 3)


def test_label_run_being_written_is_not_opened(cut_short: Run) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL gives its lock to the same session twice.")
    with (
        one_label_run_at_a_time(epoch_id=epoch_of().pk),
        pytest.raises(ServiceError, match="judging labelled items"),
    ):
        engine.resume(run=cut_short, by=CLI, now=NOW)
    assert stored(cut_short).state == "ordered"


def test_a_judge_that_follows_the_order_stops_after_thirty_pairs(
    local: FakeServer, settings: Any
) -> None:
    settings.STOP_HOPELESS_JUDGES = True
    local.otherwise = better_is("A")
    run = work_off(order(make_arena(2, 40), LOCAL, per_pair=40))
    assert run.state == "paused"
    assert "Of its first 30 pairs, 30 were inconsistent when swapped" in run.pause_reason
    assert run.judgements.settled().count() == 30
    resume_unfinished(run=run, now=timezone.now())
    assert work_off(run).state == "done"  # whoever resumes it has decided


def test_a_run_resumed_for_its_other_judges_leaves_the_hopeless_one_paused(
    local: FakeServer, settings: Any
) -> None:
    """Whoever raises the cap wants the rest, not more of the verdicts that follow the order."""
    settings.STOP_HOPELESS_JUDGES = True
    first, steady = better_is("A"), prefers("-0 of")
    local.otherwise = lambda body: (first if body["model"] == FIRST else steady)(body)
    run = order(make_arena(2, 40), f"local:{FIRST}@pairwise", LOCAL, per_pair=40)
    hopeless = epoch_of(f"local:{FIRST}@pairwise").requester
    now = timezone.now()
    engine.pause_requester(run_id=run.pk, requester=hopeless, reason="Hopeless.", now=now)
    run.run_judges.filter(epoch__requester=hopeless).update(hopeless_at=now)
    engine.pause_run(run_id=run.pk, reason="The cap is reached.")
    run = work_off(resume_unfinished(run=stored(run), now=now))
    settled = run.judgements.settled().values_list("epoch__judge__model").annotate(Count("pk"))
    assert dict(settled) == {LOCAL.removeprefix("local:"): 40}
    assert engine.pause_stuck_runs() == 1
    work_off(resume_unfinished(run=stored(run), now=timezone.now()))  # nothing else is left
    assert run.judgements.settled().count() == 80


def test_a_judge_at_the_ceiling_of_flips_continues(local: FakeServer, settings: Any) -> None:
    settings.STOP_HOPELESS_JUDGES = True
    steady, biased, asked = prefers("-0 of"), better_is("A"), count()

    def flips_often(body: Any) -> Any:
        return (biased if next(asked) % 20 < 8 else steady)(body)

    local.otherwise = flips_often
    run = work_off(order(make_arena(2, 40), LOCAL, per_pair=40))
    assert run.state == "done"
    assert 10 < run.judgements.filter(flipped=True).count() < 27
