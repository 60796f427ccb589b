"""Concurrent refreshes: one of them publishes, and there is one current snapshot per board."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from threading import Barrier

import pytest
from django.db import connection
from django.utils import timezone

from arena.models import Arena
from ranking.models import ArenaRefresh, Board, Snapshot
from ranking.services.refresh import refresh_arena
from tests.factories import make_arena, make_person, make_vote

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
AT_ONCE, ROUNDS = 4, 5


def refresh_at_once(arena: Arena) -> list[list[int]]:
    """Refresh in several threads at the same moment; return what each published."""
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    barrier = Barrier(AT_ONCE)

    def refresh(_: int) -> list[int]:
        barrier.wait()
        try:
            return refresh_arena(arena_id=arena.pk, now=timezone.now())
        finally:
            connection.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(refresh, range(AT_ONCE)))


def test_concurrent_refreshes_leave_one_current_snapshot() -> None:
    arena = make_arena(3, 4)
    prompts = list(arena.prompts.all())
    for number in range(1, ROUNDS + 1):
        for prompt in prompts:
            for left, right in combinations(arena.candidates.order_by("pk"), 2):
                make_vote(arena, left, right, "left", prompt=prompt, rater=make_person())
        published = refresh_at_once(arena)
        assert sum(map(bool, published)) == 1, published
        current = Counter(Snapshot.objects.current().values_list("board", flat=True))
        assert current == dict.fromkeys(Board.objects.values_list("pk", flat=True), 1)
        newest = Snapshot.objects.current().get(board__category="", board__raters="people")
        assert newest.n_votes == number * len(prompts) * 3
    assert not Board.objects.exclude(problem="").exists()
