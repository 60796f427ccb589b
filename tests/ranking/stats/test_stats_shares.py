"""Shares and their cluster-bootstrap intervals, against formulas written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, t

from ranking.stats.bootstrap import clustered_share, share_difference

ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 8)), min_size=1, max_size=40
)


def linearised_error(success, trials, cluster):
    """The textbook standard error of a ratio of cluster totals, with G / (G - 1)."""
    share = success.sum() / trials.sum()
    residual = np.bincount(cluster, success - share * trials)
    n_clusters = len(residual)
    return np.sqrt(n_clusters / (n_clusters - 1) * (residual**2).sum()) / trials.sum()


def votes(generator, n_clusters, spread=1.0):
    """Clusters that differ in how often they succeed, each of 2 to 9 trials."""
    trials = generator.integers(2, 10, n_clusters)
    chance = generator.beta(4 / spread, 1 / spread, n_clusters)
    return generator.binomial(trials, chance), trials


@given(ROWS)
def test_the_share_is_successes_over_trials_whatever_the_rows(rows):
    a, b, cluster = np.array(rows).T
    success, trials = np.minimum(a, b), b
    found = clustered_share(success, trials, cluster, n_resamples=50)
    used = cluster[trials > 0]
    assert found.n == trials.sum()
    assert found.n_clusters == len(set(used))
    if not found.n:
        assert found.value is None
        assert found.reason == "There is nothing to count yet."
        return
    assert found.value == pytest.approx(success.sum() / trials.sum())
    assert (found.low is None) == bool(found.reason)
    if found.low is not None:
        assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_interval_is_as_wide_as_the_textbook_says():
    success, trials = votes(np.random.default_rng(5), 60)
    found = clustered_share(success, trials, np.arange(60), n_resamples=20_000)
    error = linearised_error(success, trials, np.arange(60))
    assert (found.high - found.low) / 2 == pytest.approx(t.ppf(0.975, 59) * error, rel=0.06)


def test_copies_in_one_cluster_add_no_certainty():
    success, trials = votes(np.random.default_rng(6), 30)
    once = clustered_share(success, trials, np.arange(30))
    copied = clustered_share(
        np.tile(success, 9), np.tile(trials, 9), np.tile(np.arange(30), 9), n_resamples=1000
    )
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high))
    assert copied.n == 9 * once.n


def test_intervals_cover_the_truth_when_prompts_matter():
    generator = np.random.default_rng(7)
    covered = naive = 0
    for _ in range(400):
        success, trials = votes(generator, 40, spread=1.5)
        found = clustered_share(success, trials, n_resamples=200)
        covered += found.low <= 0.8 <= found.high
        share, n = success.sum() / trials.sum(), trials.sum()
        naive += abs(share - 0.8) < 1.96 * np.sqrt(share * (1 - share) / n)
    assert 0.91 <= covered / 400 <= 0.98
    assert naive / 400 < 0.9


def test_interval_depends_little_on_the_seed():
    success, trials = votes(np.random.default_rng(8), 50)
    assert clustered_share(success, trials) == clustered_share(success, trials)
    other = clustered_share(success, trials, seed=1)
    assert other != clustered_share(success, trials)
    assert other.low == pytest.approx(clustered_share(success, trials).low, abs=0.02)


@pytest.mark.parametrize("n_clusters", [5, 20, 300])
def test_without_one_failure_the_bound_is_the_exact_binomial_one(n_clusters):
    exact = binomtest(n_clusters, n_clusters).proportion_ci(0.95, "exact")
    found = clustered_share(np.full(n_clusters, 3), np.full(n_clusters, 3))
    assert (found.low, found.high) == pytest.approx((exact.low, 1))
    mirrored = clustered_share(np.zeros(n_clusters))
    assert (mirrored.low, mirrored.high) == pytest.approx((0, 1 - exact.low))


def test_few_clusters_and_clusters_that_agree_have_no_interval():
    few = clustered_share([1, 0, 1, 1])
    assert (few.value, few.low, few.high) == (0.75, None, None)
    assert few.reason == "Fewer than 5 independent groups of votes so far."
    level = clustered_share([1] * 6, [2] * 6)
    assert (level.value, level.low) == (0.5, None)
    assert "no variation" in level.reason


def test_paired_difference_is_narrower_than_two_shares():
    generator = np.random.default_rng(9)
    hard = generator.random(200)
    first = (generator.random(200) * 0.2 + hard < 0.9).astype(float)
    second = (generator.random(200) * 0.2 + hard < 0.8).astype(float)
    apart = share_difference(first, second)
    one, other = clustered_share(first), clustered_share(second)
    assert apart.value == pytest.approx(one.value - other.value)
    assert apart.high - apart.low < one.high - one.low
    turned = share_difference(second, first)
    assert (turned.low, turned.high) == pytest.approx((-apart.high, -apart.low))


def test_a_difference_has_the_error_of_the_rows_differences():
    generator = np.random.default_rng(10)
    first, second = generator.integers(0, 2, (2, 150))
    cluster = np.repeat(np.arange(50), 3)
    found = share_difference(first, second, None, cluster, n_resamples=20_000)
    error = linearised_error(first - second, np.ones(150), cluster)
    assert (found.high - found.low) / 2 == pytest.approx(t.ppf(0.975, 49) * error, rel=0.06)


def test_always_better_has_a_bound_and_always_equal_has_none():
    always = share_difference(np.ones(30), np.zeros(30))
    assert (always.value, always.high) == (1, 1)
    assert always.low == pytest.approx(2 * 0.025 ** (1 / 30) - 1)
    equal = share_difference(np.ones(30), np.ones(30))
    assert (equal.value, equal.low) == (0, None)
    assert "no variation" in equal.reason


def test_without_trials_there_is_no_share():
    assert share_difference([], []).value is None
    assert clustered_share([0, 0], [0, 0]).n == 0


BAD = [
    (lambda: clustered_share([2.0]), "successes must be from 0 to"),
    (lambda: clustered_share([np.nan]), "successes must be from 0 to"),
    (lambda: clustered_share([1], [-1]), "trials must be 0 or more"),
    (lambda: clustered_share([1], [1, 2]), "trials has 2 entries where 1 are expected"),
    (lambda: clustered_share([1, 1], None, [0]), "clusters has 1 entries where 2"),
    (lambda: clustered_share([1, 1], None, [0.5, 1]), "clusters must hold integers"),
    (lambda: share_difference([1], [1, 0]), "second has 2 entries"),
    (lambda: share_difference([1], [3]), "second must be from 0 to"),
    (lambda: clustered_share([1], level=1.0), "confidence must be between"),
    (lambda: clustered_share([], n_resamples=1), "n_resamples must be at least 2"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
