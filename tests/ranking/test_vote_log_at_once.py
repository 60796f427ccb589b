"""The log under real transactions: late commits, takeovers, sessions killed halfway."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, InterfaceError, connection, transaction
from django.utils import timezone

from arena.models import Arena, Vote
from ranking.log import links, verification
from ranking.models import ArenaRefresh
from ranking.services import leases
from ranking.services.leases import RefreshLeaseLostError
from tests.factories import make_person, make_vote, void_vote
from tests.ranking.helpers import make_voted_arena

pytestmark = pytest.mark.django_db(transaction=True)
SHORT = timedelta(seconds=0.3)  # of the leases here: they are taken over all the time


@pytest.fixture
def voted_arena(monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.setattr(links, "BATCH", 7)
    monkeypatch.setattr(leases, "LEASE", SHORT)
    arena = make_voted_arena()
    leases.open_arena(arena_id=arena.pk)
    return arena


def claim_briefly(arena: Arena, lease: timedelta = SHORT) -> Any:
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    return ArenaRefresh.objects.claim(arena.pk, timezone.now(), lease)


def update_once(arena: Arena) -> None:
    """Update where the lease is free; and leave the lease behind, as a killed refresh does."""
    token = claim_briefly(arena)
    if token:
        links.update(arena_id=arena.pk, token=token)


def settle_and_check(arena: Arena) -> None:
    """At the end every live vote is in the log, and nothing else is."""
    time.sleep(SHORT.total_seconds() * 1.1)
    token = claim_briefly(arena, timedelta(seconds=60))
    assert token
    links.update(arena_id=arena.pk, token=token)
    assert set(links.logged_votes(arena.pk)) == set(Vote.objects.live().filter(arena=arena))
    assert verification.verify(arena_id=arena.pk, token=token).sentences == []


def in_thread(work: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def vote(arena: Arena, chance: random.Random) -> Vote:
    left, right = chance.sample(list(arena.candidates.all()), 2)
    outcome = chance.choice(["left", "right", "tie", "both_bad"])
    return make_vote(arena, left, right, outcome, chance.choice(list(arena.prompts.all())))


def test_a_vote_that_commits_late_with_a_smaller_id_is_not_lost(voted_arena: Arena) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite's writers wait for one another: ids are in the order of commits")
    written, go_on = threading.Event(), threading.Event()
    ids: list[int] = []

    def slow() -> None:
        with transaction.atomic():
            ids.append(vote(voted_arena, random.Random(1)).pk)
            written.set()
            go_on.wait(120)

    thread = in_thread(slow)
    assert written.wait(120)
    newer = vote(voted_arena, random.Random(2)).pk
    update_once(voted_arena)
    assert Vote.objects.filter(logged=True).filter(pk=newer).exists()
    go_on.set()
    thread.join()
    assert ids[0] < newer
    settle_and_check(voted_arena)
    assert Vote.objects.filter(logged=True).filter(pk=ids[0]).exists()


def voter(arena: Arena, seed: int, until: float) -> None:
    """Vote at least 30 times, however busy the machine is."""
    chance, votes = random.Random(seed), 0
    while time.monotonic() < until or votes < 30:
        votes += 1
        with transaction.atomic():
            vote(arena, chance)
            time.sleep(chance.random() / 50)


def voider(arena: Arena, until: float) -> None:
    chance = random.Random(9)
    while time.monotonic() < until:
        found = Vote.objects.filter(arena=arena, voided_at=None).order_by("-pk")[:30]
        void_vote(chance.choice(list(found)))
        time.sleep(0.02)


def updater(arena: Arena, until: float) -> None:
    while time.monotonic() < until:
        with suppress(RefreshLeaseLostError):
            update_once(arena)
        time.sleep(0.01)


@pytest.mark.slow
def test_concurrent_votes_voids_and_updates_are_logged_once(voted_arena: Arena) -> None:
    until = time.monotonic() + 2
    works = [
        partial(voter, voted_arena, 1, until),
        partial(voter, voted_arena, 2, until),
        partial(voider, voted_arena, until),
        *[partial(updater, voted_arena, until)] * 3,
    ]
    threads = [in_thread(work) for work in works]
    for thread in threads:
        thread.join()
    assert Vote.objects.filter(arena=voted_arena).count() > 50
    settle_and_check(voted_arena)


def update_and_note(arena: Arena, sessions: list[int], broken: list[str]) -> None:
    """Update until nothing is left, in sessions that somebody else ends."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                sessions.append(cursor.fetchone()[0])
            if not Vote.objects.to_log().exists():
                return
            update_once(arena)
        except RefreshLeaseLostError:
            continue
        # The last where the session ended as Django closed a server's cursor, which it does bare.
        except (DatabaseError, InterfaceError, psycopg.Error) as error:
            broken.append(str(error))
            connection.close()


def test_killed_updates_lose_and_double_nothing(voted_arena: Arena) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("only a server can end a session from outside")
    chance, rater = random.Random(3), make_person()
    candidates, prompt = list(voted_arena.candidates.all()), voted_arena.prompts.first()
    for _ in range(200):
        make_vote(voted_arena, *chance.sample(candidates, 2), "left", prompt, rater)
    sessions: list[int] = []
    broken: list[str] = []
    thread = in_thread(partial(update_and_note, voted_arena, sessions, broken))
    while thread.is_alive():
        time.sleep(chance.random() / 10)
        if sessions and len(broken) < 6:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [sessions[-1]])
    assert len(broken) >= 3
    settle_and_check(voted_arena)
