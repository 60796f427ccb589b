"""How often pairs are drawn: the parts, what they are for, and their limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from ranking.stats import pairing
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.pairing import PRIOR, pair_shares
from tests.ranking.stats.helpers import SOFT, votes


def shares(theta, wins, critical=2.0, variance=0.01):
    """Of all pairs; each candidate's variance is the same, and all are independent."""
    pairs = np.triu_indices(len(theta), 1)
    covariance = np.diag(np.full(len(theta), variance))
    found = pair_shares(pairs, theta, covariance, wins, critical)
    assert found.total.sum() == pytest.approx(1)
    return found, list(zip(*(side.tolist() for side in pairs), strict=True))


def level(n, votes=40.0, last=40.0):
    """This number of votes on every pair, and on those of the last, half of them won by either."""
    counts = np.full((n, n), votes)
    counts[-1] = counts[:, -1] = last
    return counts / 2 * (1 - np.eye(n))


def test_each_part_asks_its_own_question():
    # Three could be first; the order of the next two is open; the last three stand alone.
    theta = [3.05, 3.0, 2.95, 2.0, 1.9, 0.0, -2.0, -4.0]
    found, pairs = shares(theta, level(8, last=2.0))
    named = {
        name: dict(zip(pairs, getattr(found, name), strict=True))
        for name in ("first", "order", "newcomers", "even")
    }
    assert {pair for pair, share in named["first"].items() if share} == {(0, 1), (0, 2), (1, 2)}
    assert {pair for pair, share in named["order"].items() if share} == {(3, 4)}
    assert {pair for pair, share in named["newcomers"].items() if share} == {
        (i, 7) for i in range(7)
    }
    assert all(named["even"].values())


def test_half_of_the_first_part_is_with_the_leader():
    found, pairs = shares(np.linspace(0.02, 0, 8), level(8))
    with_leader = sum(share for pair, share in zip(pairs, found.first, strict=True) if 0 in pair)
    assert found.first.sum() == pytest.approx(0.4)
    assert with_leader == pytest.approx(0.2)
    assert found.even.sum() == pytest.approx(0.6)  # nobody's order is open besides, nobody is new


def test_no_pair_gets_more_than_the_limits():
    theta = [5.05, 5.0, *np.linspace(0, -20, 6)]  # two could be first, who have one pair
    found, pairs = shares(theta, level(8))
    most = 3 / 28
    assert found.first[pairs.index((0, 1))] == pytest.approx(most)
    assert found.total.max() <= most + 0.05 + 1e-12
    assert found.even.sum() == pytest.approx(1 - most)


def test_the_even_part_adds_little_to_a_pair_that_is_asked_for():
    wins = level(8)
    wins[0, 1] = wins[1, 0] = 0.0  # without a vote, its even share would be a quarter
    found, pairs = shares([5.05, 5.0, *np.linspace(0, -20, 6)], wins)
    assert found.total[pairs.index((0, 1))] == pytest.approx(3 / 28 + 0.05)


def test_the_even_part_goes_to_those_with_fewer_votes():
    wins = level(6)
    wins[2, 3] = wins[3, 2] = 80.0
    found, pairs = shares(np.linspace(0, -20, 6), wins)
    counts = np.array([wins[pair] + wins[pair[::-1]] for pair in pairs])
    assert np.ptp(found.even * np.sqrt(counts + 1)) < 1e-12
    assert not (found.first + found.order + found.newcomers).any()


@pytest.mark.parametrize(("votes_each", "is_new"), [(29, True), (31, False), (45, False)])
def test_a_newcomer_has_few_votes(votes_each, is_new):
    found, _ = shares(np.linspace(0, -20, 6), level(6, 10.0, votes_each / 5))
    assert found.newcomers.any() == is_new


def test_a_newcomer_has_less_than_half_the_median():
    assert shares(np.linspace(0, -20, 6), level(6, 100.0, 40.0))[0].newcomers.any()


def test_without_intervals_there_are_newcomers_and_an_even_share():
    unknown = np.full((4, 4), np.nan)
    found = pair_shares(np.triu_indices(4, 1), np.full(4, np.nan), unknown, np.zeros((4, 4)))
    assert not (found.first + found.order).any()
    assert found.newcomers.sum() == pytest.approx(0.7)
    assert found.total == pytest.approx(np.full(6, 1 / 6))


