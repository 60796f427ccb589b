"""Debounced refreshes: many calls, one message, and no harm if the broker is down."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arena.models import Arena
from arena.signals import announce, arena_created, votes_changed
from ranking.models import ArenaRefresh, Board
from ranking.signals import DebouncedTask
from tests.ranking.helpers import publish

ROOT = Path(__file__).parents[2]


def wait_for(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def test_many_calls_are_one_message_per_arena() -> None:
    sent: list[int] = []
    task = DebouncedTask(sent.append, wait=60)
    for _ in range(100):
        task.schedule(7)
        task.schedule(8)
    assert sent == []
    task.flush()
    assert sent == [7, 8]


def test_it_sends_again_after_it_has_fallen_silent() -> None:
    sent: list[int] = []
    task = DebouncedTask(sent.append, wait=0.02)
    task.schedule(7)
    wait_for(lambda: task._thread is None)
    task.schedule(7)
    wait_for(lambda: sent == [7, 7])


def test_a_broker_that_is_down_is_logged_and_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[int] = []

    def publish_or_fail(arena_id: int) -> None:
        if arena_id == 7:
            raise ConnectionError("no broker")
        sent.append(arena_id)

    task = DebouncedTask(publish_or_fail, wait=0.02)
    task.schedule(7)
    task.schedule(8)
    wait_for(lambda: sent == [8])
    assert "refresh of arena 7 could not be queued" in caplog.text


def test_waiting_messages_are_sent_before_the_process_ends() -> None:
    """A command ends long before the wait does: its refresh must not be lost."""
    script = (
        "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'arena.settings';"
        "django.setup();"
        "from ranking.signals import DebouncedTask;"
        "DebouncedTask(lambda pk: print(pk, flush=True), wait=60).schedule(7)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, cwd=ROOT
    )
    assert done.stdout == "7\n"


def test_a_broker_that_hangs_keeps_no_process_from_ending() -> None:
    answers = threading.Event()

    def hang(arena_id: int) -> None:
        answers.wait(60)

    task = DebouncedTask(hang, wait=60)
    task.schedule(7)
    started = time.monotonic()
    task.flush(timeout=0.1)
    assert time.monotonic() - started < 30
    answers.set()


def test_it_continues_sending_after_a_flush() -> None:
    sent: list[int] = []
    task = DebouncedTask(sent.append, wait=0.02)
    task.flush()
    task.schedule(7)
    task.flush()
    assert sent == [7]
    task.schedule(8)
    wait_for(lambda: sent == [7, 8])


@pytest.mark.django_db
def test_changed_votes_enqueue_a_refresh_after_the_commit(
    arena: Arena, enqueued: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    enqueued.clear()
    with django_capture_on_commit_callbacks(execute=True):
        announce(votes_changed, arena_id=arena.pk)
        assert enqueued == []
    assert enqueued == [arena.pk]


@pytest.mark.django_db
def test_a_new_arena_gets_its_board_and_a_refresh(
    arena: Arena, enqueued: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        announce(arena_created, arena_id=arena.pk)
    assert Board.objects.get(arena=arena).raters == "people"
    assert ArenaRefresh.objects.filter(arena=arena).exists()
    assert arena.pk in enqueued


@pytest.mark.django_db
def test_a_new_candidate_makes_its_arena_due_again(arena: Arena) -> None:
    publish(arena)
    assert not ArenaRefresh.objects.get(arena=arena).is_stale
    arena.candidates.create(name="newcomer")
    assert ArenaRefresh.objects.get(arena=arena).is_stale
