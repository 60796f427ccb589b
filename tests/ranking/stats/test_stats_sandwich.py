"""The sandwich, against the formula written out vote by vote."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from ranking.stats import intervals as module
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.intervals import Dependence, NoInterval, Sandwich
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
    sizes = np.bincount(votes[4], votes[3])
    assert fit.n_clusters_ == round(sizes.sum() ** 2 / (sizes**2).sum()) == 26


def test_without_clusters_each_vote_is_its_own():
    left, right, score, weight, _ = weighted_votes()
    fit = Sandwich().fit(Battles.from_arrays(left, right, score, weight))
    expected = written_out(left, right, score, weight, np.arange(len(left)))
    assert fit.covariance_ == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_the_interval_is_t_quantiles_wide():
    fit = Sandwich().fit(Battles.from_arrays(*weighted_votes()))
    t = stdtrit(fit.n_clusters_ - 1, 0.975)
    assert fit.high_ - fit.ratings_ == pytest.approx(t * fit.standard_errors_, rel=1e-6)
    assert fit.ratings_ - fit.low_ == pytest.approx(t * fit.standard_errors_, rel=1e-6)


def test_errors_with_an_anchor_are_those_of_the_difference_to_it():
    fit = Sandwich(model=BradleyTerry(anchor=1)).fit(Battles.from_arrays(*weighted_votes()))
    c = fit.covariance_
    assert np.isnan(fit.standard_errors_[1])
    assert fit.standard_errors_[3] == pytest.approx(
        (c[3, 3] + c[1, 1] - 2 * c[1, 3]) ** 0.5 * 400 / np.log(10)
    )


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


def crossed(left, right, score, prompt, rater, weight=None, n=None, count=None):
    """The sandwich by prompt and by rater."""
    ways = (
        Battles.from_arrays(left, right, score, weight, way, n, count) for way in (prompt, rater)
    )
    return Sandwich().fit(*ways)


@pytest.mark.parametrize("dropped", [0, 40])
def test_it_is_both_ways_less_that_of_independent_votes(dropped):
    left, right, score, prompt, rater = crossed_votes(900)
    weight = np.random.default_rng(3).integers(1, 3, 900)
    weight[:dropped] = 0
    ways = (prompt, rater, np.arange(900))
    a, b, independent = (one_way(left, right, score, weight, keys) for keys in ways)
    fit = crossed(left, right, score, prompt, rater, weight)
    more, less = (a, b) if a.trace() > b.trace() else (b, a)
    values, vectors = np.linalg.eigh(less - independent)
    share = max(values.sum(), 0) / values.clip(min=0).sum()
    total = more + share * (vectors * values.clip(min=0)) @ vectors.T
    lifted = np.sqrt((less.diagonal() / total.diagonal()).clip(min=1))
    assert fit.covariance_ == pytest.approx(total * np.outer(lifted, lifted), rel=1e-8, abs=1e-12)
    assert fit.n_clusters_ == 12
    t = stdtrit(11, 0.975)
    assert fit.high_ - fit.low_ == pytest.approx(2 * t * fit.standard_errors_, rel=1e-6)


def test_no_error_is_below_that_of_one_way():
    rng = np.random.default_rng(0)
    for _ in range(20):
        left = rng.integers(0, 5, 60)
        right = (left + rng.integers(1, 5, 60)) % 5
        score = rng.choice([0, 0.5, 1], 60)
        a, b = rng.integers(0, 6, 60), rng.integers(0, 6, 60)
        both = crossed(left, right, score, a, b, n=5)
        alone = [
            Sandwich().fit(Battles.from_arrays(left, right, score, None, c, 5)) for c in (a, b)
        ]
        ranked = both.model_.ranked_
        if both.reason_ or not ranked.any():
            continue
        values = np.linalg.eigvalsh(both.covariance_[np.ix_(ranked, ranked)])
        assert values.min() > -1e-12
        for one in alone:
            spare = both.standard_errors_ - one.standard_errors_
            assert (np.isnan(spare) | (spare > -1e-6)).all()


@pytest.mark.parametrize("by", [3, 4])
def test_the_jackknife_leaves_out_one_cluster_at_a_time(by):
    left, right, score, *keys = crossed_votes(900, n_raters=20)
    keys[1][:300] = 0  # one of them casts a third of the votes
    cluster = keys[by - 3]
    fit = Sandwich(jackknifed=True).fit(Battles.from_arrays(left, right, score, None, cluster))
    contrast = np.eye(5)[left] - np.eye(5)[right]
    p = 1 / (1 + np.exp(-contrast @ fit.model_.theta_))
    moved = []
    for one in np.unique(cluster):
        own = cluster == one
        rest = (contrast[~own].T * (p * (1 - p))[~own]) @ contrast[~own]
        moved.append(np.linalg.pinv(rest, rcond=1e-10) @ contrast[own].T @ (score - p)[own])
    true = sum(np.outer(d, d) for d in moved) * (len(moved) - 1) / len(moved)
    assert fit.covariance_ == pytest.approx(true, rel=0.01, abs=1e-5)
    plain = Sandwich().fit(Battles.from_arrays(left, right, score, None, cluster))
    assert (fit.standard_errors_ > 0.99 * plain.standard_errors_).all()


def test_the_jackknife_of_equal_clusters_is_the_sandwich():
    left, right = (np.tile(side, 8) for side in ([0, 0, 1, 0], [1, 2, 2, 1]))
    score, cluster = np.random.default_rng(0).choice([0.0, 1.0], 32), np.repeat(np.arange(8), 4)
    votes = Battles.from_arrays(left, right, score, None, cluster)
    assert Sandwich(jackknifed=True).fit(votes).covariance_ == pytest.approx(
        Sandwich().fit(votes).covariance_, rel=1e-2
    )


def test_the_jackknife_survives_a_cluster_unique_to_a_candidate():
    left, right = np.array([0, 0, 1, 1, 0, 1, 2, 2] * 6), np.array([1, 1, 0, 0, 1, 0, 0, 0] * 6)
    score = np.array([1, 0, 1, 1, 0, 0, 1, 0.0] * 6)
    cluster = np.where((left == 2) | (right == 2), 0, np.arange(48))
    fit = Sandwich(jackknifed=True).fit(Battles.from_arrays(left, right, score, None, cluster))
    assert np.isfinite(fit.standard_errors_).all()


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
        two = crossed(left, right, score, prompt, rater)
        vote = Sandwich().fit(Battles.from_arrays(left, right, score))
        for name, fit in (("two", two), ("vote", vote)):
            covered[name].append(((fit.low_ < truth) & (truth < fit.high_)).mean())
    assert np.mean(covered["two"]) == pytest.approx(0.95, abs=0.025)
    assert np.mean(covered["vote"]) < 0.85


@given(votes(scores=SOFT), st.integers(1, 8), st.integers(1, 8), st.integers(0, 99))
def test_the_two_ways_may_change_places(v, n_a, n_b, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, n_a, len(v.left)), rng.integers(0, n_b, len(v.left))
    forth = crossed(v.left, v.right, v.score, a, b, n=v.n)
    back = crossed(v.left, v.right, v.score, b, a, n=v.n)
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
    rows = crossed(*columns, n=v.n, count=count)
    votes = crossed(*(np.repeat(c, count) for c in columns), n=v.n)
    assert rows.n_clusters_ == votes.n_clusters_
    assert rows.covariance_ == pytest.approx(votes.covariance_, nan_ok=True, abs=1e-9)


def test_the_unranked_take_no_part():
    left, right, score, prompt, rater = crossed_votes()
    known = crossed(left, right, score, prompt, rater)
    more = crossed(
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
    fit = crossed(left, right, scores, prompt, rater % few)
    assert fit.reason_ is reason
    assert np.isnan(fit.low_).all()


def test_without_votes_nobody_is_ranked():
    fit = crossed([], [], [], [], [], n=3)
    assert fit.reason_ is NoInterval.NOTHING_RANKED
    assert np.isnan(fit.covariance_).all()


def dependence(prompt, rater):
    left, right, score, *_ = crossed_votes()
    by_prompt, by_rater, votes = (
        None if way is None else Battles.from_arrays(left, right, score, None, way)
        for way in (prompt, rater, np.arange(300))
    )
    return Dependence.choose(by_prompt, by_rater, votes)


PROMPTS = np.arange(300) % 60


@pytest.mark.parametrize(
    ("prompt", "rater", "rule", "n_raters"),
    [
        (PROMPTS, np.arange(300) % 5, "prompt_rater", 0),
        (PROMPTS, np.arange(300) % 4, "prompt", 4),
        (PROMPTS, np.where(np.arange(300) < 270, 0, np.arange(300)), "prompt", 31),
        (PROMPTS, None, "prompt", 0),
        (None, np.arange(300) % 5, "rater", 0),
        (None, np.arange(300) % 4, "vote", 4),
        (None, None, "vote", 0),
    ],
)
def test_prompts_and_enough_raters_are_both_chance(prompt, rater, rule, n_raters):
    found = dependence(prompt, rater)
    assert (found.rule, found.n_raters) == (rule, n_raters)
    assert len(found.groupings) == 1 + (rule == "prompt_rater")
    assert bool(found.note) == (n_raters > 0 or rule == "vote")


def test_a_candidate_that_met_few_raters_is_not_measurable():
    rater = np.arange(300) % 20
    left, right, score, prompt, _ = crossed_votes()
    rater = np.where((left == 2) | (right == 2), 3 + np.arange(300) % 2, rater)
    by_prompt, by_rater = (
        Battles.from_arrays(left, right, score, None, c) for c in (prompt, rater)
    )
    found = Dependence.choose(by_prompt, by_rater, by_rater)
    assert found.measurable.tolist() == [True, True, False, True, True]
    assert found.clusters_per_candidate[2] == 2


@pytest.mark.parametrize("n_clusters", [3, 900])
def test_gradients_are_the_same_whether_or_not_they_are_sparse(n_clusters: int) -> None:
    rng = np.random.default_rng(1)
    cluster, first = rng.integers(0, n_clusters, 50), rng.integers(0, 4, 50)
    second, values = (first + rng.integers(1, 4, 50)) % 4, rng.normal(size=50)
    expected = np.zeros((n_clusters, 4))
    for g, a, b, value in zip(cluster, first, second, values, strict=True):
        expected[g, a] += value
        expected[g, b] -= value
    found = module.contrasts(cluster, first, second, values, (n_clusters, 4))
    assert isinstance(found, np.ndarray) == (n_clusters == 3)
    assert module.dense(found) == pytest.approx(expected)
