"""The bootstrap: deterministic, as refitting says on dense boards, as wide as the sandwich says."""

from dataclasses import replace

import numpy as np
import pytest

from ranking.stats import intervals
from ranking.stats.battles import Battles
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.intervals import NoInterval, Sandwich


def clustered_votes(n_candidates=8, n_votes=600, n_clusters=60, seed=1):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, n_candidates, n_votes)
    right = (left + rng.integers(1, n_candidates, n_votes)) % n_candidates
    score = rng.choice([0.0, 0.5, 1.0], n_votes)
    return left, right, score, rng.integers(0, n_clusters, n_votes)


def clustered(**sizes):
    left, right, score, cluster = clustered_votes(**sizes)
    return Battles.from_arrays(left, right, score, cluster=cluster)


def independent(**sizes):
    return Battles.from_arrays(*clustered_votes(**sizes)[:3])


def test_the_interval_surrounds_the_rating():
    fit = Bootstrap(n_resamples=200).fit(clustered())
    assert fit.reason_ is None
    assert (fit.low_ < fit.ratings_).all()
    assert (fit.ratings_ < fit.high_).all()


def test_a_seed_decides_every_number():
    battles = clustered()
    first, again = Bootstrap(random_state=7).fit(battles), Bootstrap(random_state=7).fit(battles)
    assert np.array_equal(first.low_, again.low_)
    assert not np.array_equal(first.low_, Bootstrap(random_state=8).fit(battles).low_)


def test_the_order_of_votes_and_the_global_random_state_change_nothing():
    left, right, score, cluster = clustered_votes()
    one = Bootstrap(n_resamples=130).fit(clustered())
    np.random.seed(5)
    order = np.random.permutation(len(left))
    columns = (column[order] for column in (left, right, score))
    other = Bootstrap(130).fit(Battles.from_arrays(*columns, cluster=cluster[order]))
    assert one.low_ == pytest.approx(other.low_)
    assert one.high_ == pytest.approx(other.high_)


@pytest.mark.parametrize("cells", [1, 3_000])
def test_blocks_change_no_movement(monkeypatch, cells):
    battles = clustered()
    theta = BradleyTerry().fit(battles).theta_
    bread = BradleyTerry().fit(battles).covariance_
    whole = np.concatenate(list(intervals.movements(battles, theta, bread)))
    monkeypatch.setattr(intervals, "BLOCK_CELLS", cells)
    parts = np.concatenate(list(intervals.movements(battles, theta, bread)))
    assert parts == pytest.approx(whole, abs=2e-3 * np.abs(whole).max())  # each ends its own series


def test_a_movement_is_what_leaving_the_cluster_out_does():
    left, right, score, cluster = clustered_votes(n_votes=4000, n_clusters=100)
    battles = Battles.from_arrays(left, right, score, cluster=cluster)
    fit = BradleyTerry().fit(battles)
    bread = fit.covariance_
    moved = np.concatenate(list(intervals.movements(battles, fit.theta_, bread)))
    for g in (0, 7, 99):
        rest = cluster != g
        without = Battles.from_arrays(left[rest], right[rest], score[rest])
        shift = fit.theta_ - BradleyTerry().fit(without).theta_
        assert moved[g] == pytest.approx(shift, abs=0.03 * np.abs(moved).max())


def test_on_a_dense_board_it_agrees_with_refitted_replicates():
    """200 replicates are fitted again by Newton, with weights a quarter as far from 1: none is
    negative, and quantiles are in standard deviations."""
    left, right, score, cluster = clustered_votes(n_candidates=3, n_votes=30_000, n_clusters=1500)
    battles = Battles.from_arrays(left, right, score, cluster=cluster)
    fit = Bootstrap(n_resamples=200).fit(battles)
    generator = np.random.Generator(np.random.SFC64(0))
    weights = 1 + (generator.standard_gamma(4, (1500, 200)) / 2 - 2) / 4
    refitted = np.array(
        [
            BradleyTerry().fit(Battles.from_arrays(left, right, score, weight=w[cluster])).theta_
            for w in weights.T
        ]
    )
    low, high = fit._quantiles(refitted - fit.model_.theta_)
    ratio = intervals.t_quantile(0.95, fit.n_clusters_) / intervals.normal_quantile(0.95)
    width = fit.high_ - fit.low_
    for end, quantile in ((fit.low_, low), (fit.high_, high)):
        expected = fit.ratings_ + ratio * fit.standard_errors_ * quantile
        assert (np.abs(end - expected) < 0.03 * width).all()


