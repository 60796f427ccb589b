"""The sandwich, against the formula written out vote by vote."""

import numpy as np
import pytest

from ranking.stats import sandwich as module
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.sandwich import Sandwich


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
