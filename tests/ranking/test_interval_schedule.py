"""Intervals computed less often than scores, and failing findings: no score waits for them."""

from typing import Any

import pytest
from django.db.models import Q
from django.utils import timezone

from arena.models import Arena
from arena.services.pairs import sync_pairs
from ranking import findings, leaderboard
from ranking.models import ArenaRefresh, Snapshot, boards
from ranking.services import refresh
from ranking.stats.bradley_terry import NotConvergedError
from tests.factories import make_arena, make_vote, void_vote
from tests.ranking.helpers import cast, fill, publish, seconds

pytestmark = pytest.mark.django_db


def test_borrowed_intervals_say_which_votes_they_cover(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = publish(arena)
    widths = {s.candidate_id: (s.score - s.low, s.high - s.score) for s in first.standings.all()}
    monkeypatch.setattr(boards, "QUICK_SECONDS", 0.0)
    Snapshot.objects.update(measured_seconds=60.0)
    cast(arena)
    second = publish(arena)
    assert (second.n_votes, second.measured_votes) == (25, 24)
    assert second.measured_digest == first.digest
    for s in second.standings.all():
        assert (s.score - s.low, s.high - s.score) == pytest.approx(widths[s.candidate_id])
    later = ArenaRefresh.objects.get(arena=arena).recheck_at
    assert later
    assert ArenaRefresh.objects.behind(later).filter(arena=arena).exists()
    assert publish(arena).pk == second.pk  # not due yet
    Snapshot.objects.update(measured_at=timezone.now() - seconds(3600))
    third = publish(arena)
    assert (third.n_votes, third.measured_votes) == (25, 25)
    assert ArenaRefresh.objects.get(arena=arena).recheck_at is None


def test_a_newcomer_has_no_interval_until_they_are_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arena = make_arena(n_candidates=3)
    fill(arena)
    publish(arena)
    monkeypatch.setattr(boards, "QUICK_SECONDS", 0.0)
    Snapshot.objects.update(measured_seconds=60.0)
    newcomer = arena.candidates.create(name="newcomer")
    old = arena.candidates.order_by("pk")[0]
    make_vote(arena, newcomer, old, "left", arena.prompts.first())
    make_vote(arena, old, newcomer, "left", arena.prompts.first())
    standing = publish(arena).standings.get(candidate=newcomer)
    assert standing.score
    assert (standing.low, standing.rank_low) == (None, None)


def test_refreshing_an_arena_that_is_gone_does_nothing() -> None:
    assert refresh.refresh_arena(arena_id=0, now=timezone.now()) == []


def test_failing_intervals_are_retried_rarely(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(arena)
    monkeypatch.setattr(boards, "QUICK_SECONDS", 0.0)
    Snapshot.objects.update(measured_seconds=60.0)
    cast(arena)
    publish(arena)
    Snapshot.objects.update(measured_at=timezone.now() - seconds(3600))

    def fail(*_: Any) -> None:
        raise NotConvergedError("no maximum")

    monkeypatch.setattr(leaderboard, "measure", fail)
    publish(arena)
    assert ArenaRefresh.objects.get(arena=arena).recheck_at > timezone.now() + seconds(5)


def test_no_score_waits_for_a_finding(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unsettled:
        def __init__(self, **_: Any) -> None: ...

        def fit(self, *_: Any, **__: Any) -> None:
            raise NotConvergedError("no maximum")

    monkeypatch.setattr(findings, "StyledBradleyTerry", Unsettled)
    snapshot = publish(arena)
    assert snapshot.n_votes == 24
    assert snapshot.findings["style"] is None


def test_borrowed_intervals_may_name_somebody_who_has_left(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(arena)
    monkeypatch.setattr(boards, "QUICK_SECONDS", 0.0)
    Snapshot.objects.update(measured_seconds=60.0)
    gone = arena.candidates.order_by("-pk")[0]
    for vote in arena.votes.filter(Q(comparison__left=gone) | Q(comparison__right=gone)):
        void_vote(vote)
    arena.candidates.filter(pk=gone.pk).update(retired_at=timezone.now())
    sync_pairs(arena=arena)
    cast(arena, "right")
    snapshot = publish(arena)
    assert ArenaRefresh.objects.get(arena=arena).problem == ""
    assert snapshot.n_votes == 9
    for standing in snapshot.standings.all():
        assert standing.rank_low <= standing.rank <= standing.rank_high <= 2
