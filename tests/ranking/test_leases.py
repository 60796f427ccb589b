"""Leases: short, so that a killed worker is missed soon, and renewed, so that a slow one is not."""

from typing import Any

import pytest
from django.utils import timezone

from arena.models import Arena
from ranking.models import ArenaRefresh, Snapshot, Tally
from ranking.services import elo as elo_service
from ranking.services import fit as fit_service
from ranking.services import fold as fold_service
from ranking.services import leases
from ranking.services.evidence import BoardEvidence
from ranking.services.leases import LEASE, RefreshLeaseLostError
from tests.ranking.helpers import publish, seconds

pytestmark = pytest.mark.django_db


def expire(arena: Arena) -> None:
    ArenaRefresh.objects.filter(arena=arena).update(leased_until=timezone.now() - seconds(1))


def test_a_refresh_renews_its_lease_before_each_fit(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, fit = BoardEvidence.digest, fit_service.fit
    left = []

    def slow_digest(*arguments: Any) -> str:
        expire(arena)
        return digest(*arguments)

    def look_and_fit(*arguments: Any) -> fit_service.Scores:
        left.append(ArenaRefresh.objects.get(arena=arena).leased_until - timezone.now())
        return fit(*arguments)

    monkeypatch.setattr(BoardEvidence, "digest", slow_digest)
    monkeypatch.setattr(fit_service, "fit", look_and_fit)
    publish(arena)
    assert len(left) == 3
    assert min(left) > LEASE - seconds(5)


def test_each_step_of_folding_renews_the_lease(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases.open_arena(arena_id=arena.pk)
    monkeypatch.setattr(fold_service, "BATCH", 10)
    now = timezone.now()
    token = ArenaRefresh.objects.claim(arena.pk, now, seconds(1))
    assert token
    assert fold_service.fold(arena_id=arena.pk, token=token) == 24
    assert not ArenaRefresh.objects.free(now + seconds(15)).exists()


def test_a_process_without_the_lease_folds_nothing(arena: Arena) -> None:
    leases.open_arena(arena_id=arena.pk)
    now = timezone.now()
    token = ArenaRefresh.objects.claim(arena.pk, now, seconds(1))
    assert token
    assert ArenaRefresh.objects.claim(arena.pk, now + seconds(2), seconds(60))
    with pytest.raises(RefreshLeaseLostError):
        fold_service.fold(arena_id=arena.pk, token=token)
    assert not Tally.objects.exists()
    assert arena.votes.to_add().count() == 24


def test_the_lease_of_elo_intervals_grows_with_the_votes() -> None:
    few, many = Snapshot(n_votes=100), Snapshot(n_votes=1_000_000)
    assert elo_service.lease(few) < seconds(90)
    assert elo_service.lease(many) > seconds(180)
