"""Correlations of scores, against definitions and influences written out."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.stats.agreement import correlation_lift, score_correlations

SCORES = st.sampled_from([1.0, 2.0, 3.0, 4.5])


def written_out_tau_b(x, y):
    pairs = [
        (np.sign(a - c), np.sign(b - d))
        for (a, b), (c, d) in combinations(zip(x, y, strict=True), 2)
    ]
    product = sum(a * b for a, b in pairs)
    return product / np.sqrt(sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs))


def middle_ranks(x):
    return [
        sum(other < value for other in x) + sum(other == value for other in x) / 2 for value in x
    ]


@given(st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=25))
def test_each_correlation_is_its_definition(rows):
    x, y = np.array(rows).T
    found = score_correlations(x, y, n_resamples=20)
    assert found.n == len(x)
    assert found.mean_absolute_error == pytest.approx(np.mean([abs(a - b) for a, b in rows]))
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert (found.pearson.value, found.spearman, found.kendall) == (None, None, None)
        assert "same score" in found.pearson.reason
        return
    assert found.pearson.value == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    ranks = np.corrcoef(middle_ranks(x), middle_ranks(y))[0, 1]
    assert found.spearman == pytest.approx(ranks, abs=1e-9)
    assert found.kendall == pytest.approx(written_out_tau_b(x, y), abs=1e-9)


def test_two_rows_are_enough_for_a_correlation():
    rising, falling = score_correlations([1, 2], [3, 5]), score_correlations([1, 2], [5, 3])
    assert (rising.pearson.value, rising.spearman, rising.kendall) == pytest.approx((1, 1, 1))
    assert (falling.pearson.value, falling.spearman, falling.kendall) == pytest.approx((-1, -1, -1))


def influence(one, other):
    """What each row adds to Pearson's correlation, to first order (Devlin and others 1975)."""
    a, b = ((side - side.mean()) / side.std() for side in (one, other))
    return (a * b - (a * b).mean() * (a * a + b * b) / 2) / len(one)


def error(cluster, influences):
    size = cluster.max() + 1
    return np.sqrt(size / (size - 1) * (np.bincount(cluster, influences) ** 2).sum())


def pearson(a, b):
    return np.corrcoef(a, b)[0, 1]


@pytest.fixture
def scored():
    generator = np.random.default_rng(3)
    cluster = np.repeat(np.arange(80), 3)
    people = generator.normal(size=80)[cluster] + generator.normal(size=240)
    judge = people + generator.normal(size=240)
    length = people + 3 * generator.normal(size=240)
    return cluster, judge, length, people


def test_pearsons_interval_is_as_wide_as_the_textbook_says(scored):
    cluster, judge, _, people = scored
    found = score_correlations(judge, people, cluster, n_resamples=20_000).pearson
    width = 1.99 * error(cluster, influence(judge, people))
    assert found.n_clusters == 80
    assert (found.high - found.low) / 2 == pytest.approx(width, rel=0.06)


def test_lift_is_the_difference_of_two_correlations(scored):
    cluster, judge, length, people = scored
    found = correlation_lift(judge, length, people, cluster, n_resamples=20_000)
    assert found.value == pytest.approx(pearson(judge, people) - pearson(length, people))
    apart = influence(judge, people) - influence(length, people)
    width = 1.99 * error(cluster, apart)
    assert (found.high - found.low) / 2 == pytest.approx(width, rel=0.06)


def test_constant_baseline_or_judge_has_no_correlation(scored):
    cluster, judge, _, people = scored
    constant = np.ones(240)
    flat = correlation_lift(judge, constant, people, cluster)
    assert flat == score_correlations(judge, people, cluster).pearson
    assert correlation_lift(constant, judge, people, cluster).value is None


def test_a_far_zero_and_another_scale_change_nothing(scored):
    cluster, judge, _, people = scored
    near = score_correlations(judge, people, cluster).pearson
    far = score_correlations(judge * 3 + 1e9, people - 1e9, cluster).pearson
    assert (far.value, far.low) == pytest.approx((near.value, near.low), abs=1e-6)


def test_an_unknown_figure_is_none_with_a_reason():
    nothing = score_correlations([], [])
    assert (nothing.n, nothing.mean_absolute_error) == (0, None)
    assert nothing.pearson.reason == "There is nothing to count yet."
    few = score_correlations([1, 2, 3, 5], [1, 2, 4, 3])
    assert few.pearson.low is None
    assert few.pearson.reason.startswith("Fewer than 5")
    perfect = score_correlations(range(20), range(20))
    assert perfect.pearson.value == pytest.approx(1)
    assert "no variation" in perfect.pearson.reason
    assert correlation_lift([], [], []).value is None


BAD = [
    (lambda: score_correlations([1, 2], [1]), "y has 1 entries where 2"),
    (lambda: score_correlations([1, np.nan], [1, 2]), "x must hold finite"),
    (lambda: score_correlations([1, 2], [1, np.inf]), "y must hold finite"),
    (lambda: correlation_lift([1, 2], [1], [1, 2]), "baseline has 1 entries"),
    (lambda: score_correlations([1, 2], [1, 2], [0]), "clusters has 1 entries"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
