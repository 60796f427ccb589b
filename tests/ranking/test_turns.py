"""A large import delays nobody: arenas take turns by what they cost, and sweeps wait for none."""

import re
import threading
from datetime import timedelta
from typing import Any

import pytest
import yaml
from celery import current_app
from django.conf import settings
from django.utils import timezone

from arena.models import Arena
from arena.processes import PROGRAMS
from ranking import tasks
from ranking.models import ArenaRefresh
from ranking.services import leases
from tests.environment import REPOSITORY
from tests.factories import make_arena, make_vote

pytestmark = pytest.mark.django_db
LARGE = settings.LARGE_FITS
TASKS = [tasks.refresh_arena, tasks.add_elo_intervals]
LIGHT = "ranking.tasks.show_life"


def queue_of(task: str) -> str:
    return str(current_app.amqp.router.route({}, task)["queue"].name)


def served_by(command: str) -> set[str]:
    return set(re.search(r"--queues=(\S+)", command)[1].split(","))  # type: ignore[index]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The arenas that were refreshed or given intervals, in this order."""
    done: list[int] = []

    def work(*, arena_id: int, now: Any) -> list[int]:
        done.append(arena_id)
        return []

    monkeypatch.setattr(tasks.refresh, "refresh_arena", work)
    monkeypatch.setattr(tasks.elo_service, "add_intervals", work)
    return done


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """What a task sends on: the arena and the queue."""
    sent: list[tuple[int, str]] = []

    def note(args: list[int], **options: Any) -> None:
        sent.append((args[0], options["queue"]))

    for task in TASKS:
        monkeypatch.setattr(task, "apply_async", note)
    return sent


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.setattr(leases, "LARGE_VOTES", 3)
    arena = make_arena(2, 1)
    left, right = arena.candidates.order_by("pk")
    for _ in range(4):
        make_vote(arena, left, right, "left")
    return arena


@pytest.mark.parametrize("task", TASKS)
def test_forty_small_arenas_do_not_wait_for_a_large_one(
    task: Any, large: Arena, done: list[int], sent: list[tuple[int, str]]
) -> None:
    small = [make_arena(2, 1).pk for _ in range(40)]
    for arena_id in [large.pk, *small]:  # the import was first
        task.apply([arena_id], routing_key="fits", throw=True)
    assert done == small
    assert sent == [(large.pk, LARGE)]
    task.apply([large.pk], routing_key=LARGE, throw=True)
    assert done == [*small, large.pk]


def test_an_arena_is_large_by_its_votes_or_by_its_last_refresh(large: Arena) -> None:
    other = make_arena(2, 1)
    leases.open_arena(arena_id=other.pk)
    assert leases.is_large(large.pk)
    assert not leases.is_large(other.pk)
    now = timezone.now()
    for cpu, is_large in ((9, False), (11, True)):
        pause = leases.REST_PER_SECOND * timedelta(seconds=cpu)
        times = {"finished_at": now, "not_before": now + pause, "seconds": 100.0}
        ArenaRefresh.objects.filter(arena=other).update(**times)
        assert leases.is_large(other.pk) == is_large


def test_one_large_arena_is_refreshed_at_a_time_and_the_next_is_found_again(
    large: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, end, done = threading.Event(), threading.Event(), []

    def work(*, arena_id: int, now: Any) -> list[int]:
        done.append(arena_id)
        begun.set()
        end.wait(30)
        return []

    monkeypatch.setattr(tasks.refresh, "refresh_arena", work)
    first = threading.Thread(
        target=tasks.refresh_arena.apply, args=[[large.pk]], kwargs={"routing_key": LARGE}
    )
    first.start()
    assert begun.wait(30)
    tasks.refresh_arena.apply([large.pk], routing_key=LARGE, throw=True)
    end.set()
    first.join()
    assert done == [large.pk]
    leases.open_arena(arena_id=large.pk)
    assert ArenaRefresh.objects.due(timezone.now()) == [large.pk]


@pytest.mark.parametrize("sweep", settings.SWEEPS)
def test_no_sweep_waits_behind_a_refresh(sweep: str) -> None:
    assert (queue_of(sweep) == "fits") == (sweep == LIGHT)


def test_examinations_and_the_sweep_of_leaderboards_have_a_queue_of_their_own() -> None:
    assert {queue_of(f"ranking.tasks.{name}") for name in ("sweep_boards", "examine_votes")} == {
        "sweeps"
    }


def test_somebody_serves_every_queue_and_large_arenas_have_one_place() -> None:
    ours = {task for task in current_app.tasks if not task.startswith("celery.")}
    queues = {LARGE, *map(queue_of, ours | set(settings.SWEEPS))}
    services = yaml.safe_load((REPOSITORY / "compose.yaml").read_text("utf-8"))["services"]
    workers = [" ".join(each["command"]) for each in services.values() if "command" in each]
    workers = [command for command in workers if " worker " in command]
    assert set().union(*map(served_by, workers)) == queues
    assert served_by(" ".join(PROGRAMS["The worker"])) == queues
    (of_large,) = (command for command in workers if LARGE in served_by(command))
    assert served_by(of_large) == {LARGE}
    assert "--concurrency=1 " in of_large
