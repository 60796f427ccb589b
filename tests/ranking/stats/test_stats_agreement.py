"""Agreement of raters, compared with the published package and the written-out definitions."""

import json
import math
from itertools import combinations

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ranking.stats.agreement import (
    clustered_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    mcnemar,
    nominal_agreement,
)

LEVELS = ["nominal", "ordinal", "interval"]
VALUES = st.sampled_from([1.0, 2.0, 2.5, 7.0, math.nan])
TABLES = st.integers(2, 4).flatmap(
    lambda raters: st.lists(st.lists(VALUES, min_size=raters, max_size=raters), min_size=2)
)
COUNTS = st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=8)


def long_form(table):
    return np.indices(table.shape)[0].ravel(), table.ravel()


@pytest.mark.parametrize("level", LEVELS)
@given(rows=TABLES)
def test_alpha_is_that_of_the_published_package(level, rows):
    table = np.array(rows)
    mine = krippendorff_alpha(*long_form(table), level)
    shared = table[(~np.isnan(table)).sum(axis=1) > 1]
    if len(set(shared[~np.isnan(shared)])) < 2:
        assert math.isnan(mine)
    else:
        published = krippendorff.alpha(table.T, level_of_measurement=level)
        assert mine == pytest.approx(published, abs=1e-9)


def test_interval_alpha_survives_a_far_zero():
    unit = np.repeat(np.arange(4), 2)
    value = np.array([1, 2, 2, 3, 5, 5, 1, 1.5])
    near = krippendorff_alpha(unit, value, "interval")
    assert krippendorff_alpha(unit, value + 2**40, "interval") == pytest.approx(near)


def test_equal_values_leave_alpha_unknown():
    assert math.isnan(krippendorff_alpha([0, 0, 0], [0.1, 0.1, 0.1], "interval"))
    assert math.isnan(krippendorff_alpha([], []))
    assert math.isnan(krippendorff_alpha([0, 1, 2], [1, 2, 3]))


@given(COUNTS)
def test_counts_say_the_same_as_the_votes_they_count(rows):
    counts = np.array(rows)
    unit, value = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    found = nominal_agreement(counts)
    pairs = [value[i] == value[j] for i, j in pairs_within(unit)]
    assert found.n_pairs == len(pairs)
    assert found.share == pytest.approx(np.mean(pairs) if pairs else math.nan, nan_ok=True)
    alpha = krippendorff_alpha(unit, value)
    assert found.alpha == pytest.approx(alpha, abs=1e-12, nan_ok=True)


def pairs_within(unit):
    return [(i, j) for i, j in combinations(range(len(unit)), 2) if unit[i] == unit[j]]


def test_no_units_agree_about_nothing():
    found = nominal_agreement(np.zeros((0, 3), int))
    assert found.n_pairs == 0
    assert math.isnan(found.share)
    assert math.isnan(found.alpha)


def written_out_kappa(a, b):
    observed = np.mean([x == y for x, y in zip(a, b, strict=True)])
    chance = sum(np.mean(a == label) * np.mean(b == label) for label in set(a) | set(b))
    return (observed - chance) / (1 - chance)


def test_kappa_of_a_textbook_table():
    # Fleiss, Levin and Paik 2003, table 18.1: 100 subjects
    table = [[75, 1, 4], [5, 4, 1], [0, 0, 10]]
    a, b = (np.repeat(side.ravel(), np.ravel(table)) for side in np.indices((3, 3)))
    assert clustered_kappa(a, b).value == pytest.approx(0.23 / 0.34)
    assert clustered_kappa(a, a).value == 1


