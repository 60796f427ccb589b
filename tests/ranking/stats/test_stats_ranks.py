"""Rank intervals from the covariance of differences."""

import numpy as np
import pytest
from scipy import stats

from ranking.stats import ranks
from ranking.stats.battles import Battles
from ranking.stats.intervals import Sandwich
from ranking.stats.ranks import (
    clear_leader,
    clearly_below,
    rank_intervals,
    simultaneous_value,
    tiers,
)


def test_far_apart_the_ranks_are_certain():
    low, high = rank_intervals([0, 5, 10], 0.01 * np.eye(3))
    assert low.tolist() == high.tolist() == [3, 2, 1]


def test_equal_strengths_may_hold_any_rank():
    low, high = rank_intervals([1, 1, 1], np.eye(3))
    assert low.tolist() == [1] * 3
    assert high.tolist() == [3] * 3


def test_scores_that_differ_by_rounding_share_a_rank():
    ratings = np.array([1000 + 2e-13, 1000, 1000 - 2e-13, np.nan, 900])
    assert ranks.ranks(ratings).tolist() == pytest.approx([1, 1, 1, np.nan, 4], nan_ok=True)


def test_errors_that_move_together_do_not_blur_a_difference():
    covariance = np.array([[1, 0.999], [0.999, 1]])
    assert rank_intervals([0.0, 0.5], covariance)[0].tolist() == [2, 1]
    assert rank_intervals([0.0, 0.5], np.eye(2))[0].tolist() == [1, 1]


def test_the_marginal_threshold_is_the_normal_quantile():
    variance = 0.5 * np.eye(2)  # of the difference: 1
    assert rank_intervals([0, 1.95], variance)[0].tolist() == [1, 1]
    assert rank_intervals([0, 1.97], variance)[0].tolist() == [2, 1]


def test_two_candidates_need_nearly_the_marginal_threshold():
    variance = 0.5 * np.eye(2)
    assert rank_intervals([0, 1.85], variance, simultaneous=True)[0].tolist() == [1, 1]
    assert rank_intervals([0, 2.07], variance, simultaneous=True)[0].tolist() == [2, 1]


def test_for_many_it_is_that_of_the_studentised_range():
    # 20 independent means, known variance: q(.95; 20, inf) / sqrt 2 = 5.012 / 1.41421 = 3.544.
    theta = np.zeros(20)
    for gap, separated in ((3.45, False), (3.64, True)):
        theta[0] = gap
        high = rank_intervals(theta, 0.5 * np.eye(20), simultaneous=True)[1]
        assert (high[0] == 1) == separated


def test_simultaneous_ranks_contain_marginal_ones():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 12))
    theta, covariance = rng.normal(size=12) * 5, root @ root.T
    low, high = rank_intervals(theta, covariance)
    wide_low, wide_high = rank_intervals(theta, covariance, simultaneous=True)
    assert (wide_low <= low).all()
    assert (high <= wide_high).all()
    again = rank_intervals(theta, covariance, simultaneous=True)
    assert np.array_equal(again, (wide_low, wide_high))


@pytest.mark.parametrize("simultaneous", [False, True])
def test_the_unranked_have_no_rank_and_take_none(simultaneous):
    covariance = np.full((3, 3), np.nan)
    covariance[np.ix_([0, 2], [0, 2])] = 0.01 * np.eye(2)
    low, high = rank_intervals([0, np.nan, 9], covariance, simultaneous)
    assert np.array_equal(low, [2, np.nan, 1], equal_nan=True)
    assert np.array_equal(high, [2, np.nan, 1], equal_nan=True)


@pytest.mark.parametrize("simultaneous", [False, True])
def test_without_a_covariance_there_is_no_rank(simultaneous):
    low, high = rank_intervals([0, 1], np.full((2, 2), np.nan), simultaneous)
    assert np.isnan([low, high]).all()


def test_many_candidates_take_a_little_more_to_separate(monkeypatch):
    root = np.random.default_rng(3).standard_normal((60, 80))
    covariance = root @ root.T / 80
    error = ranks._difference_errors(covariance)
    drawn = np.quantile(ranks._draw_maxima(covariance, error, np.random.default_rng(1)), 0.95)
    bound = stats.norm.ppf((1 + 0.95 ** (2 / (60 * 59))) / 2)
    assert drawn < bound < 1.1 * drawn
    monkeypatch.setattr(ranks, "MOST_DRAWN", 59)
    for factor, leader in ((0.98, None), (1.02, 0)):
        theta = np.zeros(60)
        theta[0] = factor * bound * error[0, 1:].max()
        assert clear_leader(theta, covariance) == leader


@pytest.mark.parametrize("simultaneous", [False, True])
def test_two_that_never_differ_are_not_separated(simultaneous):
    low, _ = rank_intervals([0, 1, 9], np.diag([0, 0, 0.01]), simultaneous)
    assert low.tolist() == [2, 2, 1]


def test_shapes_must_fit():
    with pytest.raises(ValueError, match=r"^covariance must be of shape"):
        rank_intervals([0, 1], np.eye(3))
    with pytest.raises(ValueError, match=r"^confidence must be"):
        rank_intervals([0, 1], np.eye(2), confidence=95)


def test_infinite_numbers_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^theta must"):
        rank_intervals([0, np.inf], np.eye(2))
    with pytest.raises(ValueError, match=r"^covariance must hold no infinity"):
        rank_intervals([0, 1], np.diag([1, np.inf]))


