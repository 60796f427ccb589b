"""Shrunk scores against closed forms and a direct search for the largest posterior."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_expit, ndtri

from ranking.stats.battles import Battles
from ranking.stats.intervals import Sandwich
from ranking.stats.shrinkage import TYPICAL, Shrinkage, design_effects

UNIT = 400 / math.log(10)


def votes(left, right, score, cluster=None, n=None):
    return Battles.from_arrays(left, right, score, None, cluster, n)


def test_two_candidates_have_the_closed_form():
    """With gap g and theta = g / 2: n (share - expit(g)) = g / (2 tau^2)."""
    tau = TYPICAL / UNIT
    for n, won in ((40, 40), (40, 30), (1, 1), (40, 0)):
        fit = Shrinkage().fit(votes([0] * n, [1] * n, [1] * won + [0] * (n - won)))
        gap = brentq(lambda g, n=n, won=won: won - n * expit(g) - g / (2 * tau**2), -50, 50)
        assert fit.ratings_ == pytest.approx([1000 + gap * UNIT / 2, 1000 - gap * UNIT / 2])
        curvature = n * expit(gap) * expit(-gap)
        error = (curvature + 1 / (2 * tau**2)) ** -0.5 / 2
        assert fit.high_[0] - fit.ratings_[0] == pytest.approx(ndtri(0.975) * error * UNIT)


def crowd(n=400, size=8, seed=0):
    rng = np.random.default_rng(seed)
    strength = rng.normal(0, 0.8, size)
    left = rng.integers(0, size, n)
    right = (left + rng.integers(1, size, n)) % size
    score = (rng.random(n) < expit(strength[left] - strength[right])).astype(float)
    score[(left == 0)], score[(right == 0)] = 1, 0  # the first never loses
    return left, right, score


@pytest.mark.parametrize("with_effects", [False, True])
def test_it_is_where_a_direct_search_finds_the_posterior_largest(with_effects):
    left, right, score = crowd()
    effects = np.array([np.nan, 1, 2, 3, 1, 1.5, 4, 1]) if with_effects else None
    fit = Shrinkage().fit(votes(left, right, score), effects)
    filled = (
        np.where(np.isnan(effects), np.nanmean(effects), effects) if with_effects else np.ones(8)
    )
    each = np.sqrt(filled[left] * filled[right])

    def loss(theta, tau):
        gap = theta[left] - theta[right]
        likely = score * log_expit(gap) + (1 - score) * log_expit(-gap)
        return -(likely / each).sum() + theta @ theta / (2 * tau**2)

    def evidence(log_tau):
        tau = math.exp(log_tau)
        best = minimize(loss, np.zeros(8), (tau,), method="BFGS", options={"gtol": 1e-7})
        gap = best.x[left] - best.x[right]
        contrast = np.eye(8)[left] - np.eye(8)[right]
        curved = (contrast.T * (expit(gap) * expit(-gap) / each)) @ contrast + np.eye(8) / tau**2
        prior = (log_tau - math.log(TYPICAL / UNIT)) ** 2 / 2
        total = best.fun + 8 * log_tau + np.linalg.slogdet(curved)[1] / 2 + prior
        return total, best.x, curved

    log_tau = math.log(fit.deviation_ / UNIT)
    value, theta, curved = evidence(log_tau)
    assert fit.theta_ == pytest.approx(theta, abs=1e-4)
    error = np.sqrt(np.linalg.inv(curved).diagonal() - math.exp(2 * log_tau) / 8)
    assert fit.high_ - fit.ratings_ == pytest.approx(ndtri(0.975) * error * UNIT, rel=1e-3)
    assert value < min(evidence(log_tau - 0.2)[0], evidence(log_tau + 0.2)[0])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(0, 60))
def test_everybody_with_votes_has_a_finite_score_inside_its_interval(seed, size, n):
    left, right, score = crowd(n, size, seed)
    fit = Shrinkage().fit(votes(left, right, score, n=size + 1))
    voted = np.isin(np.arange(size + 1), [*left, *right])
    assert np.isfinite(fit.ratings_[voted]).all()
    assert np.isnan(fit.ratings_[~voted]).all()
    assert ((fit.low_ < fit.ratings_) & (fit.ratings_ < fit.high_))[voted].all()
    if voted.any():
        assert fit.ratings_[voted].mean() == pytest.approx(1000)


def test_more_votes_are_shrunk_less_and_dependent_ones_more():
    few = Shrinkage().fit(votes([0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1])).ratings_[0]
    many = Shrinkage().fit(votes([0, 0, 0, 1] * 90, [1, 1, 1, 0] * 90, [1] * 360)).ratings_[0]
    dependent = Shrinkage().fit(
        votes([0, 0, 0, 1] * 90, [1, 1, 1, 0] * 90, [1] * 360), np.full(2, 60.0)
    )
    true = 1000 + 200 * math.log10(3)
    assert 1000 < few < dependent.ratings_[0] < many < true


def test_design_effects_are_those_of_the_clustered_covariance():
    left, right, score = crowd(600, 5, 3)
    score = np.where(np.arange(600) % 7 == 0, 1 - score, score)
    robust = Sandwich().fit(votes(left, right, score, np.arange(600) // 15))
    alone = Sandwich().fit(votes(left, right, score)).model_.covariance_
    expected = robust.covariance_.diagonal() / alone.diagonal()
    assert design_effects(robust) == pytest.approx(expected.clip(min=1))
