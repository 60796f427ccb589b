"""The bootstrap: deterministic, as exact as Newton, and as wide as the sandwich says."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ranking.stats import bootstrap as module
from ranking.stats.battles import Battles
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.bradley_terry import BradleyTerry, maximise
from ranking.stats.intervals import NoInterval, Sandwich, totals_per_unit, widening


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
    assert fit.samples_.shape == (200, 8)
    assert fit.samples_.mean(axis=1) == pytest.approx(1000)


def test_a_seed_decides_every_number():
    battles = clustered()
    first, again = Bootstrap(random_state=7).fit(battles), Bootstrap(random_state=7).fit(battles)
    assert np.array_equal(first.samples_, again.samples_)
    assert not np.array_equal(first.samples_, Bootstrap(random_state=8).fit(battles).samples_)


def test_no_replicate_is_drawn_twice(monkeypatch):
    monkeypatch.setattr(module, "CELLS", 60 * 7)  # seven replicates of sixty clusters at a time
    assert len(np.unique(Bootstrap(n_resamples=100).fit(clustered()).samples_[:, 0])) == 100


def test_threads_and_global_random_state_change_nothing():
    battles = clustered()
    one = Bootstrap(n_resamples=130).fit(battles)
    np.random.seed(5)
    assert np.array_equal(one.samples_, Bootstrap(130, n_threads=2).fit(battles).samples_)


@pytest.mark.parametrize("battles", [clustered(), independent(), clustered(n_clusters=6)])
def test_replicates_are_within_a_thousandth_elo_of_newton(battles, monkeypatch):
    quick = Bootstrap(n_resamples=100).fit(battles)
    monkeypatch.setattr(module, "MAX_STEPS", 1)  # one step never settles: each goes to Newton
    together = Bootstrap(n_resamples=100).fit(battles)
    monkeypatch.setattr(module, "NEWTON_STEPS", 0)
    exact = Bootstrap(n_resamples=100).fit(battles)
    assert np.abs(quick.samples_ - exact.samples_).max() < 0.001
    assert np.abs(together.samples_ - exact.samples_).max() < 0.001
    assert np.abs(quick.samples_ - quick.ratings_).max() > 10


def test_a_replicate_is_the_fit_of_reweighted_clusters():
    left, right, score, cluster = clustered_votes()
    sample = Bootstrap(n_resamples=2).fit(clustered()).samples_[0]
    seed = np.random.SeedSequence(0).spawn(1)[0]
    chance = np.random.Generator(np.random.SFC64(seed)).standard_exponential((60, 2))[:, 0]
    battles = Battles.from_arrays(left, right, score, weight=chance[cluster])
    assert sample == pytest.approx(BradleyTerry().fit(battles).ratings_, abs=0.001)


@pytest.mark.parametrize("battles", [clustered(n_votes=5000, n_clusters=300), independent()])
def test_its_errors_are_those_of_the_sandwich(battles):
    errors = Bootstrap(n_resamples=2000).fit(battles).standard_errors_
    assert errors == pytest.approx(Sandwich().fit(battles).standard_errors_, rel=0.1)


def test_folded_votes_resample_like_separate_clusters():
    left, right, score, _ = clustered_votes(n_votes=400)
    alone = Battles.from_arrays(left, right, score, cluster=np.arange(400))
    folded = Bootstrap(n_resamples=3000).fit(Battles.from_arrays(left, right, score))
    apart = Bootstrap(n_resamples=3000).fit(alone)
    assert folded.standard_errors_ == pytest.approx(apart.standard_errors_, rel=0.08)


def test_a_sum_of_weights_is_a_gamma_variable():
    generator = np.random.Generator(np.random.SFC64(5))
    count = np.array([[40], [1], [module.MANY], [module.MANY - 1], [5000]])
    drawn = module._sums_of_weights(generator, count, 200_000)
    for shape, sample in zip(count[:, 0], drawn, strict=True):
        assert sample.mean() == pytest.approx(shape, abs=5 * (shape / 200_000) ** 0.5)
        assert sample.var() == pytest.approx(shape, rel=0.03)
        assert stats.kstest(sample, stats.gamma(shape).cdf).statistic < 0.004


def test_few_clusters_widen_the_deviations():
    fit = Bootstrap(n_resamples=400).fit(clustered(n_clusters=6))
    deviation = np.quantile(fit.samples_ - fit.ratings_, 0.975, axis=0)
    assert fit.high_ - fit.ratings_ == pytest.approx(deviation * widening(0.95, 6))
    assert widening(0.95, 6) == pytest.approx((6 / 5) ** 0.5 * 2.570582 / 1.959964, abs=1e-6)


def test_the_unranked_have_no_interval_and_the_others_do():
    left, right, score, cluster = clustered_votes()
    battles = Battles.from_arrays(
        [*left, 8], [*right, 0], [*score, 1], cluster=[*cluster, 3], n_candidates=10
    )
    fit = Bootstrap(n_resamples=50).fit(battles)
    for column in (fit.low_, fit.high_, fit.standard_errors_, fit.samples_[0]):
        assert np.isnan(column).tolist() == [False] * 8 + [True] * 2


def test_an_anchor_stays_put_and_has_no_interval():
    model = BradleyTerry(anchor=2)
    fit = Bootstrap(n_resamples=50, model=model).fit(clustered())
    assert (fit.samples_[:, 2] == 1000).all()
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


def test_a_replicate_that_does_not_contract_goes_to_newton():
    # One cluster holds nearly all that is known about candidate 2: its weight decides.
    left = [0] * 20 + [1] * 20 + [2] * 9 + [2] * 6
    right = [1] * 20 + [0] * 20 + [0] * 9 + [1] * 6
    score = [1, 0, 1, 1] * 10 + [1] * 8 + [0] + [0] * 3 + [1] * 3
    cluster = [*range(10), *range(10)] * 2 + [10] * 9 + list(range(6))
    battles = Battles.from_arrays(left, right, score, cluster=cluster)
    refit = module._Refit(battles, BradleyTerry().fit(battles).theta_)
    seed = np.random.SeedSequence(4)
    chance = np.random.Generator(np.random.SFC64(seed)).standard_exponential((11, 300))
    weight, scored = (totals @ chance for totals in totals_per_unit(battles))
    assert not refit._approach(weight, scored)[1].all()
    for i, theta in enumerate(refit.draw(seed, 300)):
        pairs = replace(refit.pairs, weight=weight[:, i], score=scored[:, i])
        assert theta == pytest.approx(maximise(pairs)[0], abs=1e-5)


def test_replicates_of_sparse_votes_are_refitted_together(monkeypatch):
    battles = independent(n_candidates=100, n_votes=700)
    refit = module._Refit(battles, BradleyTerry().fit(battles).theta_)
    seed = np.random.SeedSequence(7)
    chance = np.random.Generator(np.random.SFC64(seed)).standard_gamma(
        refit.shape, (len(refit.shape), 20)
    )
    weight, scored = (totals @ chance for totals in totals_per_unit(battles))
    assert refit._approach(weight, scored)[1].sum() < 10
    monkeypatch.setattr(module, "maximise", None)  # one by one they took ten times as long
    for i, theta in enumerate(refit.draw(seed, 20)):
        pairs = replace(refit.pairs, weight=weight[:, i], score=scored[:, i])
        assert theta == pytest.approx(maximise(pairs)[0], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6, 11])
def test_sparse_board_of_300_candidates_has_intervals(seed):
    """Replicates far from the estimate, where a whole Newton step would leave the numbers."""
    rng = np.random.default_rng(0)
    for _ in range(seed + 1):
        more = rng.integers(0, 300, 600), rng.integers(1, 300, 600), rng.choice([0, 0.5, 1], 900)
    left = np.r_[np.arange(300), more[0]]
    right = np.r_[(np.arange(300) + 1) % 300, (more[0] + more[1]) % 300]
    battles = Battles.from_arrays(left, right, more[2], n_candidates=300)
    interval = Bootstrap(100, random_state=seed).fit(battles)
    ranked = interval.model_.ranked_
    assert np.isfinite(interval.samples_[:, ranked]).all()
    assert (interval.low_[ranked] < interval.high_[ranked]).all()
