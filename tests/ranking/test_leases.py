"""Leases: short, so that a killed worker is missed soon, and renewed, so that a slow one is not."""

import time
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Arena
from ranking.leaderboard import Leaderboard
from ranking.log import links
from ranking.models import ArenaRefresh, LogLink, Snapshot
from ranking.services import elo as elo_service
from ranking.services import leases, refresh
from ranking.services.leases import LEASE, RefreshLeaseLostError
from ranking.votes import VoteTable
from tests.ranking.helpers import publish, seconds

pytestmark = pytest.mark.django_db


def expire(arena: Arena) -> None:
    ArenaRefresh.objects.filter(arena=arena).update(leased_until=timezone.now() - seconds(1))


def test_a_refresh_renews_its_lease_before_each_fit(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = refresh.fit_leaderboard
    left = []

    def look_and_answer(*arguments: Any) -> Leaderboard:
        left.append(ArenaRefresh.objects.get(arena=arena).leased_until - timezone.now())
        expire(arena)
        return real(*arguments)

    monkeypatch.setattr(refresh, "fit_leaderboard", look_and_answer)
    publish(arena)
    assert len(left) == 3
    assert min(left) > LEASE - seconds(5)


def test_a_refresh_rests_four_times_as_long_as_it_has_worked(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = refresh.read

    def work_and_read(arena: Arena) -> VoteTable:
        started = time.process_time()
        while time.process_time() - started < 0.5:
            pass
        return real(arena)

    monkeypatch.setattr(refresh, "read", work_and_read)
    publish(arena)
    row = ArenaRefresh.objects.get(arena=arena)
    assert row.not_before - row.finished_at > seconds(2)


def test_each_link_of_the_log_renews_the_lease(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases.open_arena(arena_id=arena.pk)
    monkeypatch.setattr(links, "BATCH", 10)
    now = timezone.now()
    token = ArenaRefresh.objects.claim(arena.pk, now, seconds(1))
    assert token
    links.update(arena_id=arena.pk, token=token)
    assert not ArenaRefresh.objects.free(now + seconds(15)).exists()


def test_a_process_without_the_lease_logs_nothing(arena: Arena) -> None:
    leases.open_arena(arena_id=arena.pk)
    now = timezone.now()
    token = ArenaRefresh.objects.claim(arena.pk, now, seconds(1))
    assert token
    assert ArenaRefresh.objects.claim(arena.pk, now + seconds(2), seconds(60))
    with pytest.raises(RefreshLeaseLostError):
        links.update(arena_id=arena.pk, token=token)
    assert not LogLink.objects.exists()
    assert arena.votes.to_log().count() == 24


def test_the_lease_of_elo_intervals_grows_with_the_votes() -> None:
    few, many = Snapshot(n_votes=100), Snapshot(n_votes=1_000_000)
    assert elo_service.lease([few]) < seconds(90)
    assert elo_service.lease([many]) > seconds(180)
