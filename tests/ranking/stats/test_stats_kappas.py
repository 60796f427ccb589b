"""Kappas of juries and of two raters, against published tables and other formulas."""

import math

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.stats.agreement import clustered_kappa, cohen_kappa, fleiss_kappa

# 14 raters, 10 items, 5 categories: the worked example of the encyclopedias, kappa 0.210
TEXTBOOK = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
VALUES = st.sampled_from([0.0, 1.0, 2.0, math.nan])


def test_a_textbook_jury():
    assert fleiss_kappa(TEXTBOOK) == pytest.approx(0.210, abs=0.0005)


@given(st.integers(2, 4), st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=2))
def test_a_jury_of_equal_size_follows_from_krippendorffs_alpha(size, rows):
    said = np.array(rows)[:, :size]
    counts = np.stack([(said == label).sum(axis=1) for label in range(3)], axis=1)
    found = fleiss_kappa(counts)
    if len(np.unique(said)) < 2:
        assert math.isnan(found)
        return
    alpha = krippendorff.alpha(said.T.astype(float), level_of_measurement="nominal")
    # (1 - alpha) / (1 - kappa) = (N - 1) / N for N ratings in all
    assert 1 - found == pytest.approx((1 - alpha) * said.size / (said.size - 1))


def test_missing_members_are_left_out_and_lone_ones_say_nothing():
    counts = [[2, 0], [2, 1], [0, 2]]
    # agreement: 1, 1/3 and 1, an item each; chance: 4 of 7 and 3 of 7 ratings
    chance = (4 / 7) ** 2 + (3 / 7) ** 2
    expected = ((1 + 1 / 3 + 1) / 3 - chance) / (1 - chance)
    assert fleiss_kappa(counts) == pytest.approx(expected)
    assert fleiss_kappa([*counts, [1, 0], [0, 0]]) == fleiss_kappa(counts)


def test_one_same_answer_leaves_kappa_unknown():
    assert math.isnan(fleiss_kappa([[3, 0], [3, 0]]))
    assert math.isnan(fleiss_kappa(np.zeros((0, 2), int)))
    assert math.isnan(fleiss_kappa([[1, 0], [0, 1]]))


@given(st.lists(st.tuples(VALUES, VALUES, st.integers(0, 9)), min_size=1, max_size=40))
def test_a_clustered_kappa_is_cohens(rows):
    a, b, cluster = np.array(rows).T
    found = clustered_kappa(a, b, cluster.astype(int), n_resamples=50)
    plain = cohen_kappa(a, b)
    known = ~np.isnan(a + b)
    assert (found.n, found.n_clusters) == (known.sum(), len(set(cluster[known])))
    if math.isnan(plain):
        assert found.value is None
        assert found.reason
    else:
        assert found.value == pytest.approx(plain, abs=1e-12)
        assert (found.low is None) == bool(found.reason)


def test_the_interval_is_as_wide_as_that_of_the_jackknife():
    generator = np.random.default_rng(2)
    a = generator.integers(0, 3, 240)
    b = np.where(generator.random(240) < 0.6, a, generator.integers(0, 3, 240))
    cluster = np.repeat(np.arange(60), 4)
    found = clustered_kappa(a, b, cluster, n_resamples=20_000)
    left_out = [cohen_kappa(a[cluster != i], b[cluster != i]) for i in range(60)]
    error = np.sqrt(59 / 60 * ((left_out - np.mean(left_out)) ** 2).sum())
    assert (found.high - found.low) / 2 == pytest.approx(2.001 * error, rel=0.06)


BAD = [
    (lambda: fleiss_kappa([1, 2]), "ratings must be of shape"),
    (lambda: fleiss_kappa([[1, -1]]), "ratings must hold integers"),
    (lambda: fleiss_kappa([[0.5, 1.0]]), "ratings must hold integers"),
    (lambda: clustered_kappa([1, 2], [1]), "b has 1 entries"),
    (lambda: clustered_kappa([1, 2], [1, 1], [0]), "clusters has 1 entries"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
