"""How two groups of raters order the same candidates."""

import pytest
from django.utils import timezone

from arena.models import Arena, Rater, Vote
from ranking.rank_correlation import rank_correlation, scores_of_raters
from ranking.raters import compare_orders
from tests.factories import make_arena, make_person, make_votes

pytestmark = pytest.mark.django_db


def vote(arena: Arena, rater: Rater, order: list[int]) -> None:
    """On each prompt the candidates win by this order, except on every fifth."""
    candidates = list(arena.candidates.order_by("pk"))
    rows = []
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        for i, left in enumerate(candidates):
            for j, right in enumerate(candidates[i + 1 :], start=i + 1):
                wins = (order[i] < order[j]) == bool(number % 5)
                rows.append((left, right, "left" if wins else "right", prompt))
    make_votes(arena, rows, rater)


def test_orders_are_compared_by_scores_and_by_clear_leads() -> None:
    arena, person = make_arena(3, 40), make_person()
    judge = Rater.objects.create(kind="judge", name="strict", created_at=timezone.now())
    vote(arena, person, [0, 1, 2])
    vote(arena, judge, [1, 0, 2])
    votes = Vote.objects.live().filter(arena=arena)
    found = compare_orders(votes.filter(rater=judge), votes.of_people())
    scores = [scores_of_raters(arena=arena, rater_ids=[rater.pk]) for rater in (judge, person)]
    assert found.kendall == pytest.approx(rank_correlation(*scores).kendall) == pytest.approx(1 / 3)
    assert (found.n, found.certain, found.same) == (3, 3, 2)


def test_without_votes_there_is_nothing_to_compare() -> None:
    votes = Vote.objects.live()
    found = compare_orders(votes, votes.of_people())
    assert (found.n, found.kendall, found.certain, found.same) == (0, None, 0, 0)
