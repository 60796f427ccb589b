"""What a rater sees in a session: `sql.NEXT` against the rule as plain Python, and its chances."""

from collections import Counter
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from arena.db.sql import SESSION
from arena.models import Arena, Comparison, PairDemand, Rater
from arena.services import comparisons
from arena.services.comparisons import NOBODY, find_next_pair
from arena.services.pairs import publish_pair_weights
from benchmarks.simulations.draws import Pair, grades
from tests.factories import make_arena, make_person

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def weigh(arena: Arena, weights: list[float]) -> dict[Pair, float]:
    """Give the pairs these weights, over and over."""
    ids = list(arena.pairs.order_by("pk").values_list("low", "high"))
    weighed = {pair: weights[n % len(weights)] for n, pair in enumerate(ids)}
    publish_pair_weights(arena=arena, weights=weighed)
    return weighed


def chances(weights: dict[Pair, float], recent: list[Pair], n_candidates: int) -> dict[Pair, float]:
    broken = grades(list(weights), recent, n_candidates)
    allowed = {
        pair: weight
        for (pair, weight), grade in zip(weights.items(), broken, strict=True)
        if grade == min(broken)
    }
    return {pair: weight / sum(allowed.values()) for pair, weight in allowed.items()}


def show(arena: Arena, rater: Rater, pairs: list[Pair], **fields: Any) -> None:
    """As if these pairs had been drawn for the rater, the latest last."""
    values = {"draw_probability": 0.5, "issued_at": NOW, "expires_at": NOW} | fields
    Comparison.objects.bulk_create(
        Comparison(arena=arena, rater=rater, left_id=high, right_id=low, **values)
        for low, high in pairs
    )


def next_pair(arena: Arena, rater: Rater, also: int = NOBODY) -> tuple[Pair, float]:
    _, _, _, low, high, probability, *_ = find_next_pair(arena, rater, NOW, also)
    return (low, high), probability


@pytest.fixture
def arenas() -> dict[int, Arena]:
    """By the number of candidates."""
    return {n: make_arena(n, 2) for n in (2, 3, 4, 5, 6, 9)}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_the_next_pair_follows_the_rule(arenas: dict[int, Arena], data: st.DataObject) -> None:
    n = data.draw(st.sampled_from(sorted(arenas)))
    arena, rater = arenas[n], make_person()
    weights = weigh(arena, data.draw(st.lists(st.floats(0.1, 9), min_size=1, max_size=5)))
    favoured = st.sampled_from(list(weights)[: data.draw(st.integers(1, 9))])
    shown = data.draw(st.lists(favoured, max_size=SESSION + 5))
    show(arena, rater, shown)
    expected = chances(weights, shown[::-1], n)
    for _ in range(3):
        pair, probability = next_pair(arena, rater)
        assert probability == pytest.approx(expected[pair])
    show(arena, rater, list(weights)[:1] * 9, draw_probability=None)  # a link to one pair
    pair, probability = next_pair(arena, rater)
    assert probability == pytest.approx(expected[pair])


@pytest.mark.parametrize(("often", "is_drawn"), [(18, True), (19, False)])
def test_nobody_is_shown_beyond_twice_their_even_share(often: int, is_drawn: bool) -> None:
    """Of nine candidates, each has on average 9.3 of the places in 42 pairs."""
    arena, rater = make_arena(9, 30), make_person()
    pairs = list(arena.pairs.order_by("pk").values_list("low", "high"))
    first = pairs[0][0]
    with_first = [pair for pair in pairs if first in pair]
    others = [pair for pair in pairs if first not in pair]
    ids = zip(with_first * 3, others, strict=False)
    mixed = [pair for both in ids for pair in both][: 2 * often]
    show(arena, rater, [*others[: SESSION - 2 * often], *mixed, others[-1], others[-8]])
    favoured = {pair: 1e9 if first in pair else 1.0 for pair in pairs}
    publish_pair_weights(arena=arena, weights=favoured)
    assert (first in next_pair(arena, rater)[0]) == is_drawn


def test_a_session_is_shared_by_the_raters_of_a_browser_alone() -> None:
    arena, rater, other = make_arena(3, 5), make_person(), make_person()
    weigh(arena, [1.0, 1e9])
    favoured, _ = next_pair(arena, rater)
    show(arena, other, [favoured])
    assert next_pair(arena, rater)[0] == favoured
    assert next_pair(arena, rater, also=other.pk)[0] != favoured
    elsewhere = make_arena(3, 5)
    show(arena, rater, [favoured])
    show(elsewhere, rater, list(elsewhere.pairs.values_list("low", "high")))
    assert next_pair(arena, rater)[0] != favoured


def test_a_requested_pair_is_exempt() -> None:
    arena, rater = make_arena(6, 5), make_person()
    pair = arena.pairs.earliest("pk")
    show(arena, rater, [(pair.low_id, pair.high_id)] * 3)
    PairDemand.objects.create(arena=arena, pair=pair, remaining=1)
    issued = comparisons.next_comparison(arena=arena, rater=rater, now=NOW)
    assert issued is not None
    assert {issued.left_id, issued.right_id} == {pair.low_id, pair.high_id}


def test_stored_probabilities_are_those_of_what_is_drawn() -> None:
    """10,000 pairs for a visitor, and for a rater in the middle of a session."""
    arena, rater = make_arena(5, 1), make_person()
    weights = weigh(arena, [1.0, 2.0, 3.0, 0.2])
    pairs = list(weights)
    recent = [pairs[4], pairs[1], pairs[0]]
    show(arena, rater, recent[::-1])
    for who, expected in (
        (Rater(pk=NOBODY), chances(weights, [], 5)),
        (rater, chances(weights, recent, 5)),
    ):
        found = Counter(next_pair(arena, who) for _ in range(5000))
        assert {pair for pair, _ in found} <= expected.keys()
        assert all(chance == pytest.approx(expected[pair]) for pair, chance in found)
        drawn = Counter({pair: n for (pair, _), n in found.items()})
        off = sum((drawn[p] - 5000 * e) ** 2 / (5000 * e) for p, e in expected.items())
        assert off < chi2.ppf(1 - 1e-6, len(expected) - 1)
