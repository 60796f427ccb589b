"""Few-shot examples are drawn by seed, evenly over the labels, outside the items tested."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.core.spec import Example, ExampleError, draw_examples

Pool = list[tuple[str, str, Example]]


def pool_of(*labels: str) -> Pool:
    return [(f"item {n}", label, Example(f"Q{n}", ("A",), label)) for n, label in enumerate(labels)]


POOL = pool_of(*["1"] * 20, *["2"] * 3, *["3"] * 20)
pools = st.lists(
    st.tuples(st.sampled_from("abcdefghij"), st.sampled_from(["left", "right", "tie"])), max_size=30
).map(lambda rows: [(key, label, Example(key, ("x", "y"), label)) for key, label in rows])


def test_the_labels_share_evenly_and_a_rare_one_gives_all_it_has() -> None:
    counts = Counter(example.verdict for example in draw_examples(POOL, 13, seed=1))
    assert counts == {"1": 5, "2": 3, "3": 5}


def test_the_seed_decides_who_gets_the_remainder() -> None:
    first = {tuple(e.verdict for e in draw_examples(POOL, 1, seed=seed)) for seed in range(20)}
    assert first == {("1",), ("2",), ("3",)}


def test_another_seed_draws_others_and_the_same_seed_the_same() -> None:
    assert draw_examples(POOL, 6, seed=1) == draw_examples(POOL, 6, seed=1)
    assert draw_examples(POOL, 6, seed=1) != draw_examples(POOL, 6, seed=2)


def test_the_examples_do_not_come_label_by_label() -> None:
    orders = {tuple(e.verdict for e in draw_examples(POOL, 6, seed=seed)) for seed in range(10)}
    assert len(orders) > 5


@pytest.mark.parametrize("n", [-1, 44])
def test_more_than_there_are_is_refused_with_a_sentence(n: int) -> None:
    with pytest.raises(ExampleError, match=f"{n} examples were requested; the pool has 43"):
        draw_examples(POOL, n, seed=1)


@given(pools, st.integers(0, 1000), st.randoms())
def test_draw_takes_an_item_once_and_ignores_pool_order(
    pool: Pool, seed: int, chance: object
) -> None:
    n = min(4, len({key for key, _, _ in pool}))
    drawn = draw_examples(pool, n, seed)
    keys = [example.prompt for example in drawn]
    assert len(keys) == len(set(keys)) == n
    assert set(drawn) <= {example for _, _, example in pool}
    shuffled = list(pool)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert draw_examples(shuffled, n, seed) == drawn


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40), st.data())
def test_no_label_is_two_ahead_of_one_that_has_more_to_give(
    labels: list[str], data: st.DataObject
) -> None:
    n = data.draw(st.integers(0, len(labels)))
    drawn = Counter(example.verdict for example in draw_examples(pool_of(*labels), n, seed="s"))
    for label, available in Counter(labels).items():
        if drawn[label] < available:
            assert all(count <= drawn[label] + 1 for count in drawn.values())
