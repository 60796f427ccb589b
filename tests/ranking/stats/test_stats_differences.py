"""Two candidates compared, and how many more votes separate neighbours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.differences import Lead, compare, neighbours
from ranking.stats.intervals import Sandwich

ELO = 400 / np.log(10)


def votes_of_strengths(n=600, n_candidates=5, seed=2):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, n_candidates, n)
    right = (left + rng.integers(1, n_candidates, n)) % n_candidates
    truth = np.linspace(0.6, 0, n_candidates)
    p = 1 / (1 + np.exp(truth[right] - truth[left]))
    return left, right, np.where(rng.random(n) < 0.2, 0.5, rng.random(n) < p), left * 0


def fitted(**options):
    left, right, score, _ = votes_of_strengths(**options)
    return Sandwich().fit(Battles.from_arrays(left, right, score))


def test_the_interval_is_that_of_the_difference():
    covariance = np.array([[0.04, 0.03], [0.03, 0.04]])  # of the difference: 0.02
    found = compare([0.5, 0.1], covariance, 0, 1, n_clusters=21)
    t = stats.t.ppf(0.975, 20)
    assert found.elo == pytest.approx(0.4 * ELO)
    assert found.standard_error == pytest.approx(0.02**0.5 * ELO)
    assert found.low == pytest.approx((0.4 - t * 0.02**0.5) * ELO)
    assert found.high == pytest.approx((0.4 + t * 0.02**0.5) * ELO)
    assert found.lead is Lead.AHEAD


def test_the_probability_is_elo_s_and_so_is_its_interval():
    found = compare([0.5, 0.1], 0.02 * np.eye(2), 0, 1)
    for elo, chance in (
        (found.elo, found.probability),
        (found.low, found.probability_low),
        (found.high, found.probability_high),
    ):
        assert chance == pytest.approx(1 / (1 + 10 ** (-elo / 400)))


def test_an_anchor_moves_no_difference():
    left, right, score, _ = votes_of_strengths()
    battles = Battles.from_arrays(left, right, score)
    plain, anchored = Sandwich().fit(battles), Sandwich(model=BradleyTerry(anchor=1)).fit(battles)
    found = compare(plain.model_.theta_, plain.covariance_, 3, 1)
    assert found.elo == pytest.approx(anchored.ratings_[3] - anchored.ratings_[1])
    assert found.standard_error == pytest.approx(anchored.standard_errors_[3])


def test_turning_the_two_round_turns_everything():
    fit = fitted()
    forth = compare(fit.model_.theta_, fit.covariance_, 0, 4)
    back = compare(fit.model_.theta_, fit.covariance_, 4, 0)
    assert (back.elo, back.low, back.high) == pytest.approx((-forth.elo, -forth.high, -forth.low))
    assert back.probability_low == pytest.approx(1 - forth.probability_high)
    assert (forth.lead, back.lead) == (Lead.AHEAD, Lead.BEHIND)


def test_a_difference_within_chance_is_open():
    found = compare([0.1, 0.0], 0.02 * np.eye(2), 0, 1)
    assert found.lead is Lead.OPEN
    assert found.low < 0 < found.high
    assert found.probability_low < 0.5 < found.probability_high


@pytest.mark.parametrize(
    ("theta", "covariance", "n_clusters", "lead"),
    [
        ([np.nan, 1], np.diag([np.nan, 1]), None, Lead.NOT_COMPARABLE),
        ([np.nan, 1], np.eye(2), 3, Lead.NOT_COMPARABLE),
        ([0, 1], np.full((2, 2), np.nan), None, Lead.NO_VARIATION),
        ([0, 1], np.zeros((2, 2)), None, Lead.NO_VARIATION),
        ([0, 1], np.ones((2, 2)), None, Lead.NO_VARIATION),
        ([0, 1], np.eye(2), 4, Lead.FEW_CLUSTERS),
    ],
)
def test_what_cannot_be_known_is_nan_with_a_reason(theta, covariance, n_clusters, lead):
    found = compare(theta, covariance, 1, 0, n_clusters=n_clusters)
    assert found.lead is lead
    assert lead.reason
    assert np.isnan([found.standard_error, found.low, found.high, found.probability_low]).all()
    assert np.isnan(found.elo) == (lead is Lead.NOT_COMPARABLE)


def test_extreme_strengths_overflow_nothing():
    found = compare([800.0, -800.0], np.eye(2), 0, 1)
    assert found.probability == 1


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("i", {"i": 2}),
        ("j", {"j": -1}),
        ("i and j", {"j": 0}),
        ("confidence", {"confidence": 1}),
        ("scale", {"scale": 0}),
        ("theta", {"theta": [0, np.inf]}),
        ("covariance", {"covariance": np.eye(3)}),
        ("covariance", {"covariance": np.diag([1, np.inf])}),
    ],
)
def test_bad_input_is_refused_by_name(argument, change):
    good = {"theta": [0, 1], "covariance": np.eye(2), "i": 0, "j": 1}
    with pytest.raises(ValueError, match=rf"^{argument} must"):
        compare(**good | change)


def held_at(fit, battles, i, j, n):
    """The Sandwich-free variance of i - j after n more votes that confirm the estimate."""
    gap = fit.model_.theta_[i] - fit.model_.theta_[j]
    p = 1 / (1 + np.exp(-gap))
    more = Battles.from_arrays(
        np.r_[battles.first, i],
        np.r_[battles.second, j],
        np.r_[battles.score, p],
        count=np.r_[battles.count, n],
    )
    again = BradleyTerry().fit(more)
    assert again.theta_ == pytest.approx(fit.model_.theta_, abs=1e-7)
    c = again.covariance_
    return c[i, i] + c[j, j] - 2 * c[i, j]


def test_so_many_more_votes_and_no_fewer_separate_them():
    left, right, score, _ = votes_of_strengths()
    battles = Battles.from_arrays(left, right, score)
    fit = Sandwich().fit(battles)
    theta, robust, naive = fit.model_.theta_, fit.covariance_, fit.model_.covariance_
    open_ones = [n for n in neighbours(theta, robust, naive) if not n.separated]
    assert open_ones
    for pair in open_ones:
        i, j = pair.upper, pair.lower
        design = compare(theta, robust, i, j).standard_error ** 2
        design /= compare(theta, naive, i, j).standard_error ** 2
        gap = theta[i] - theta[j]
        assert gap > 1.959964 * np.sqrt(design * held_at(fit, battles, i, j, pair.votes))
        assert gap < 1.959964 * np.sqrt(design * held_at(fit, battles, i, j, pair.votes - 1))


@given(st.floats(0.02, 1), st.floats(0.005, 0.5), st.floats(0.3, 4), st.floats(-0.9, 0.9))
def test_it_is_where_the_difference_reaches_the_critical_value(gap, variance, design, together):
    naive = variance * np.array([[1, together], [together, 1]])
    (found,) = neighbours([0, gap], design * naive, naive, most=10**9)
    v, p = 2 * variance * (1 - together), 1 / (1 + np.exp(-gap))

    def excess(n):
        return 1.959964 * np.sqrt(design * v / (1 + n * p * (1 - p) * v)) - gap

    if excess(0) < 0:
        assert (found.separated, found.votes) == (True, 0)
    else:
        root = optimize.brentq(excess, 0, 1e9)
        assert found.votes == pytest.approx(np.ceil(root), abs=1, rel=1e-6)
        assert not found.separated


def test_neighbours_follow_the_board_and_leave_the_unranked_out():
    theta = [0.0, np.nan, 3.0, 0.1]
    covariance = 0.01 * np.eye(4)
    covariance[1] = covariance[:, 1] = np.nan
    found = neighbours(theta, covariance, covariance)
    assert [(n.upper, n.lower, n.separated) for n in found] == [(2, 3, True), (3, 0, False)]
    assert found[0].words == "clear lead"


@pytest.mark.parametrize("variance", [0.001, 0.1])
def test_votes_between_the_two_that_say_the_opposite_leave_no_forecast(variance):
    covariance, direct = variance * np.eye(2), np.array([[False, True], [False, False]])
    (found,) = neighbours([0.0, 0.3], covariance, covariance, direct=direct)
    assert (found.separated, found.votes, found.words) == (False, None, "too close to call")


@pytest.mark.parametrize(
    ("theta", "robust", "naive"),
    [
        ([1, 1], np.eye(2), np.eye(2)),
        ([1, 1 + 1e-9], np.eye(2), np.eye(2)),
        ([1, 1 + 1e-300], np.eye(2), np.eye(2)),
        ([0, 1], np.full((2, 2), np.nan), np.eye(2)),
        ([0, 1], np.zeros((2, 2)), np.eye(2)),
        ([0, 1], np.eye(2), np.full((2, 2), np.nan)),
        ([0, 900], 1e8 * np.eye(2), np.eye(2)),
    ],
)
def test_an_unknown_figure_is_no_number(theta, robust, naive):
    (found,) = neighbours(theta, robust, naive)
    assert (found.separated, found.votes) == (False, None)
    assert found.words == "too close to call"


def test_above_the_cap_it_is_too_close_to_call():
    arguments = ([0, 0.1], 0.5 * np.eye(2), 0.5 * np.eye(2))
    votes = neighbours(*arguments)[0].votes
    assert neighbours(*arguments, most=votes)[0].votes == votes
    assert neighbours(*arguments, most=votes - 1)[0].votes is None


def test_few_clusters_say_nothing_and_some_ask_for_more_votes():
    arguments = ([0, 0.3], 0.5 * np.eye(2), 0.5 * np.eye(2))
    few, some, many = (neighbours(*arguments, n_clusters=n)[0].votes for n in (4, 10, None))
    assert few is None
    assert some > many


@pytest.mark.parametrize("theta", [[], [1.0], [np.nan, 2.0]])
def test_a_candidate_that_is_alone_has_no_neighbours(theta):
    covariance = np.eye(len(theta))
    assert neighbours(theta, covariance, covariance) == []


def test_words_claim_no_more_digits_than_there_are():
    arguments = ([0, 0.3], 0.5 * np.eye(2))
    found = neighbours(*arguments, 0.5 * np.eye(2))[0]
    assert found.votes == 171
    assert found.words == "about 180 more votes"
    one = neighbours([0, 0.3], 0.01172 * np.eye(2), 0.5 * np.eye(2))[0]
    assert one.words == "about 1 more vote"


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ValueError, match=r"^most must"):
        neighbours([0, 1], np.eye(2), np.eye(2), most=-1)
    with pytest.raises(ValueError, match=r"^independent must"):
        neighbours([0, 1], np.eye(2), np.eye(3))