BAD = [
    (lambda: krippendorff_alpha([0, 0], [1, math.inf]), "value must be finite"),
    (lambda: krippendorff_alpha([0], [1, 2]), "unit has 1"),
    (lambda: krippendorff_alpha([0.5, 1], [1, 2]), "unit must hold integers"),
    (lambda: krippendorff_alpha([0, 0], [1, 2], "ratio"), "level must be one of"),
    (lambda: nominal_agreement([1, 2]), "counts must be of shape"),
    (lambda: nominal_agreement([[1, -2]]), "counts must hold non-negative"),
    (lambda: nominal_agreement([[0.5, 1.0]]), "counts must hold non-negative"),
    (lambda: fleiss_kappa([1, 2]), "ratings must be of shape"),
    (lambda: fleiss_kappa([[1, -1]]), "ratings must hold non-negative"),
    (lambda: fleiss_kappa([[0.5, 1.0]]), "ratings must hold non-negative"),
    (lambda: clustered_kappa([1, 2], [1]), "b has 1 entries"),
    (lambda: clustered_kappa([1, 2], [1, 1], [0]), "clusters has 1 entries"),
    (lambda: mcnemar(-1, 2), "must be 0 or more, not -1 and 2"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.data
def test_a_crowd_within_prompt_and_pair(crowd):
    n = len(crowd.names)
    low, high = np.minimum(crowd.left, crowd.right), np.maximum(crowd.left, crowd.right)
    unit = np.unique((crowd.prompt * n + low) * n + high, return_inverse=True)[1]
    counts = np.zeros((unit.max() + 1, 3), int)
    np.add.at(counts, (unit, (2 * crowd.score).astype(int)), 1)  # a pair has fixed sides here
    three_way, decisive = nominal_agreement(counts), nominal_agreement(counts[:, [0, 2]])
    assert (round(three_way.share, 5), three_way.n_pairs) == (0.53223, 15_112)
    assert (round(decisive.share, 5), decisive.n_pairs) == (0.70126, 6_755)
    assert round(three_way.alpha, 4) == 0.2906


@pytest.mark.data
def test_three_runs_of_a_judge(data_dir):
    path = data_dir / "judge-replies" / "vicuna_bench_gpt4_direct.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    scores = np.array([json.loads(line)["gpt4_scores_3_runs"] for line in lines], float)
    alphas = [round(krippendorff_alpha(*long_form(scores), level), 4) for level in LEVELS]
    assert alphas == [0.5822, 0.7234, 0.8075]


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
SMALL_VALUES = st.sampled_from([0.0, 1.0, 2.0, math.nan])


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


@given(st.lists(st.tuples(SMALL_VALUES, SMALL_VALUES, st.integers(0, 9)), min_size=1, max_size=40))
def test_a_clustered_kappa_is_cohens(rows):
    a, b, cluster = np.array(rows).T
    found = clustered_kappa(a, b, cluster.astype(int), n_resamples=50)
    known = ~np.isnan(a + b)
    assert (found.n, found.n_clusters) == (known.sum(), len(set(cluster[known])))
    if len(set(a[known]) | set(b[known])) < 2:
        assert found.value is None
        assert found.reason
    else:
        expected = written_out_kappa(a[known], b[known])
        assert found.value == pytest.approx(expected, abs=1e-12)
        assert (found.low is None) == bool(found.reason)


def test_the_interval_is_as_wide_as_that_of_the_jackknife():
    generator = np.random.default_rng(2)
    a = generator.integers(0, 3, 240)
    b = np.where(generator.random(240) < 0.6, a, generator.integers(0, 3, 240))
    cluster = np.repeat(np.arange(60), 4)
    found = clustered_kappa(a, b, cluster, n_resamples=20_000)
    left_out = [written_out_kappa(a[cluster != i], b[cluster != i]) for i in range(60)]
    error = np.sqrt(59 / 60 * ((left_out - np.mean(left_out)) ** 2).sum())
    assert (found.high - found.low) / 2 == pytest.approx(2.001 * error, rel=0.06)


COUNT = st.integers(0, 200)


@given(COUNT, COUNT)
def test_mcnemar_is_a_binomial_test_of_the_discordant_items(b, c):
    expected = binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert mcnemar(b, c) == pytest.approx(expected, abs=1e-12)
    assert mcnemar(b, c) == mcnemar(c, b)


def test_without_discordant_pairs_mcnemar_gives_one():
    assert mcnemar(0, 0) == 1
    assert mcnemar(0, 8) == pytest.approx(2 / 2**8)
