"""Bradley-Terry: the maximum of the likelihood, checked against choix and against itself."""

import math

import choix
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import (
    BradleyTerry,
    NotConvergedError,
    largest_difference,
    maximise,
    observed_shares,
)
from ranking.stats.connectivity import Status
from tests.ranking.stats.helpers import SOFT, votes


def fitted(v, **columns):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n, **columns)
    return BradleyTerry().fit(battles)


def test_two_candidates_are_apart_by_the_log_odds():
    model = BradleyTerry().fit(Battles.from_arrays([0] * 4, [1] * 4, [1, 1, 1, 0]))
    gap = 400 * math.log10(3)
    assert model.ratings_ == pytest.approx([1000 + gap / 2, 1000 - gap / 2], abs=1e-9)
    assert model.log_likelihood_ == pytest.approx(3 * math.log(0.75) + math.log(0.25))
    assert model.converged_
    assert model.n_iter_ < 10


def test_the_variance_of_a_difference_is_that_of_a_log_odds():
    model = BradleyTerry().fit(Battles.from_arrays([0] * 4, [1] * 4, [1, 1, 1, 0]))
    c = model.covariance_
    assert c[0, 0] + c[1, 1] - 2 * c[0, 1] == pytest.approx(1 / 3 + 1)


def test_ties_alone_leave_everybody_at_the_center():
    model = BradleyTerry().fit(Battles.from_arrays([0, 1], [1, 2], [0.5, 0.5]))
    assert model.ratings_ == pytest.approx([1000] * 3)


def test_an_anchor_is_fixed_and_the_differences_stay():
    battles = Battles.from_arrays([0, 1, 0], [1, 0, 2], [1, 1, 0.5])
    free, fixed = BradleyTerry().fit(battles), BradleyTerry(anchor=2, center=1500).fit(battles)
    assert fixed.anchored_
    assert fixed.ratings_[2] == 1500
    assert np.diff(fixed.ratings_) == pytest.approx(np.diff(free.ratings_))


def test_an_unranked_anchor_leaves_the_mean_in_charge():
    model = BradleyTerry(anchor=2).fit(Battles.from_arrays([0, 0, 2], [1, 1, 0], [1, 0, 1]))
    assert not model.anchored_
    assert np.nanmean(model.ratings_) == pytest.approx(1000)
    assert np.isnan(model.ratings_[2])


def test_votes_with_the_unranked_change_nobody():
    inside = ([0, 0, 0], [1, 1, 1], [1, 1, 0])
    alone = BradleyTerry().fit(Battles.from_arrays(*inside, n_candidates=3))
    with_third = BradleyTerry().fit(
        Battles.from_arrays([*inside[0], 2], [*inside[1], 0], [*inside[2], 1])
    )
    assert with_third.status_[2] is Status.UNDEFEATED
    assert with_third.ratings_[:2].tolist() == alone.ratings_[:2].tolist()


def test_a_model_can_be_fitted_again():
    model = BradleyTerry().fit(Battles.from_arrays([0, 0], [1, 1], [1, 0]))
    assert model.covariance_.shape == (2, 2)
    model.fit(Battles.from_arrays([0, 1, 2], [1, 2, 0], [1, 1, 1]))
    assert model.covariance_.shape == (3, 3)


def test_a_lopsided_pair_still_has_its_number():
    model = BradleyTerry().fit(Battles.from_arrays([0, 1], [1, 0], [1, 1], weight=[1e6, 1]))
    assert np.ptp(model.theta_) == pytest.approx(math.log(1e6))


def test_a_step_that_overshoots_is_halved():
    pairs = Battles.from_arrays([0, 1], [1, 0], [1, 1]).pairs
    assert maximise(pairs, start=np.array([10.0, -10.0]))[0] == pytest.approx(0, abs=1e-9)


def test_a_fit_that_does_not_settle_raises():
    pairs = Battles.from_arrays([0, 1], [1, 0], [1, 1], weight=[1e6, 1]).pairs
    with pytest.raises(NotConvergedError, match="3 Newton steps"):
        maximise(pairs, max_iter=3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("scale", 0), ("scale", math.nan), ("center", math.inf), ("anchor", 2), ("anchor", -1)],
)
def test_hyperparameters_without_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        BradleyTerry(**{name: value}).fit(Battles.from_arrays([0], [1], [0.5]))


@given(votes(scores=SOFT))
def test_choix_finds_the_same_maximum(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    theta = BradleyTerry().fit(battles).theta_
    other = choix.ilsr_pairwise_dense(battles.wins(), tol=1e-12, max_iter=1000)
    assert theta == pytest.approx(other - other.mean(), abs=1e-9)


@given(votes(scores=SOFT), st.integers(0, 2**32 - 1))
def test_the_gradient_is_that_of_finite_differences(v, seed):
    pairs = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n).pairs
    theta, h = np.random.default_rng(seed).normal(size=v.n), 1e-5
    nudges = h * np.eye(v.n)
    slopes = [
        (pairs.log_likelihood(theta + e) - pairs.log_likelihood(theta - e)) / (2 * h)
        for e in nudges
    ]
    curves = [(pairs.gradient(theta - e) - pairs.gradient(theta + e)) / (2 * h) for e in nudges]
    assert pairs.gradient(theta) == pytest.approx(slopes, abs=1e-7)
    assert pairs.information(theta) == pytest.approx(np.array(curves), abs=1e-7)


@given(votes(scores=SOFT))
def test_at_the_maximum_scores_seen_are_scores_expected(v):
    model = fitted(v)
    pairs = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n).pairs
    assert pairs.gradient(model.theta_) == pytest.approx(0, abs=1e-9)


