"""Elo as state: checkpoints, and the tail that a voided or a late vote replays."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from arena.models import Arena
from ranking import tasks
from ranking.models import EloInterval, Snapshot
from ranking.services import elo as elo_service
from tests.factories import make_arena, make_votes
from tests.ranking.helpers import cast, publish

pytestmark = pytest.mark.django_db


def test_every_rating_gets_an_interval_around_it(arena: Arena) -> None:
    snapshot = publish(arena)
    tasks.add_elo_intervals(arena.pk)
    for standing in snapshot.standings.select_related("elo_interval"):
        assert standing.elo_interval.low < standing.elo < standing.elo_interval.high


def elo_width(n_raters: int, left: Callable[[int, int], bool]) -> float:
    """The width of the first interval; `left`: whether this rater chooses left on this prompt."""
    arena = make_arena(2, 20)
    pair = list(arena.candidates.order_by("pk"))
    prompts = list(enumerate(arena.prompts.order_by("pk")))
    for rater in range(n_raters):
        says = [("right", "left")[left(rater, number)] for number, _ in prompts]
        make_votes(
            arena, [(*pair, said, prompt) for said, (_, prompt) in zip(says, prompts, strict=True)]
        )
    publish(arena)
    elo_service.add_intervals(arena_id=arena.pk, now=timezone.now())
    found = EloInterval.objects.filter(standing__snapshot__board__category="").get(
        standing__candidate=pair[0]
    )
    return found.high - found.low


def test_raters_who_differ_widen_them() -> None:
    """Each prompt has half of its votes on either side, whoever cast them."""
    mixed = elo_width(10, lambda rater, number: (rater + number) % 2 == 0)
    assert elo_width(10, lambda rater, number: rater % 2 == 0) > 2 * mixed


def test_they_say_how_many_votes_they_have_seen(arena: Arena) -> None:
    snapshot = publish(arena)
    for _ in range(5):
        cast(arena)  # on no leaderboard yet
    elo_service.add_intervals(arena_id=arena.pk, now=timezone.now())
    snapshot.refresh_from_db()
    assert snapshot.elo_interval_votes == 24


def test_the_same_snapshot_is_not_done_twice(arena: Arena) -> None:
    publish(arena)
    now = timezone.now()
    assert elo_service.add_intervals(arena_id=arena.pk, now=now)
    assert not elo_service.add_intervals(arena_id=arena.pk, now=now)
    assert elo_service.arenas_without_intervals(now) == []


def test_a_claim_that_was_abandoned_is_taken_up_again(arena: Arena) -> None:
    publish(arena)
    now = timezone.now()
    Snapshot.objects.current().update(elo_claimed_until=now + timedelta(minutes=1))
    assert not elo_service.add_intervals(arena_id=arena.pk, now=now)
    assert elo_service.add_intervals(arena_id=arena.pk, now=now + timedelta(hours=1))


def test_snapshot_with_intervals_under_way_is_kept(arena: Arena) -> None:
    publish(arena)
    cast(arena)
    claimed = publish(arena)
    claimed.elo_claimed_until = timezone.now() + timedelta(minutes=1)
    claimed.save()
    cast(arena)
    publish(arena)
    assert Snapshot.objects.filter(pk=claimed.pk).exists()


def test_newer_snapshots_show_the_intervals_of_the_one_before(client: Client, arena: Arena) -> None:
    publish(arena)
    assert "Elo intervals are being computed." in client.get("/a/support/").content.decode()
    elo_service.add_intervals(arena_id=arena.pk, now=timezone.now())
    for _ in range(3):
        cast(arena)
        publish(arena)
    found = client.get("/a/support/results.json").json()
    assert found["elo_intervals_from_votes"] == 24
    assert all(row["elo_low"] < row["elo_high"] for row in found["standings"])
    elo_service.add_intervals(arena_id=arena.pk, now=timezone.now() + timedelta(minutes=10))
    assert client.get("/a/support/results.json").json()["elo_intervals_from_votes"] == 27


def test_too_few_votes_give_none_and_nobody_tries_again() -> None:
    arena = make_arena(n_candidates=2)
    cast(arena)
    publish(arena)
    elo_service.add_intervals(arena_id=arena.pk, now=timezone.now())
    assert not EloInterval.objects.exists()
    assert elo_service.arenas_without_intervals(timezone.now()) == []


def test_one_worker_computes_them_for_an_arena_and_then_rests(arena: Arena) -> None:
    publish(arena)
    now = timezone.now()
    assert elo_service.add_intervals(arena_id=arena.pk, now=now)
    cast(arena)
    publish(arena)
    assert elo_service.arenas_without_intervals(now) == []
    assert elo_service.add_intervals(arena_id=arena.pk, now=now) == 0
    later = now + timedelta(minutes=10)
    assert elo_service.arenas_without_intervals(later) == [arena.pk]
    assert elo_service.add_intervals(arena_id=arena.pk, now=later)
