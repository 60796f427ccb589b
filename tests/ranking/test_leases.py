"""Leases: short, so that a killed worker is missed soon, and renewed, so that a slow one is not."""

from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Arena
from ranking import votes
from ranking.models import ArenaRefresh, Snapshot
from ranking.services import boards, elo_intervals, fitting, refresh
from tests.ranking.helpers import publish, seconds

pytestmark = pytest.mark.django_db


def expire(arena: Arena) -> None:
    ArenaRefresh.objects.filter(arena=arena).update(leased_until=timezone.now() - seconds(1))


def test_a_refresh_renews_its_lease_before_each_fit(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, fit = fitting.digest, fitting.fit
    left = []

    def slow_digest(*arguments: Any) -> str:
        expire(arena)
        return digest(*arguments)

    def look_and_fit(*arguments: Any) -> fitting.Fitted:
        left.append(ArenaRefresh.objects.get(arena=arena).leased_until - timezone.now())
        return fit(*arguments)

    monkeypatch.setattr(fitting, "digest", slow_digest)
    monkeypatch.setattr(fitting, "fit", look_and_fit)
    publish(arena)
    assert len(left) == 3
    assert min(left) > refresh.LEASE - seconds(5)


def test_reading_many_votes_renews_the_lease_on_the_way(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards.open_arena(arena_id=arena.pk)
    monkeypatch.setattr(votes, "TICK", 10)
    now = timezone.now()
    token = ArenaRefresh.objects.claim(arena.pk, now, seconds(1))
    assert token
    votes.read_votes(arena, partial(refresh.renew, token))
    assert not ArenaRefresh.objects.free(now + seconds(15)).exists()


def test_who_lost_the_lease_stops_reading(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    boards.open_arena(arena_id=arena.pk)
    monkeypatch.setattr(votes, "TICK", 10)
    monkeypatch.setattr(boards, "open_boards", lambda **_: pytest.fail("it read to the end"))
    now = timezone.now()
    token = ArenaRefresh.objects.claim(arena.pk, now, seconds(1))
    assert token
    assert ArenaRefresh.objects.claim(arena.pk, now + seconds(2), seconds(60))
    with pytest.raises(refresh.LeaseLost):
        refresh._refresh(arena.pk, token)


def test_the_lease_of_elo_intervals_grows_with_the_votes() -> None:
    few, many = Snapshot(n_votes=100), Snapshot(n_votes=1_000_000)
    assert elo_intervals.lease(few) < seconds(90)
    assert elo_intervals.lease(many) > seconds(180)
