"""Where there is no answer, the reason is said instead of a number."""

import numpy as np
import pytest

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.connectivity import Status

TRADE = [(0, 1, 1.0), (1, 0, 1.0)]  # two candidates that have beaten each other


def fit(rows, n_candidates):
    left, right, score = zip(*rows, strict=True) if rows else ([], [], [])
    return BradleyTerry().fit(Battles.from_arrays(left, right, score, n_candidates=n_candidates))


CASES = [
    ("never lost", [*TRADE, (2, 0, 1.0)], 2, Status.UNDEFEATED),
    ("never won", [*TRADE, (2, 0, 0.0)], 2, Status.WINLESS),
    ("no votes", TRADE, 2, Status.NO_VOTES),
    ("a pool of its own", [*TRADE, (0, 1, 1.0), (2, 3, 1.0), (3, 2, 1.0)], 2, Status.DISCONNECTED),
    ("undefeated elsewhere", [*TRADE, (2, 3, 1.0)], 2, Status.DISCONNECTED),
    ("a group above", [*TRADE, (0, 1, 0.5), (2, 3, 0.5), (2, 0, 1.0)], 3, Status.ABOVE),
    ("a group below", [*TRADE, (0, 1, 0.5), (2, 3, 0.5), (0, 2, 1.0)], 3, Status.BELOW),
    ("beaten by the same", [*TRADE, (3, 0, 1.0), (3, 2, 1.0)], 2, Status.DISCONNECTED),
    ("undefeated through a chain", [*TRADE, (2, 0, 1.0), (3, 2, 1.0)], 3, Status.UNDEFEATED),
    ("between", [*TRADE, (2, 0, 1.0), (3, 2, 1.0)], 2, Status.ABOVE),
    ("tied once", [*TRADE, (2, 0, 0.5)], 2, Status.RANKED),
    ("a soft score", [*TRADE, (2, 0, 0.999)], 2, Status.RANKED),
]


@pytest.mark.parametrize(
    ("rows", "who", "status"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_has_its_reason(rows, who, status):
    model = fit(rows, 4)
    assert model.status_[who] is status
    assert np.isnan(model.ratings_[who]) == (status is not Status.RANKED)
    assert bool(status.reason) == (status is not Status.RANKED)
    assert model.status_[0] is Status.RANKED


def test_one_win_ranks_nobody():
    model = fit([(0, 1, 1.0)], 3)
    assert model.status_ == (Status.UNDEFEATED, Status.WINLESS, Status.NO_VOTES)
    assert np.isnan(model.ratings_).all()
    assert np.isnan(model.log_likelihood_)
    assert np.isnan(model.covariance_).all()


def test_a_chain_of_wins_ranks_nobody():
    model = fit([(0, 1, 1.0), (1, 2, 1.0)], 3)
    assert model.status_ == (Status.UNDEFEATED, Status.DISCONNECTED, Status.WINLESS)


def test_the_only_candidate_is_told_so():
    assert fit([], 1).status_ == (Status.ONLY_CANDIDATE,)


def test_no_candidates_are_no_error():
    assert fit([], 0).ratings_.shape == (0,)


def test_a_circle_is_connected():
    assert fit([(0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0)], 3).ratings_ == pytest.approx([1000] * 3)


def test_of_two_pools_the_larger_is_ranked():
    pools = [(0, 1, 0.5), (2, 3, 0.5), (3, 4, 0.5)]
    model = fit(pools, 5)
    assert model.components_.tolist() == [1, 1, 0, 0, 0]
    assert np.isnan(model.ratings_).tolist() == [True, True, False, False, False]


def test_of_two_pools_of_one_size_the_one_with_more_votes_is_ranked():
    assert fit([(0, 1, 0.5), (2, 3, 0.5), (2, 3, 1.0)], 4).components_.tolist() == [1, 1, 0, 0]


def test_three_hundred_candidates_with_five_votes():
    model = fit([(0, 1, 1.0), (1, 0, 1.0), (2, 3, 1.0), (4, 0, 1.0), (5, 6, 0.0)], 300)
    assert model.ranked_.sum() == 2
    assert model.status_[4] is Status.UNDEFEATED
    assert model.status_.count(Status.NO_VOTES) == 293


def test_a_vote_of_weight_zero_connects_nobody():
    battles = Battles.from_arrays([0, 1], [1, 0], [1, 1], weight=[1, 0])
    assert not BradleyTerry().fit(battles).ranked_.any()
