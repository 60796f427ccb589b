"""Elo as state: checkpoints, and the tail that a voided or a late vote replays."""

from typing import Any

import pytest
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena
from arena.services.voting import void_vote
from ranking.models import Board, EloCheckpoint
from ranking.services import elo as elo_service
from ranking.services import fold as fold_service
from ranking.votes import read_votes
from tests.ranking.helpers import cast, publish
from tests.ranking.tallies import claim

pytestmark = pytest.mark.django_db


# -- Elo as state ------------------------------------------------------------------------------


def elo_of(arena: Arena) -> dict[int, float]:
    return dict(publish(arena).standings.values_list("candidate", "elo"))


def replayed(arena: Arena) -> dict[int, float]:
    board = Board.objects.get(arena=arena, raters="people", category="")
    return elo_service.replay(board=board, until=10**9).by_candidate()


def test_ratings_kept_are_those_of_a_replay(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elo_service, "EVERY", 5)
    for _ in range(3):
        assert elo_of(arena) == replayed(arena)
        cast(arena)
    kept = EloCheckpoint.objects.filter(board__arena=arena, board__category="")
    assert 4 <= kept.count() <= 7


def test_a_voided_vote_replays_the_tail_only(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elo_service, "EVERY", 5)
    elo_of(arena)
    vote = arena.votes.order_by("pk")[17]
    void_vote(vote=vote, by=CLI, reason="a mistake", now=timezone.now())
    read: list[int] = []
    monkeypatch.setattr(
        elo_service, "read_votes", lambda votes, n: _noted(read, read_votes(votes, n))
    )
    token = claim(arena)
    fold_service.fold(arena_id=arena.pk, token=token)
    board = Board.objects.get(arena=arena, raters="people", category="")
    ratings = elo_service.update_ratings(board=board, token=token)
    assert min(read) > arena.votes.order_by("pk")[13].pk
    monkeypatch.undo()
    assert ratings == replayed(arena)


def _noted(read: list[int], votes: Any) -> Any:
    read.extend(votes.pk.tolist())
    return votes


def test_a_late_vote_with_a_smaller_id_is_replayed_in_its_place(arena: Arena) -> None:
    late = cast(arena)
    arena.votes.filter(pk=late.pk).delete()
    cast(arena, "right")
    elo_of(arena)
    late.save(force_insert=True)
    assert elo_of(arena) == replayed(arena)
