"""Workers and people who act on one experiment at the same moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from arena.actors import CLI
from arena.calls.models import Call
from arena.errors import ServiceError
from arena.models import Arena, Run
from arena.services.arenas import delete_arena
from judges.models import Experiment
from judges.services.experiments import (
    MeasurementPlan,
    add_draft,
    advance,
    advance_all,
    delete_experiment,
    enter_draft,
    promote_draft,
    start_experiment,
    stop_experiment,
)
from tests.factories import make_arena, make_candidate
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import LOCAL
from tests.judges.test_experiments import WRITER, answers, begin, carry_out, make_calls

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]


@pytest.fixture(autouse=True)
def only_where_threads_meet() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time.")


@pytest.fixture
def origin(team: Any, local: FakeServer, no_doorbell: None) -> Arena:
    local.otherwise = answers
    arena: Arena = make_arena(0, 20, team=team)
    make_candidate(arena, "concise", endpoint="local", model=WRITER, system_prompt="plain")
    return arena


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Do these at the same moment; what services refuse is among the results."""
    together = threading.Barrier(len(works))

    def one(work: Callable[[], Any]) -> Any:
        together.wait()
        try:
            return work()
        except ServiceError as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(one, work) for work in works]]


def start(experiment: Experiment) -> Any:
    return start_experiment(
        experiment=experiment, plan=MeasurementPlan([LOCAL]), by=CLI, now=timezone.now()
    )


def step(experiment: Experiment) -> Any:
    return advance(experiment_id=experiment.pk, now=timezone.now())


def stop(experiment: Experiment) -> Any:
    return stop_experiment(experiment=experiment, by=CLI, now=timezone.now())


def refusals(results: list[Any]) -> list[str]:
    return [str(result) for result in results if isinstance(result, ServiceError)]


def test_an_experiment_is_started_once(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    found = at_once(*[lambda: start(experiment)] * 3)

    assert refusals(found) == ["This experiment has been started."] * 2
    assert origin.team.audit_entries.filter(action="started an experiment").count() == 1


def test_workers_that_meet_order_everything_once(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    start(experiment)
    for _ in range(12):
        at_once(*[lambda: step(experiment)] * 3)
        make_calls(experiment)

    experiment.refresh_from_db()
    assert experiment.state == "done"
    calls = list(Call.objects.filter(requests__gt=0).values_list("requester", "subject"))
    assert len(calls) == len(set(calls))
    assert Run.objects.filter(kind="answers").count() == 2


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_nothing_goes_on_once_it_was_stopped_during_a_step(steps: int, origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    start(experiment)
    for _ in range(steps):
        step(experiment)
        make_calls(experiment)
    at_once(lambda: step(experiment), lambda: stop(experiment), lambda: step(experiment))

    advance_all(now=timezone.now())
    experiment.refresh_from_db()
    assert experiment.state == "stopped"
    assert not Run.objects.filter(arena=experiment.arena).not_over().exists()


def test_a_draft_is_promoted_once(origin: Arena) -> None:
    experiment = carry_out(begin(origin, "GOOD"))
    (draft,) = experiment.drafts

    def promote() -> Any:
        return promote_draft(experiment=experiment, draft=draft, by=CLI, now=timezone.now())

    found = at_once(*[promote] * 3)
    assert refusals(found) == ["A draft of this experiment has been promoted."] * 2
    assert origin.candidates.count() == 2


@pytest.mark.parametrize("name", ["", "Greet"])
def test_a_draft_is_entered_once(name: str, origin: Arena) -> None:
    experiment = carry_out(begin(origin, "GOOD"))
    (draft,) = experiment.drafts

    def enter() -> Any:
        return enter_draft(
            experiment=experiment, draft=draft, by=CLI, now=timezone.now(), name=name
        )

    found = at_once(*[enter] * 3)
    assert len({candidate.pk for candidate in found}) == 1
    assert origin.candidates.count() == 2
    assert found[0].responses.count() == 20


def test_drafts_stay_as_registered(origin: Arena) -> None:
    experiment = begin(origin, "GOOD")

    def add() -> Any:
        return add_draft(experiment=experiment, by=CLI, now=timezone.now(), system_prompt="new")

    at_once(lambda: start(experiment), add)
    experiment.refresh_from_db()
    if experiment.state == "running":
        assert experiment.family == experiment.drafts.count()


@pytest.mark.parametrize("steps", [0, 2])
def test_an_experiment_is_deleted_while_workers_are_at_it(steps: int, origin: Arena) -> None:
    experiment = begin(origin, "GOOD")
    start(experiment)
    for _ in range(steps):
        step(experiment)
        make_calls(experiment)

    def sweep() -> Any:
        return advance_all(now=timezone.now())

    at_once(sweep, lambda: delete_experiment(experiment=experiment, by=CLI), sweep)
    if kept := Experiment.objects.first():  # "being changed": whoever deletes tries again
        delete_experiment(experiment=kept, by=CLI)
    assert list(Arena.objects.all()) == [origin]
    assert not Run.objects.exists()


def test_an_arena_is_deleted_while_workers_are_at_its_experiments(origin: Arena) -> None:
    for text in ("GOOD", "also GOOD"):
        start(begin(origin, text))

    def sweep() -> Any:
        return advance_all(now=timezone.now())

    at_once(sweep, lambda: delete_arena(arena=origin, by=CLI), sweep)
    assert not Arena.objects.exists()
    assert not Experiment.objects.exists()
    assert not Run.objects.exists()