@pytest.mark.parametrize("simultaneous", [False, True])
def test_errors_from_few_clusters_take_more_to_separate(simultaneous):
    variance = 0.5 * np.eye(2)  # t with 4 degrees of freedom: 2.776
    for gap, best in ((2.65, [1, 1]), (2.9, [2, 1])):
        low, _ = rank_intervals([0, gap], variance, simultaneous, n_clusters=5)
        assert low.tolist() == best
    with pytest.raises(ValueError, match=r"^n_clusters must be at least 2"):
        rank_intervals([0, 1], variance, simultaneous, n_clusters=1)


def test_threshold_is_the_studentised_range():
    critical = stats.studentized_range.ppf(0.95, 10, 15) / np.sqrt(2)
    for gap, worst in ((0.96 * critical, 10), (1.04 * critical, 1)):
        theta = np.r_[gap, np.zeros(9)]
        assert rank_intervals(theta, 0.5 * np.eye(10), True, n_clusters=16)[1][0] == worst


def test_a_candidate_that_is_far_ahead_leads():
    assert clear_leader([0, 9, 1], 0.1 * np.eye(3)) == 1


@pytest.mark.parametrize(
    ("theta", "covariance"),
    [
        ([0, 1.5, 1], 0.5 * np.eye(3)),
        ([np.nan, 3, np.nan], np.diag([np.nan, 0.1, np.nan])),
        ([0, 9], np.full((2, 2), np.nan)),
        ([], np.zeros((0, 0))),
        ([0, 9, 9], np.zeros((3, 3))),
    ],
)
def test_nobody_leads_without_evidence(theta, covariance):
    assert clear_leader(theta, covariance) is None


@pytest.mark.slow
def test_of_two_equal_ones_a_leader_is_named_in_five_percent():
    theta = np.random.default_rng(5).normal(size=(2000, 2))
    named = [clear_leader(row, np.eye(2)) is not None for row in theta]
    assert np.mean(named) == pytest.approx(0.05, abs=0.012)  # 2.5 standard errors
    really = np.abs(theta[:, 0] - theta[:, 1]) > np.sqrt(2) * stats.norm.ppf(0.975)
    assert np.mean(named == really) > 0.995  # the draws' own error is small beside that


@pytest.mark.slow
def test_two_equals_at_the_top_are_rarely_a_leader():
    rng = np.random.default_rng(11)
    truth = np.array([0.8, 0.8, 0.3, 0.0, -0.5])
    named = 0
    for _ in range(300):
        left = rng.integers(0, 5, 400)
        right = (left + rng.integers(1, 5, 400)) % 5
        score = rng.random(400) < 1 / (1 + np.exp(truth[right] - truth[left]))
        fit = Sandwich().fit(Battles.from_arrays(left, right, score))
        named += clear_leader(fit.model_.theta_, fit.covariance_) is not None
    assert named <= 15


def tiers_of(theta, covariance):
    order = np.argsort(-np.asarray(theta))
    below = clearly_below(np.asarray(theta, float), covariance, simultaneous_value(covariance))
    return tiers(below[np.ix_(order, order)])


def test_a_tier_begins_clearly_below_the_first_of_the_tier_above():
    assert tiers_of([10, 9.9, 5, 4.9, 0], 0.01 * np.eye(5)).tolist() == [1, 1, 2, 2, 3]
    # Each is close to its neighbours; the third is clearly below the first.
    assert tiers_of([2, 1.4, 0.8, 0.2], 0.05 * np.eye(4)).tolist() == [1, 1, 2, 2]
    # The second is clearly above the third, but the first, whose error is large, is not.
    wide = np.diag([9.0, 0.01, 0.01])
    assert tiers_of([10, 9, 5], wide).tolist() == [1, 1, 1]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_without_a_clear_difference_there_is_one_tier(size):
    assert tiers(np.zeros((size, size), np.bool_)).tolist() == [1] * size


@pytest.mark.parametrize(
    ("n_equals", "boards"), [(5, 200), (20, 60), pytest.param(200, 20, marks=pytest.mark.slow)]
)
def test_equals_are_split_on_at_most_one_board_in_twenty(n_equals, boards):
    """With errors that are correlated and unequal, as those of clustered votes."""
    rng = np.random.default_rng(n_equals)
    root = rng.normal(size=(n_equals, n_equals)) * rng.uniform(0.3, 2, n_equals)[:, None]
    covariance = root @ root.T / n_equals
    splits = sum(
        tiers_of(rng.multivariate_normal(np.zeros(n_equals), covariance), covariance).max() > 1
        for _ in range(boards)
    )
    # Above this number, a rate of 5 % would be rejected at 1 in 1,000.
    assert splits <= stats.binom.ppf(0.999, boards, 0.05)


def test_every_statement_between_tiers_is_true_on_most_boards():
    rng = np.random.default_rng(1)
    truth = np.repeat([2.0, 1.0, 0.0], 4)
    wrong = drawn = 0
    for _ in range(100):
        theta = truth + rng.normal(size=12) * 0.15
        order = np.argsort(-theta)
        found = tiers_of(theta, 0.0225 * np.eye(12))
        drawn += found.max() == 3
        firsts = truth[order][[int(np.argmax(found == tier)) for tier in np.unique(found)]]
        wrong += (np.diff(firsts) >= 0).any()
    assert wrong <= stats.binom.ppf(0.999, 100, 0.05)
    assert drawn > 10
