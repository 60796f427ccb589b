"""An answer order that fails halfway reserves no money; a killed one is given up."""

from typing import Any

import pytest
from django.utils import timezone

from arena import generation_runs
from arena.actors import CLI
from arena.calls.models import Call
from arena.generation_runs import order_answers, unfinished_run
from arena.models import Candidate, Run
from arena.services import runs as engine
from arena.tasks import sweep_calls
from tests.deadlocks import Other, deadlock, failing

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quiet(no_doorbell: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.tasks.make_calls.delay", lambda endpoint: None)
    monkeypatch.setattr(generation_runs, "BATCH", 1)


def order(candidate: Candidate) -> Run:
    return order_answers(candidate=candidate, by=CLI, cap=None, now=timezone.now())


def states() -> list[str]:
    return list(Run.objects.order_by("pk").values_list("state", flat=True))


def test_an_order_that_fails_half_way_can_be_made_again(
    scripted_candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            generation_runs, "_write_calls", failing(generation_runs._write_calls, before=2)
        )
        with pytest.raises(type(deadlock())):
            order(scripted_candidate)
    assert (states(), unfinished_run(scripted_candidate)) == (["cancelled"], None)
    run = order(scripted_candidate)
    assert (states(), run.calls.count()) == (["cancelled", "open"], 3)


def test_calls_that_end_in_a_deadlock_are_written_again(
    scripted_candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "create_calls", failing(engine.create_calls, before=1))
    run = order(scripted_candidate)
    assert (states(), run.calls.count(), Call.objects.count()) == (["open"], 3, 3)


def test_the_sweep_cancels_only_what_a_killed_process_wrote(
    scripted_candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[list[str]] = []

    def sweep() -> None:
        sweep_calls()
        swept.append(states())

    def sweep_meanwhile(run: Any) -> None:
        """The last act of the order, which still holds its lock; then it is killed."""
        other = Other(sweep)
        other.start()
        other.check()

    monkeypatch.setattr(engine, "open_run", sweep_meanwhile)
    order(scripted_candidate)
    sweep()
    assert swept == [["ordered"], ["cancelled"]]
