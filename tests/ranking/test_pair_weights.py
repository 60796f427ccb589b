"""What a board knows about its pairs, for orders of votes."""

import random
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from arena.models import Arena, Candidate, Rater
from ranking.services.pair_weights import PairFacts, pair_facts
from tests.factories import make_arena, make_vote
from tests.ranking.helpers import fill, make_voted_arena, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena(db: None) -> Arena:
    """Three candidates, four prompts in two categories, 24 votes of one person."""
    return make_voted_arena(n_prompts=4, rounds=2)


def ladder(n_candidates: int = 5, each: int = 40) -> Arena:
    """All candidates meet; the earlier one wins, the more often the further apart they are."""
    arena = make_arena(n_candidates, 50)
    candidates = list(arena.candidates.order_by("pk"))
    prompts = list(arena.prompts.order_by("pk"))
    chance = random.Random(4)
    for i, j in combinations(range(n_candidates), 2):
        share = 1 / (1 + np.exp(-0.3 * (j - i)))
        for _ in range(each):
            won = "left" if chance.random() < share else "right"
            make_vote(arena, candidates[i], candidates[j], won, chance.choice(prompts))
    return arena


def test_neighbours_follow_the_board() -> None:
    arena = ladder(3)
    snapshot = publish(arena)
    order = list(snapshot.standings.order_by("rank").values_list("candidate", flat=True))
    pairs = [tuple(sorted(pair)) for pair in pairwise(order)]
    assert pair_facts(arena=arena, raters="people").neighbours == set(pairs)


def test_those_with_few_votes_or_without_a_score_are_fresh() -> None:
    arena = ladder(3)
    newcomer = Candidate.objects.create(arena=arena, name="newcomer")
    retired = Candidate.objects.create(arena=arena, name="gone", retired_at="2026-01-01T00:00Z")
    undefeated = Candidate.objects.create(arena=arena, name="undefeated")
    first = arena.candidates.order_by("pk")[0]
    for prompt in arena.prompts.all():
        make_vote(arena, undefeated, first, "left", prompt)
    publish(arena)
    facts = pair_facts(arena=arena, raters="people")
    assert facts.fresh == {newcomer.pk, undefeated.pk}
    assert retired.pk not in facts.fresh


def test_a_few_votes_leave_a_candidate_fresh(arena: Arena) -> None:
    publish(arena)
    assert len(pair_facts(arena=arena, raters="people").fresh) == 3  # 16 votes each
    fill(arena)
    publish(arena)
    assert pair_facts(arena=arena, raters="people").fresh == frozenset()


def test_judges_have_facts_of_their_own(arena: Arena, judge: Rater) -> None:
    everybody = frozenset(arena.candidates.values_list("pk", flat=True))
    assert pair_facts(arena=arena) == PairFacts(fresh=everybody)
    publish(arena)
    assert pair_facts(arena=arena) == PairFacts(fresh=everybody)
    fill(arena, rater=judge)
    fill(arena, rater=judge)
    publish(arena)
    facts = pair_facts(arena=arena)
    assert facts.fresh == frozenset()


def test_unknown_raters_are_named() -> None:
    with pytest.raises(ValueError, match="raters must be one of people, verified, judges, juries"):
        pair_facts(arena=Arena(), raters="robots")


def test_it_takes_three_queries_at_most(
    arena: Arena, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    publish(arena)
    with django_assert_max_num_queries(3):
        pair_facts(arena=arena, raters="people")