def test_one_without_a_score_could_be_first_once_it_is_no_newcomer():
    """It has won every vote."""
    wins = np.pad(level(5, 10.0, 10.0), (0, 1))
    wins[5, :5] = 7
    theta = np.append(np.zeros(5), np.nan)
    covariance = np.full((6, 6), np.nan)
    covariance[:5, :5] = 0.01 * np.eye(5)
    pairs = np.triu_indices(6, 1)
    has_it = pairs[1] == 5
    found = pair_shares(pairs, theta, covariance, wins, 6.0)
    assert (found.first[has_it] > 0).all()
    assert not found.newcomers.any()
    wins[5, :5] = 5  # fewer than 30
    found = pair_shares(pairs, theta, covariance, wins, 6.0)
    assert not found.first[has_it].any()
    assert (found.newcomers > 0).tolist() == has_it.tolist()


def test_only_pairs_that_can_be_drawn_take_part():
    """The best candidate is archived, so somebody else could be first."""
    theta, covariance = np.array([5.0, 0.1, 0.0, -9.0]), 0.01 * np.eye(4)
    found = pair_shares((np.array([1, 2]), np.array([2, 3])), theta, covariance, level(4), 2.0)
    assert found.first.tolist() == [pytest.approx(0.2), 0]
    assert found.total.sum() == pytest.approx(1)
    assert pair_shares((np.zeros(0, int),) * 2, theta, covariance, level(4)).total.size == 0


def test_the_unranked_stand_where_prior_and_votes_balance():
    wins = np.array([[0, 20, 10, 0], [15, 0, 0, 3], [0, 0, 0, 0], [0, 0, 9, 0.0]])
    theta = np.array([0.3, -0.3, np.nan, np.nan])

    def loss(free):
        x = np.r_[theta[:2], free]
        gap = x[:, None] - x[None, :]
        used = np.ones((4, 4))
        used[:2, :2] = 0
        return (used * wins * np.logaddexp(0, -gap)).sum() + (free**2).sum() / 2 / PRIOR**2

    best = optimize.minimize(loss, np.zeros(2), tol=1e-12).x
    assert pairing._place_unranked(theta, wins) == pytest.approx(np.r_[theta[:2], best], abs=1e-4)


def test_an_error_that_is_not_known_comes_from_prior_and_votes():
    known = np.full((3, 3), np.nan)
    known[:2, :2] = [[0.1, -0.1], [-0.1, 0.1]]
    votes = np.array([[0, 9, 6], [9, 0, 2], [6, 2, 0.0]])
    found = pairing._complete_covariance(known, np.zeros(3), votes)
    # A proper normal in place of the singular one, and the textbook's inverse.
    start = np.zeros((3, 3))
    start[:2, :2], start[2, 2] = known[:2, :2] + 1e-9 * np.eye(2), PRIOR**2
    met = np.array([[6, 0, -6], [0, 2, -2], [-6, -2, 8.0]]) / 4
    assert found == pytest.approx(np.linalg.inv(np.linalg.inv(start) + met), abs=1e-6)


@given(votes(scores=SOFT, connected=False), st.one_of(st.none(), st.floats(1.9, 4)))
def test_every_pair_can_be_drawn_for_any_ranking(v, critical):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    model, wins, pairs = BradleyTerry().fit(battles), battles.wins(), np.triu_indices(v.n, 1)
    found = pair_shares(pairs, model.theta_, model.covariance_, wins, critical)
    most = max(0.1, 3 / len(pairs[0]))
    assert found.total.sum() == pytest.approx(1)
    assert (found.even > 0).all()
    assert (found.first + found.order + found.newcomers <= most + 1e-9).all()
    assert (found.total <= most + 0.05 + 1e-9).all()


def test_extreme_strengths_overflow_nothing():
    shares([900, 0, -900], np.zeros((3, 3)), variance=1e6)


HALF = np.array([[1, np.nan], [np.nan, 1]])


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("theta", {"theta": [0, np.inf]}),
        ("covariance", {"covariance": np.eye(3)}),
        ("covariance", {"covariance": HALF}),
        ("wins", {"wins": np.zeros(2)}),
        ("wins", {"wins": [[0, np.inf], [0, 0]]}),
        ("wins", {"wins": [[0, -1], [0, 0]]}),
    ],
)
def test_bad_input_is_refused_by_name(argument, change):
    good = {"theta": [0, 1], "covariance": np.eye(2), "wins": np.zeros((2, 2))}
    with pytest.raises(ValueError, match=rf"^{argument} must be"):
        pair_shares(np.triu_indices(2, 1), **{**good, **change})