@pytest.mark.parametrize("battles", [clustered(n_votes=5000, n_clusters=300), independent()])
def test_its_errors_are_those_of_the_sandwich(battles):
    fit = Bootstrap(n_resamples=2000).fit(battles)
    sandwich = Sandwich(jackknifed=True).fit(battles)
    assert fit.standard_errors_ == pytest.approx(sandwich.standard_errors_)
    assert fit.high_ - fit.low_ == pytest.approx(sandwich.high_ - sandwich.low_, rel=0.06)


def test_folded_votes_resample_like_separate_clusters():
    left, right, score, _ = clustered_votes(n_votes=400)
    alone = Battles.from_arrays(left, right, score, cluster=np.arange(400))
    folded = Bootstrap(n_resamples=3000).fit(Battles.from_arrays(left, right, score))
    apart = Bootstrap(n_resamples=3000).fit(alone, Sandwich().fit(alone))
    assert folded.low_ == pytest.approx(apart.low_, abs=0.15 * folded.standard_errors_.max())


def test_the_unranked_have_no_interval_and_the_others_do():
    left, right, score, cluster = clustered_votes()
    battles = Battles.from_arrays(
        [*left, 8], [*right, 0], [*score, 1], cluster=[*cluster, 3], n_candidates=10
    )
    fit = Bootstrap(n_resamples=50).fit(battles)
    for column in (fit.low_, fit.high_, fit.standard_errors_):
        assert np.isnan(column).tolist() == [False] * 8 + [True] * 2


def test_an_anchor_stays_put_and_has_no_interval():
    model = BradleyTerry(anchor=2)
    fit = Bootstrap(n_resamples=50, model=model).fit(clustered())
    assert fit.ratings_[2] == 1000
    assert np.isnan(fit.low_).tolist() == [i == 2 for i in range(8)]
    assert not hasattr(model, "ratings_")


NONE = [
    (([0, 0], [1, 1], [1, 0]), [1, 2], NoInterval.FEW_CLUSTERS),
    (([0] * 9, [1] * 9, [1, 0, 1] * 3), [1, 2, 3] * 3, NoInterval.FEW_CLUSTERS),
    (([0] * 9, [1] * 9, [0.5] * 9), range(9), NoInterval.NO_DECISIVE_VOTE),
    (([0] * 9, [1] * 9, [1] * 9), range(9), NoInterval.NOTHING_RANKED),
    (([0] * 20, [1] * 20, [1, 0] * 10), np.repeat(range(10), 2), NoInterval.NO_VARIATION),
]


@pytest.mark.parametrize("method", [Bootstrap(n_resamples=20), Sandwich()])
@pytest.mark.parametrize(("votes", "cluster", "reason"), NONE)
def test_where_chance_cannot_be_measured_there_is_no_interval(method, votes, cluster, reason):
    fit = replace(method).fit(Battles.from_arrays(*votes, cluster=list(cluster)))
    assert fit.reason_ is reason
    assert reason.reason
    for column in (fit.low_, fit.high_, fit.standard_errors_):
        assert np.isnan(column).all()


@pytest.mark.parametrize("method", [Bootstrap(), Sandwich()])
def test_no_votes_are_no_error(method):
    fit = replace(method).fit(Battles.from_arrays([], [], [], n_candidates=3))
    assert fit.reason_ is NoInterval.NOTHING_RANKED
    assert np.isnan(fit.low_).tolist() == [True] * 3


@pytest.mark.parametrize(
    ("name", "value"), [("n_resamples", 1), ("confidence", 1.0), ("confidence", np.nan)]
)
def test_settings_without_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Bootstrap(**{name: value}).fit(clustered())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6, 11])
def test_sparse_board_of_300_candidates_has_intervals(seed):
    rng = np.random.default_rng(0)
    for _ in range(seed + 1):
        more = rng.integers(0, 300, 600), rng.integers(1, 300, 600), rng.choice([0, 0.5, 1], 900)
    left = np.r_[np.arange(300), more[0]]
    right = np.r_[(np.arange(300) + 1) % 300, (more[0] + more[1]) % 300]
    battles = Battles.from_arrays(left, right, more[2], n_candidates=300)
    interval = Bootstrap(100, random_state=seed).fit(battles)
    ranked = interval.model_.ranked_
    assert (interval.low_[ranked] < interval.high_[ranked]).all()
