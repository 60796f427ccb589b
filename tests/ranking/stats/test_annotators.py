"""The alternative annotator test, against its formulas written out."""

import math

import numpy as np
import pytest
from scipy.stats import t

from ranking.stats.agreement import annotator_test


def by_hand(excess: list[float]) -> float:
    """The one-sided t test of a mean of at least 0.1."""
    n, mean = len(excess), sum(excess) / len(excess)
    spread = math.sqrt(sum((value - mean) ** 2 for value in excess) / (n - 1))
    return float(t.cdf((mean - 0.1) / (spread / math.sqrt(n)), n - 1))


def test_it_counts_the_people_over_whom_the_judge_wins() -> None:
    chance = np.random.default_rng(5)
    person = np.repeat([0, 1, 2, 3], [40, 40, 40, 29])  # the last one has too few items
    judge = chance.random(149)
    own = np.where(person == 1, judge + chance.normal(0.5, 0.6, 149), chance.random(149) - 0.4)
    found = annotator_test(person, judge, own)
    p_values, shares = [], []
    for one in range(3):
        ahead = [a >= b for a, b in zip(judge[person == one], own[person == one], strict=True)]
        behind = [b >= a for a, b in zip(judge[person == one], own[person == one], strict=True)]
        p_values.append(by_hand([float(b) - float(a) for a, b in zip(ahead, behind, strict=True)]))
        shares.append(sum(ahead) / 40)
    bounds = [0.05 * rank / (3 * (1 + 1 / 2 + 1 / 3)) for rank in (1, 2, 3)]
    met = [rank for rank in (1, 2, 3) if sorted(p_values)[rank - 1] <= bounds[rank - 1]]
    assert found.n_people == 3
    assert found.winning_rate == pytest.approx(max(met) / 3) == pytest.approx(2 / 3)
    assert found.advantage == pytest.approx(sum(shares) / 3)


@pytest.mark.parametrize(("judge", "rate"), [(1.0, 1.0), (0.0, 0.0)])
def test_a_judge_that_is_always_closer_or_never(judge: float, rate: float) -> None:
    found = annotator_test([7] * 30, [judge] * 30, [0.5] * 30)
    assert (found.winning_rate, found.advantage) == (rate, rate)


def test_an_equal_judge_may_take_a_persons_place() -> None:
    assert annotator_test([1] * 30, [0.4] * 30, [0.4] * 30).winning_rate == 1


def test_with_few_items_nothing_is_tested() -> None:
    found = annotator_test([1] * 29, [1] * 29, [0] * 29)
    assert (found.n_people, found.winning_rate, found.advantage) == (0, None, None)
    assert found.reason == "Nobody labelled at least 30 items that others labelled too."


def test_rows_must_match() -> None:
    with pytest.raises(ValueError, match="the same length"):
        annotator_test([1, 1], [1], [1, 1])
