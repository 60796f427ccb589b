"""The clock was a year ahead for seconds, or was set back by an hour: boards continue at once."""

from datetime import timedelta

import pytest
from django.utils import timezone

from arena.models import Arena
from ranking.models import ArenaRefresh, Snapshot
from ranking.services import elo, leases, refresh
from tests.ranking.helpers import cast, fill, publish, seconds

pytestmark = pytest.mark.django_db
jumped = pytest.mark.parametrize("ahead", [timedelta(days=365), timedelta(hours=1)])


def free(arena: Arena) -> bool:
    return ArenaRefresh.objects.free(timezone.now()).filter(arena=arena).exists()


@jumped
def test_the_lease_of_a_refresh_and_the_pause_after_it_are_over(
    arena: Arena, ahead: timedelta
) -> None:
    leases.open_arena(arena_id=arena.pk)
    then = timezone.now() + ahead
    for field in ("leased_until", "not_before"):
        ArenaRefresh.objects.update(**{field: then + seconds(20)})
        assert free(arena)
        ArenaRefresh.objects.update(**{field: timezone.now() + seconds(20)})
        assert not free(arena)
        ArenaRefresh.objects.update(**{field: None})
        assert free(arena)


@jumped
def test_a_board_published_meanwhile_is_published_again(arena: Arena, ahead: timedelta) -> None:
    fill(arena)
    then = timezone.now() + ahead
    publish(arena)
    Snapshot.objects.update(published_at=then, measured_at=then, measured_seconds=10.0)
    ArenaRefresh.objects.update(not_before=then + seconds(15), finished_at=then)
    cast(arena)
    assert refresh.refresh_arena(arena_id=arena.pk, now=timezone.now())
    newest = Snapshot.objects.current().get(board__raters="people", board__category="")
    assert newest.measured_votes == newest.n_votes
    assert newest.measured_at is not None
    assert newest.measured_at < timezone.now() + seconds(1)
    assert newest.is_history


@jumped
def test_intervals_postponed_meanwhile_are_computed(arena: Arena, ahead: timedelta) -> None:
    fill(arena)
    publish(arena)
    cast(arena)
    now = timezone.now()
    while refresh.refresh_arena(arena_id=arena.pk, now=now + timedelta(minutes=2)):
        pass
    row = ArenaRefresh.objects.filter(arena=arena)
    row.update(is_stale=False, recheck_at=now + ahead + seconds(60), finished_at=now + ahead)
    assert ArenaRefresh.objects.behind(now).filter(arena=arena).exists()
    row.update(recheck_at=now + seconds(60), finished_at=now)
    assert not ArenaRefresh.objects.behind(now).filter(arena=arena).exists()


def test_intervals_that_took_long_stay_postponed(arena: Arena) -> None:
    fill(arena)
    snapshot = publish(arena)
    now = timezone.now()
    snapshot.measured_at, snapshot.measured_seconds = now, 3600.0
    assert snapshot.intervals_due_at == now + timedelta(hours=10)


@jumped
def test_elo_intervals_claimed_meanwhile_are_computed(arena: Arena, ahead: timedelta) -> None:
    fill(arena)
    snapshot = publish(arena)
    now = timezone.now()
    Snapshot.objects.update(elo_claimed_until=now + ahead + elo.lease([snapshot]))
    assert elo.arenas_without_intervals(now) == [arena.pk]
    Snapshot.objects.update(elo_claimed_until=now + elo.lease([snapshot]))
    assert elo.arenas_without_intervals(now) == []
