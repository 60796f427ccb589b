"""Agreement of raters, against the published package and the definitions written out."""

import json
import math
from itertools import combinations

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.stats.agreement import cohen_kappa, krippendorff_alpha, nominal_agreement

LEVELS = ["nominal", "ordinal", "interval"]
VALUES = st.sampled_from([1.0, 2.0, 2.5, 7.0, math.nan])
TABLES = st.integers(2, 4).flatmap(
    lambda raters: st.lists(st.lists(VALUES, min_size=raters, max_size=raters), min_size=2)
)
COUNTS = st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=8)


def long_form(table):
    unit, rater = np.indices(table.shape)
    return unit.ravel(), rater.ravel(), table.ravel()


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
    near = krippendorff_alpha(unit, None, value, "interval")
    assert krippendorff_alpha(unit, None, value + 2**40, "interval") == pytest.approx(near)


def test_equal_values_leave_alpha_unknown_whatever_their_rounding():
    assert math.isnan(krippendorff_alpha([0, 0, 0], None, [0.1, 0.1, 0.1], "interval"))
    assert math.isnan(krippendorff_alpha([], None, []))
    assert math.isnan(krippendorff_alpha([0, 1, 2], None, [1, 2, 3]))


@given(COUNTS)
def test_counts_say_the_same_as_the_votes_they_count(rows):
    counts = np.array(rows)
    unit, value = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    found = nominal_agreement(counts)
    pairs = [value[i] == value[j] for i, j in pairs_within(unit)]
    assert found.n_pairs == len(pairs)
    assert found.share == pytest.approx(np.mean(pairs) if pairs else math.nan, nan_ok=True)
    alpha = krippendorff_alpha(unit, None, value)
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


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1))
def test_kappa_is_its_definition(rows):
    a, b = np.array(rows).T
    known = ~np.isnan(a + b)
    if len(set(a[known]) | set(b[known])) < 2:
        assert math.isnan(cohen_kappa(a, b))
    else:
        expected = written_out_kappa(a[known], b[known])
        assert cohen_kappa(a, b) == pytest.approx(expected, abs=1e-12)


def test_kappa_of_a_textbook_table():
    # Fleiss, Levin and Paik 2003, table 18.1: 100 subjects
    table = [[75, 1, 4], [5, 4, 1], [0, 0, 10]]
    a, b = (np.repeat(side.ravel(), np.ravel(table)) for side in np.indices((3, 3)))
    assert cohen_kappa(a, b) == pytest.approx(0.23 / 0.34)
    assert cohen_kappa(a, a) == 1


BAD = [
    (lambda: krippendorff_alpha([0, 0], None, [1, math.inf]), "value must be finite"),
    (lambda: krippendorff_alpha([0], None, [1, 2]), "unit has 1"),
    (lambda: krippendorff_alpha([0.5, 1], None, [1, 2]), "unit must hold integers"),
    (lambda: krippendorff_alpha([0, 0], [3, 3], [1, 2]), "rater must not hold the same"),
    (lambda: krippendorff_alpha([0, 0], [3], [1, 2]), "rater has 1"),
    (lambda: krippendorff_alpha([0, 0], None, [1, 2], "ratio"), "level must be one of"),
    (lambda: cohen_kappa([1, 2], [1]), "b has 1"),
    (lambda: cohen_kappa(["x"], [1]), "a must hold numbers"),
    (lambda: nominal_agreement([1, 2]), "counts must be of shape"),
    (lambda: nominal_agreement([[1, -2]]), "counts must hold integers"),
    (lambda: nominal_agreement([[0.5, 1.0]]), "counts must hold integers"),
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