@given(votes(scores=SOFT), st.randoms(use_true_random=False))
def test_new_names_move_the_ratings_with_them(v, random):
    new = np.array(random.sample(range(v.n), v.n))
    moved = Battles.from_arrays(new[v.left], new[v.right], v.score, n_candidates=v.n)
    assert BradleyTerry().fit(moved).ratings_[new] == pytest.approx(fitted(v).ratings_, abs=1e-7)


@given(votes(scores=SOFT), st.data())
def test_sides_do_not_matter(v, data):
    n = len(v.left)
    flip = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    flipped = Battles.from_arrays(
        np.where(flip, v.right, v.left),
        np.where(flip, v.left, v.right),
        np.where(flip, 1 - v.score, v.score),
        n_candidates=v.n,
    )
    assert BradleyTerry().fit(flipped).ratings_ == pytest.approx(fitted(v).ratings_, abs=1e-7)


@given(votes(scores=SOFT), st.randoms(use_true_random=False))
def test_the_order_of_votes_does_not_matter(v, random):
    order = np.array(random.sample(range(len(v.left)), len(v.left)))
    mixed = Battles.from_arrays(v.left[order], v.right[order], v.score[order], n_candidates=v.n)
    assert BradleyTerry().fit(mixed).ratings_ == pytest.approx(fitted(v).ratings_, abs=1e-7)


@given(votes(scores=SOFT))
def test_doubled_weights_leave_the_ratings(v):
    doubled = fitted(v, weight=np.full(len(v.left), 2.0))
    assert doubled.ratings_ == pytest.approx(fitted(v).ratings_, abs=1e-7)
    assert doubled.covariance_ == pytest.approx(fitted(v).covariance_ / 2, abs=1e-9)


@given(votes(connected=False))
@settings(max_examples=200)
def test_only_ranked_candidates_get_numbers(v):
    model = BradleyTerry().fit(Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n))
    ranked = np.array([status is Status.RANKED for status in model.status_])
    assert np.array_equal(np.isfinite(model.ratings_), ranked)
    assert np.array_equal(model.ranked_, ranked)
    if ranked.any():
        assert np.nanmean(model.ratings_) == pytest.approx(1000)


@given(votes(scores=SOFT))
def test_where_a_fit_starts_changes_no_rating(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    cold = BradleyTerry().fit(battles)
    far = np.linspace(-3, 3, v.n)
    assert BradleyTerry().fit(battles, far).ratings_ == pytest.approx(cold.ratings_, abs=1e-6)
    assert BradleyTerry().fit(battles, cold.theta_).n_iter_ == 1


def test_a_candidate_that_was_not_ranked_starts_at_zero():
    battles = Battles.from_arrays([0, 1, 1], [1, 0, 2], [1, 1, 0.5])
    warm = BradleyTerry().fit(battles, np.array([0.5, -0.5, np.nan]))
    assert warm.ratings_ == pytest.approx(BradleyTerry().fit(battles).ratings_)


@pytest.mark.parametrize("start", [np.zeros(3), np.array([0, np.inf])])
def test_a_start_without_sense_is_refused(start):
    with pytest.raises(ValueError, match="start must hold 2 strengths"):
        BradleyTerry().fit(Battles.from_arrays([0], [1], [0.5]), start)


@given(votes(scores=SOFT, connected=False))
def test_both_agree(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    assert largest_difference(battles, BradleyTerry().fit(battles)) < 1e-5


def test_a_wrong_rating_is_seen_at_its_size():
    battles = Battles.from_arrays([0, 1, 2], [1, 2, 0], [1, 1, 1])
    model = BradleyTerry().fit(battles)
    model.theta_ = model.theta_ + np.array([0.1, 0, 0])
    assert largest_difference(battles, model) == pytest.approx(0.1 * 400 / np.log(10))


def test_with_nobody_ranked_there_is_nothing_to_differ_on():
    battles = Battles.from_arrays([0], [1], [1])
    assert largest_difference(battles, BradleyTerry().fit(battles)) == 0


def test_a_second_opinion_that_does_not_settle_is_reported(monkeypatch):
    def never(*args, **options):
        raise RuntimeError("Did not converge after 1000 iterations")

    monkeypatch.setattr(choix, "ilsr_pairwise_dense", never)
    battles = Battles.from_arrays([0, 1], [1, 0], [1, 1])
    with pytest.raises(NotConvergedError, match="independent check"):
        largest_difference(battles, BradleyTerry().fit(battles))


def test_shares_and_votes_of_three():
    battles = Battles.from_arrays([0, 1, 0, 0], [1, 0, 1, 2], [1, 1, 0.5, 1], [1, 1, 2, 3])
    seen = observed_shares(battles)
    expected = [[math.nan, 0.5, 1], [0.5, math.nan, math.nan], [0, math.nan, math.nan]]
    assert seen.share == pytest.approx(np.array(expected), nan_ok=True)
    assert seen.votes.tolist() == [[0, 3, 1], [3, 0, 0], [1, 0, 0]]


@given(votes(scores=SOFT, connected=False))
def test_both_sides_of_a_pair_add_up(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    seen = observed_shares(battles)
    assert (seen.votes.sum(), (seen.votes == seen.votes.T).all()) == (2 * len(v.left), True)
    assert (np.isnan(seen.share) == (seen.votes == 0)).all()
    assert np.nansum(seen.share * seen.votes) == pytest.approx(len(v.left))


@given(votes(scores=SOFT))
def test_a_fit_expects_of_each_candidate_what_it_scored(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    seen = observed_shares(battles)
    theta = BradleyTerry().fit(battles).theta_
    expected = 1 / (1 + np.exp(theta - theta[:, None]))
    scored = np.nansum(seen.share * seen.votes, axis=1)
    assert np.nansum(expected * seen.votes, axis=1) == pytest.approx(scored, abs=1e-6)
