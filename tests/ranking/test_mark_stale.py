"""What makes the boards of an arena stale, and that no such mark is ever lost."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Import
from arena.signals import announce, votes_changed
from ranking.leaderboard import Leaderboard
from ranking.models import ArenaRefresh, Board, BoardPage, BothBad
from ranking.services import leases, refresh
from tests.ranking.helpers import cast, hidden_import, publish, reveal, seconds

pytestmark = pytest.mark.django_db


@pytest.fixture
def hidden(arena: Arena) -> Import:
    return hidden_import(arena, n_votes=0)


def settle(arena: Arena) -> None:
    publish(arena)
    ArenaRefresh.objects.update(recheck_at=None)


def is_behind(arena: Arena) -> bool:
    now = timezone.now()
    later = now + seconds(3600)
    for moment in (now, later):  # the sweep's own SQL finds the same arenas
        behind = ArenaRefresh.objects.free(moment).behind(moment)
        assert ArenaRefresh.objects.due(moment) == [one.arena_id for one in behind]
    return ArenaRefresh.objects.behind(later).filter(arena=arena).exists()


def test_hidden_votes_are_not_seen_before_they_are_revealed(arena: Arena, hidden: Import) -> None:
    cast(arena, source=hidden, source_row=1)
    settle(arena)
    assert not is_behind(arena)
    reveal(hidden, ago=600)
    assert is_behind(arena)


def test_a_voided_vote_is_nothing_to_look_for(arena: Arena) -> None:
    cast(arena, voided_at=timezone.now() - seconds(3600), void_reason="a mistake")
    settle(arena)
    assert not is_behind(arena)


@pytest.mark.parametrize(("reason", "looks"), [("vote", False), ("import", True), ("void", True)])
def test_reveals_and_voids_mark_an_arena_stale_and_votes_do_not(
    arena: Arena,
    enqueued: list[int],
    django_capture_on_commit_callbacks: Any,
    reason: str,
    looks: bool,
) -> None:
    settle(arena)
    enqueued.clear()
    with django_capture_on_commit_callbacks(execute=True):
        announce(votes_changed, arena_id=arena.pk, reason=reason)
    assert is_behind(arena) == looks
    assert enqueued == [arena.pk]


def test_a_cast_vote_is_announced_without_a_query(
    arena: Arena, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        votes_changed.send(sender=None, arena_id=arena.pk, reason="vote")


def test_votes_revealed_during_a_refresh_reach_the_board(
    arena: Arena, hidden: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast(arena, source=hidden, source_row=1)
    cast(arena)  # a person's vote with a higher id: ids alone cannot tell what is new
    real = refresh.fit_leaderboard

    def reveal_and_answer(*arguments: Any) -> Leaderboard:
        reveal(hidden, ago=600)
        votes_changed.send(sender=None, arena_id=arena.pk, reason="import")
        return real(*arguments)

    monkeypatch.setattr(refresh, "fit_leaderboard", reveal_and_answer)
    assert publish(arena).n_votes == 25
    ArenaRefresh.objects.update(recheck_at=None)
    assert is_behind(arena)
    monkeypatch.undo()
    assert publish(arena).n_votes == 26


def test_a_void_before_a_refresh_that_broke_is_looked_for_again(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    vote = cast(arena)
    settle(arena)
    arena.votes.filter(pk=vote.pk).update(
        voided_at=timezone.now() - seconds(3600), void_reason="a mistake"
    )
    leases.mark_stale(arena_id=arena.pk)
    monkeypatch.setattr(refresh, "fit_leaderboard", lambda *_: 1 / 0)
    publish(arena)
    assert ArenaRefresh.objects.get(arena=arena).problem
    assert is_behind(arena)


def test_a_refresh_that_was_killed_is_done_again(arena: Arena) -> None:
    settle(arena)
    assert not is_behind(arena)
    now = timezone.now() + seconds(60)
    assert ArenaRefresh.objects.claim(arena.pk, now, refresh.LEASE)  # and here the worker dies
    assert not ArenaRefresh.objects.free(now).exists()
    soon = now + seconds(25)
    assert ArenaRefresh.objects.free(soon).behind(soon).filter(arena=arena).exists()


def test_a_board_edited_in_the_admin_is_fitted_again(admin_client: Client, arena: Arena) -> None:
    cast(arena, "both_bad")
    settle(arena)
    admin_client.get("/a/support/")
    assert BoardPage.objects.exists()
    board = Board.objects.get(arena=arena, raters="people", category="")
    form = {
        "arena": arena.pk,
        "raters": "people",
        "category": "",
        "both_bad": BothBad.TIE.value,
        "n_resamples": 1000,
        "seed": 0,
    }
    response = admin_client.post(f"/admin/ranking/board/{board.pk}/change/", form)
    assert response.status_code == 302
    assert is_behind(arena)
    assert not BoardPage.objects.exists()
    assert publish(arena).n_votes == 25


def test_a_hidden_arena_is_left_alone(arena: Arena) -> None:
    publish(arena)
    cast(arena)
    hidden = hidden_import(arena, n_votes=0)
    Arena.objects.filter(pk=arena.pk).update(founded_by=hidden)
    assert not is_behind(arena)
