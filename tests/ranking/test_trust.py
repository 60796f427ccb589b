"""Trust in judges and juries: the refresh after a change follows it, and no change is lost."""

from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from arena.models import Arena, Rater
from arena.services.raters import set_arena_trust
from ranking.models import ArenaRefresh, Snapshot
from tests.ranking.helpers import cast, make_judged_arena, publish, seconds, set_trusted

pytestmark = pytest.mark.django_db


def is_behind(arena: Arena) -> bool:
    """Whether the sweep would enqueue the arena."""
    now = timezone.now() + seconds(60)
    return ArenaRefresh.objects.behind(now).filter(arena=arena).exists()


def settle(arena: Arena) -> None:
    publish(arena)
    ArenaRefresh.objects.update(recheck_at=None)
    assert not is_behind(arena)


def trusted_by(arena: Arena) -> list[str]:
    """The judges and juries that the combined leaderboard trusts, once it is refreshed."""
    settle(arena)
    combined = Snapshot.objects.current().filter(board__arena=arena, board__raters="combined")
    names = [
        found["combined"].get("names", []) for found in combined.values_list("findings", flat=True)
    ]
    return sorted({name for some in names for name in some})


def test_trust_as_measured_in_an_arena_takes_precedence(judge: Rater) -> None:
    arena = make_judged_arena(judge)
    assert trusted_by(arena) == []
    set_trusted(judge)
    assert trusted_by(arena) == [judge.name]
    own: dict[str, Any] = {"rater_id": judge.pk, "arena_id": arena.pk}
    assert set_arena_trust(**own, trusted=False, now=timezone.now())
    assert trusted_by(arena) == []
    set_trusted(judge, False)
    for trusted, names in [(True, [judge.name]), (None, [])]:
        assert set_arena_trust(**own, trusted=trusted, now=timezone.now())
        assert not set_arena_trust(**own, trusted=trusted, now=timezone.now())
        assert trusted_by(arena) == names


@pytest.mark.parametrize("in_one_arena", [False, True])
def test_a_change_is_not_lost_by_a_process_killed_right_after_its_commit(
    arena: Arena, judge: Rater, in_one_arena: bool, enqueued: list[int]
) -> None:
    """Nothing that runs after the commit runs in this test; the sweep finds the arena anyway."""
    cast(arena, rater=judge)
    settle(arena)

    def change() -> None:
        now = timezone.now()
        if in_one_arena:
            set_arena_trust(rater_id=judge.pk, arena_id=arena.pk, trusted=True, now=now)
        else:
            set_trusted(judge)

    with transaction.atomic():
        change()
        transaction.set_rollback(True)
    assert not is_behind(arena)
    change()
    assert enqueued == []
    assert is_behind(arena)


def test_a_change_queues_a_refresh_after_its_commit(
    arena: Arena, judge: Rater, enqueued: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    cast(arena, rater=judge)
    with django_capture_on_commit_callbacks(execute=True):
        set_trusted(judge)
        assert enqueued == []
    assert enqueued == [arena.pk]


def test_trust_elsewhere_concerns_nobody_here(arena: Arena, judge: Rater) -> None:
    settle(arena)
    set_trusted(judge)
    assert not is_behind(arena)
