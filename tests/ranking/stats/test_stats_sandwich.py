"""The sandwich, against the formula written out vote by vote."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.stats import sandwich as module
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.intervals import NoInterval
from ranking.stats.sandwich import Sandwich, TwoWaySandwich
from tests.ranking.stats.helpers import SOFT, votes


def weighted_votes(n=300):
    rng = np.random.default_rng(2)
    left = rng.integers(0, 5, n)
    right = (left + rng.integers(1, 5, n)) % 5
    weight = rng.integers(1, 3, n)
    return left, right, rng.choice([0, 0.2, 0.5, 1], n), weight, rng.integers(0, 30, n)


def written_out(left, right, score, weight, cluster):
    model = BradleyTerry().fit(Battles.from_arrays(left, right, score, weight))
    contrast = np.eye(5)[left] - np.eye(5)[right]
    p = 1 / (1 + np.exp(-contrast @ model.theta_))
    bread = np.linalg.pinv((contrast.T * (weight * p * (1 - p))) @ contrast)
    each = contrast * (weight * (score - p))[:, None]
    groups = [each[cluster == g].sum(axis=0) for g in np.unique(cluster)]
    meat = sum(np.outer(u, u) for u in groups)
    return bread @ meat @ bread * len(groups) / (len(groups) - 1)


def test_clusters_are_summed_before_they_are_squared(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)  # so that the blocks of clusters must add up
    votes = weighted_votes()
    fit = Sandwich().fit(Battles.from_arrays(*votes))
    assert fit.covariance_ == pytest.approx(written_out(*votes), rel=1e-8, abs=1e-12)
    assert fit.n_clusters_ == 30


def test_without_clusters_each_vote_is_its_own():
    left, right, score, weight, _ = weighted_votes()
    fit = Sandwich().fit(Battles.from_arrays(left, right, score, weight))
    expected = written_out(left, right, score, weight, np.arange(len(left)))
    assert fit.covariance_ == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_the_interval_is_t_quantiles_wide():
    fit = Sandwich().fit(Battles.from_arrays(*weighted_votes()))
    t = 2.045230  # 29 degrees of freedom
    assert fit.high_ - fit.ratings_ == pytest.approx(t * fit.standard_errors_, rel=1e-6)
    assert fit.ratings_ - fit.low_ == pytest.approx(t * fit.standard_errors_, rel=1e-6)


def test_errors_with_an_anchor_are_those_of_the_difference_to_it():
    fit = Sandwich(model=BradleyTerry(anchor=1)).fit(Battles.from_arrays(*weighted_votes()))
    c = fit.covariance_
    assert np.isnan(fit.standard_errors_[1])
    assert fit.standard_errors_[3] == pytest.approx(
        (c[3, 3] + c[1, 1] - 2 * c[1, 3]) ** 0.5 * 400 / np.log(10)
    )


# -- Clustered two ways ----------------------------------------------------------------------------


def crossed_votes(n=300, n_prompts=30, n_raters=12):
    rng = np.random.default_rng(2)
    left = rng.integers(0, 5, n)
    right = (left + rng.integers(1, 5, n)) % 5
    prompt, rater = rng.integers(0, n_prompts, n) * 7 - 9, rng.integers(0, n_raters, n)
    return left, right, rng.choice([0, 0.2, 0.5, 1], n), prompt, rater


def one_way(left, right, score, weight, keys):
    model = BradleyTerry().fit(Battles.from_arrays(left, right, score, weight))
    contrast = np.eye(5)[left] - np.eye(5)[right]
    p = 1 / (1 + np.exp(-contrast @ model.theta_))
    # One direction is null but for rounding, which must not be inverted on any machine.
    bread = np.linalg.pinv((contrast.T * (weight * p * (1 - p))) @ contrast, rcond=1e-10)
    each = contrast * (weight * (score - p))[:, None]
    groups = {}
    for key, row, counts in zip(keys, each, weight > 0, strict=True):
        if counts:
            groups[key] = groups.get(key, 0) + row
    meat = sum(np.outer(u, u) for u in groups.values())
    return bread @ meat @ bread * len(groups) / (len(groups) - 1)


@pytest.mark.parametrize("dropped", [0, 40])
def test_it_is_both_ways_less_what_was_counted_twice(dropped):
    left, right, score, prompt, rater = crossed_votes(900)
    weight = np.random.default_rng(3).integers(1, 3, 900)
    weight[:dropped] = 0
    pairs = list(zip(prompt.tolist(), rater.tolist(), strict=True))
    a, b, ab = (one_way(left, right, score, weight, keys) for keys in (prompt, rater, pairs))
    expected = a + b - ab
    assert np.linalg.eigvalsh(expected).min() > -1e-15
    fit = TwoWaySandwich().fit(left, right, score, prompt, rater, weight)
    assert fit.covariance_ == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert fit.n_clusters_ == 12
    t = 2.200985  # 11 degrees of freedom
    assert fit.high_ - fit.low_ == pytest.approx(2 * t * fit.standard_errors_, rel=1e-6)


def test_negative_eigenvalues_become_zero():
    # Every prompt's votes differ by rater in a pattern that a sum over both ways overcorrects.
    rng = np.random.default_rng(0)
    negative = 0
    for _ in range(20):
        left = rng.integers(0, 5, 60)
        right = (left + rng.integers(1, 5, 60)) % 5
        score = rng.choice([0, 0.5, 1], 60)
        a, b = rng.integers(0, 6, 60), rng.integers(0, 6, 60)
        fit = TwoWaySandwich().fit(left, right, score, a, b)
        if not fit.model_.ranked_.all():
            continue
        ones = np.ones(60)
        plain = one_way(left, right, score, ones, a) + one_way(left, right, score, ones, b)
        plain -= one_way(left, right, score, ones, list(zip(a.tolist(), b.tolist(), strict=True)))
        values, vectors = np.linalg.eigh(plain)
        negative += values[0] < -1e-6
        assert np.linalg.eigvalsh(fit.covariance_).min() > -1e-12
        floored = (vectors * values.clip(min=0)) @ vectors.T
        assert fit.covariance_ == pytest.approx(floored, rel=1e-7, abs=1e-9)
    assert negative


def test_a_second_way_within_the_first_adds_nothing():
    left, right, score, prompt, _ = crossed_votes()
    one = Sandwich().fit(Battles.from_arrays(left, right, score, cluster=prompt))
    within = prompt * 10 + np.arange(300) % 3  # every one of these has one prompt
    for second in (within, np.arange(300), prompt):
        two = TwoWaySandwich().fit(left, right, score, prompt, second)
        assert two.covariance_ == pytest.approx(one.covariance_, rel=1e-9, abs=1e-14)
        assert two.low_ == pytest.approx(one.low_)


def test_intervals_cover_when_prompts_and_raters_matter():
    strengths = np.linspace(0.6, -0.6, 6)
    first, second = np.triu_indices(6, 1)
    swing = np.random.default_rng(0).normal(size=100_000)  # of variance 2 (1/4 + 1/4), as below
    gap = strengths[first] - strengths[second]
    seen = (1 / (1 + np.exp(-gap[:, None] - swing))).mean(axis=1)
    truth = BradleyTerry().fit(Battles.from_arrays(first, second, seen)).ratings_
    covered = {"two": [], "vote": []}
    for seed in range(120):
        rng = np.random.default_rng(seed)
        by_prompt, by_rater = rng.normal(size=(2, 60, 6)) * 0.5
        left = rng.integers(0, 6, 3000)
        right = (left + rng.integers(1, 6, 3000)) % 6
        prompt, rater = rng.integers(0, 60, (2, 3000))
        felt = strengths + by_prompt[prompt] + by_rater[rater]
        rows = np.arange(3000)
        score = rng.random(3000) < 1 / (1 + np.exp(felt[rows, right] - felt[rows, left]))
        two = TwoWaySandwich().fit(left, right, score, prompt, rater)
        vote = Sandwich().fit(Battles.from_arrays(left, right, score))
        for name, fit in (("two", two), ("vote", vote)):
            covered[name].append(((fit.low_ < truth) & (truth < fit.high_)).mean())
    assert np.mean(covered["two"]) == pytest.approx(0.95, abs=0.025)
    assert np.mean(covered["vote"]) < 0.85


@given(votes(scores=SOFT), st.integers(1, 8), st.integers(1, 8), st.integers(0, 99))
def test_the_two_ways_may_change_places(v, n_a, n_b, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, n_a, len(v.left)), rng.integers(0, n_b, len(v.left))
    forth = TwoWaySandwich().fit(v.left, v.right, v.score, a, b, n_candidates=v.n)
    back = TwoWaySandwich().fit(v.left, v.right, v.score, b, a, n_candidates=v.n)
    assert forth.n_clusters_ == back.n_clusters_ <= min(n_a, n_b)
    assert forth.covariance_ == pytest.approx(back.covariance_, nan_ok=True, abs=1e-9)
    width = (forth.high_ - forth.low_)[~np.isnan(forth.low_)]
    assert (width > 0).all()


@given(votes(), st.integers(0, 99))
def test_counts_are_repeated_rows(v, seed):
    rng = np.random.default_rng(seed)
    size = len(v.left)
    count = rng.integers(0, 4, size)
    count[-v.n + 1 :] = 1  # the ties that connect
    a, b = rng.integers(0, 9, size), rng.integers(0, 7, size)
    columns = (v.left, v.right, v.score, a, b)
    rows = TwoWaySandwich().fit(*columns, n_candidates=v.n, count=count)
    votes = TwoWaySandwich().fit(*(np.repeat(c, count) for c in columns), n_candidates=v.n)
    assert rows.n_clusters_ == votes.n_clusters_
    assert rows.covariance_ == pytest.approx(votes.covariance_, nan_ok=True, abs=1e-9)


def test_the_unranked_take_no_part():
    left, right, score, prompt, rater = crossed_votes()
    known = TwoWaySandwich().fit(left, right, score, prompt, rater)
    more = TwoWaySandwich().fit(
        np.r_[left, 5], np.r_[right, 0], np.r_[score, 1], np.r_[prompt, -99], np.r_[rater, 99]
    )
    assert more.covariance_[:5, :5] == pytest.approx(known.covariance_)
    assert more.n_clusters_ == known.n_clusters_
    assert np.isnan(more.standard_errors_[5])


@pytest.mark.parametrize(
    ("score", "few", "reason"),
    [(0.5, 30, NoInterval.NO_DECISIVE_VOTE), (1, 4, NoInterval.FEW_CLUSTERS)],
)
def test_where_chance_cannot_be_measured_there_is_no_interval(score, few, reason):
    left, right, _, prompt, rater = crossed_votes()
    scores = np.where(np.arange(300) % 2, score, 1 - score)
    fit = TwoWaySandwich().fit(left, right, scores, prompt, rater % few)
    assert fit.reason_ is reason
    assert np.isnan(fit.low_).all()


def test_no_votes_rank_nobody():
    fit = TwoWaySandwich().fit([], [], [], [], [], n_candidates=3)
    assert fit.reason_ is NoInterval.NOTHING_RANKED
    assert np.isnan(fit.covariance_).all()


@pytest.mark.parametrize(
    ("argument", "a", "b"),
    [
        ("cluster", [1], [1, 2]),
        ("second_cluster", [1, 2], [1, 2, 3]),
        ("second_cluster", [1, 2], [0.5, 1]),
        ("cluster", [np.nan, 1], [1, 2]),
    ],
)
def test_bad_clusters_are_refused_by_name(argument, a, b):
    with pytest.raises(ValueError, match=rf"^{argument} "):
        TwoWaySandwich().fit([0, 1], [1, 0], [1, 1], a, b)


def test_bad_votes_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^weight must be"):
        TwoWaySandwich().fit([0, 1], [1, 0], [1, 1], [1, 2], [1, 2], weight=[1, np.nan])
    with pytest.raises(ValueError, match=r"^confidence must be"):
        TwoWaySandwich(confidence=95).fit([0, 1], [1, 0], [1, 1], [1, 2], [1, 2])
