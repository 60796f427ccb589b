"""Rao-Kupper: against a general optimiser, finite differences and a linear program."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, linprog, minimize

from ranking.stats.battles import Battles, Outcomes
from ranking.stats.bradley_terry import BradleyTerry, predicted_shares
from ranking.stats.ties import NoTieModel, RaoKupper
from tests.ranking.stats.helpers import votes


def fitted(v, **columns):
    return RaoKupper().fit(Battles.from_arrays(v.left, v.right, v.score, **columns))


def loss(x, left, right, score, weight):
    """Minus the log-likelihood, vote by vote, from the three probabilities."""
    gap, eta = x[left] - x[right], x[-1]
    win, lose = 1 / (1 + np.exp(eta - gap)), 1 / (1 + np.exp(eta + gap))
    chance = np.where(score == 1, win, np.where(score == 0, lose, 1 - win - lose))
    return -weight @ np.log(chance)


def votes_with_ties(n=400):
    rng = np.random.default_rng(4)
    left = rng.integers(0, 5, n)
    right = (left + rng.integers(1, 5, n)) % 5
    return left, right, rng.choice([0, 0.5, 1], n, p=[0.3, 0.3, 0.4]), rng.integers(1, 4, n)


def test_a_general_optimiser_finds_the_same():
    columns = votes_with_ties()
    model = RaoKupper().fit(Battles.from_arrays(*columns))
    start = np.append(np.zeros(5), 0.5)
    found = minimize(loss, start, columns, tol=1e-10, bounds=[(None, None)] * 5 + [(1e-3, None)])
    assert model.log_likelihood_ == pytest.approx(-found.fun, abs=1e-7)
    assert model.eta_ == pytest.approx(found.x[-1], abs=1e-4)
    assert model.theta_ == pytest.approx(found.x[:5] - found.x[:5].mean(), abs=1e-4)
    assert model.ratings_ == pytest.approx(1000 + 400 / math.log(10) * model.theta_)
    assert model.reason_ is None
    assert model.n_iter_ < 10


def test_derivatives_are_those_of_finite_differences():
    outcomes = Outcomes.count(Battles.from_arrays(*votes_with_ties()))
    x = np.array([0.3, -0.2, 0.9, -1.5, 0.5, 0.7])
    gradient, information = outcomes.derivatives(x)
    assert outcomes.log_likelihood(x) == pytest.approx(-loss(x, *votes_with_ties()))
    slopes = approx_fprime(x, outcomes.log_likelihood, 1e-6)
    assert gradient == pytest.approx(slopes, rel=1e-4, abs=1e-3)
    bends = approx_fprime(x, lambda y: outcomes.derivatives(y)[0], 1e-6)
    assert information == pytest.approx(-bends, rel=1e-4, abs=1e-3)


def test_errors_are_those_of_the_inverse_information():
    left, right, score, weight = votes_with_ties()
    model = RaoKupper().fit(Battles.from_arrays(left, right, score, weight))
    contrast = np.zeros((6, 5))  # from strengths of sum 0 and eta to four free strengths and eta
    contrast[:4, :4], contrast[4, :4], contrast[5, 4] = np.eye(4), -1, 1
    x = np.append(model.theta_, model.eta_)
    information = Outcomes.count(Battles.from_arrays(*votes_with_ties())).derivatives(x)[1]
    expected = contrast @ np.linalg.inv(contrast.T @ information @ contrast) @ contrast.T
    assert model.covariance_ == pytest.approx(expected[:5, :5])
    assert model.eta_error_ == pytest.approx(math.sqrt(expected[5, 5]))
    errors = np.sqrt(np.diag(expected)[:5]) * 400 / math.log(10)
    assert model.standard_errors_ == pytest.approx(errors)


def test_two_candidates_get_the_odds_they_showed():
    votes = [1] * 5 + [0.5] * 3 + [0] * 2
    model = RaoKupper().fit(Battles.from_arrays([0] * 10, [1] * 10, votes))
    assert model.probabilities(0, 1) == pytest.approx((0.5, 0.3, 0.2))
    assert model.probabilities(1, 0) == pytest.approx((0.2, 0.3, 0.5))


def test_probabilities_add_up_and_give_the_win_matrix():
    model = RaoKupper().fit(Battles.from_arrays(*votes_with_ties(), n_candidates=6))
    i, j = np.indices((6, 6))
    win, tie, loss = model.probabilities(i, j)
    ranked = slice(0, 5)
    assert (win + tie + loss)[ranked, ranked] == pytest.approx(1)
    assert np.isnan(win[5]).all()
    off = ~np.eye(6, dtype=bool)
    shares = predicted_shares(model.theta_, model.eta_)
    assert shares[off] == pytest.approx((win + tie / 2)[off], nan_ok=True)


@pytest.mark.parametrize("bad", [-1, 5, 0.5])
def test_candidates_that_are_not_there_have_no_odds(bad):
    model = RaoKupper().fit(Battles.from_arrays(*votes_with_ties()))
    with pytest.raises(ValueError, match="j must hold integers from 0 to 4"):
        model.probabilities(0, bad)


def far_apart_strengths_exist(v):
    """Whether strengths put winners 1 above losers and ties within 1: no maximum then."""
    gap = np.eye(v.n)[v.left] - np.eye(v.n)[v.right]
    rows = [-gap[v.score == 1], gap[v.score == 0], gap[v.score == 0.5], -gap[v.score == 0.5]]
    bound = np.concatenate(
        [np.full(len(row), b) for row, b in zip(rows, [-1, -1, 1, 1], strict=True)]
    )
    return linprog(np.zeros(v.n), np.vstack(rows), bound, bounds=(None, None)).status == 0


@given(votes())
def test_a_fit_is_reported_exactly_when_a_maximum_exists(v):
    model = fitted(v)
    if far_apart_strengths_exist(v):
        assert model.reason_ in (NoTieModel.ONLY_TIES, NoTieModel.UNBOUNDED)
        assert np.isnan(model.ratings_).all()
        assert math.isnan(model.eta_)
    else:
        assert model.reason_ is None
        x = np.append(model.theta_, model.eta_)
        outcomes = Outcomes.count(Battles.from_arrays(v.left, v.right, v.score))
        assert outcomes.derivatives(x)[0] == pytest.approx(0, abs=1e-8)
        assert (model.standard_errors_ > 0).all()


@given(votes(), st.randoms(use_true_random=False))
def test_sides_and_names_do_not_matter_and_weights_are_repeats(v, random):
    order = list(range(v.n))
    random.shuffle(order)
    place = np.array(order)
    model = fitted(v)
    turned = RaoKupper().fit(Battles.from_arrays(place[v.right], place[v.left], 1 - v.score))
    assert turned.ratings_[place] == pytest.approx(model.ratings_, abs=1e-6, nan_ok=True)
    assert turned.reason_ == model.reason_
    doubled = fitted(v, weight=np.full(len(v.left), 2.0))
    repeated = fitted(v, count=np.full(len(v.left), 2))
    assert doubled.eta_ == pytest.approx(model.eta_, abs=1e-9, nan_ok=True)
    assert doubled.standard_errors_ == pytest.approx(repeated.standard_errors_, nan_ok=True)


def test_without_ties_it_is_bradley_terry():
    battles = Battles.from_arrays([0, 1, 2, 0], [1, 2, 0, 1], [1, 1, 1, 0])
    model, plain = RaoKupper(center=1500).fit(battles), BradleyTerry(center=1500).fit(battles)
    assert model.reason_ is NoTieModel.NO_TIES
    assert model.reason_.reason
    assert (model.eta_, math.isnan(model.eta_error_)) == (0, True)
    assert model.ratings_ == pytest.approx(plain.ratings_)
    assert model.log_likelihood_ == plain.log_likelihood_
    assert model.probabilities(0, 1).tie == 0
    assert np.isfinite(model.standard_errors_).all()


CANNOT = [
    ([0, 1], [1, 2], [0.5, 0.5], NoTieModel.ONLY_TIES),
    ([0, 0], [1, 1], [1, 0.5], NoTieModel.UNBOUNDED),
    ([0, 1, 0], [1, 2, 2], [0.5, 0.5, 1], NoTieModel.UNBOUNDED),
    ([0], [1], [1], NoTieModel.NOTHING_RANKED),
    ([], [], [], NoTieModel.NOTHING_RANKED),
]


@pytest.mark.parametrize(("left", "right", "score", "reason"), CANNOT)
def test_without_a_maximum_there_is_a_reason_and_no_number(left, right, score, reason):
    model = RaoKupper().fit(Battles.from_arrays(left, right, score, n_candidates=3))
    assert model.reason_ is reason
    assert reason.reason.endswith(".")
    numbers = [*model.ratings_, *model.standard_errors_, model.eta_, model.log_likelihood_]
    assert np.isnan(numbers).all()


def test_three_hundred_candidates_with_five_votes():
    battles = Battles.from_arrays(
        [7, 8, 9, 7, 8], [8, 9, 7, 8, 9], [1, 1, 1, 0.5, 0], n_candidates=300
    )
    model = RaoKupper().fit(battles)
    assert np.flatnonzero(~np.isnan(model.ratings_)).tolist() == [7, 8, 9]
    assert model.status_[0] == "no_votes"


def test_soft_scores_are_refused():
    with pytest.raises(ValueError, match=r"score must be 0, 0\.5 or 1"):
        RaoKupper().fit(Battles.from_arrays([0, 1], [1, 0], [0.8, 0.5]))


@pytest.mark.data
def test_a_crowd(crowd):
    model = RaoKupper().fit(Battles.from_arrays(crowd.left, crowd.right, crowd.score))
    assert round(model.eta_, 6) == 0.942348
    assert round(model.log_likelihood_, 3) == -8977.520
