"""If there is no answer, the reason replaces the number."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.connectivity import Status, Transitivity, transitivity

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
    ("a soft score", [*TRADE, (2, 0, 0.9)], 2, Status.RANKED),
    ("a soft score of next to nothing", [*TRADE, (2, 0, 0.999)], 2, Status.UNDEFEATED),
    ("many of next to nothing", [*TRADE, *[(2, 0, 1 - 1e-8)] * 60], 2, Status.UNDEFEATED),
    ("half a vote in many", [*TRADE, *[(2, 0, 0.999)] * 500], 2, Status.RANKED),
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


def test_equal_pools_rank_the_one_with_more_votes():
    assert fit([(0, 1, 0.5), (2, 3, 0.5), (2, 3, 1.0)], 4).components_.tolist() == [1, 1, 0, 0]


def test_of_two_equal_pools_neither_is_preferred():
    model = fit([(0, 1, 0.5), (2, 3, 0.5), (4, 0, 0.0)], 5)
    assert not model.ranked_.any()
    assert model.components_.tolist()[:4] in ([1, 1, 2, 2], [2, 2, 1, 1])
    assert model.status_[:4] == (Status.DISCONNECTED,) * 4
    above = fit([(0, 1, 0.5), (2, 3, 0.5), *[(0, 2, 1.0)] * 9], 4)
    assert not above.ranked_.any()


@given(
    st.integers(2, 6).flatmap(
        lambda n: st.tuples(
            st.permutations(range(n)),
            st.lists(
                st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.sampled_from([0.5, 1])),
                max_size=12,
            ),
        )
    )
)
def test_who_has_a_score_does_not_depend_on_the_order_of_candidates(board):
    order, votes = board
    votes = [vote for vote in votes if vote[0] != vote[1]]
    model = fit(votes, len(order))
    renumbered = fit([(order[a], order[b], score) for a, b, score in votes], len(order))
    assert model.status_ == tuple(renumbered.status_[place] for place in order)
    assert model.ratings_ == pytest.approx(renumbered.ratings_[list(order)], nan_ok=True)


def test_three_hundred_candidates_with_five_votes():
    model = fit([(0, 1, 1.0), (1, 0, 1.0), (2, 3, 1.0), (4, 0, 1.0), (5, 6, 0.0)], 300)
    assert model.ranked_.sum() == 2
    assert model.status_[4] is Status.UNDEFEATED
    assert model.status_.count(Status.NO_VOTES) == 293


def test_a_vote_of_weight_zero_connects_nobody():
    battles = Battles.from_arrays([0, 1], [1, 0], [1, 1], weight=[1, 0])
    assert not BradleyTerry().fit(battles).ranked_.any()


MATRICES = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, 2), min_size=n, max_size=n), min_size=n, max_size=n
    ).map(np.array)
)


def test_a_win_is_a_win_however_little_its_rater_weighs():
    score, weight = [1.0] * 24 + [0.0], [1.0] * 24 + [0.1]
    battles = Battles.from_arrays([0] * 25, [1] * 25, score, weight)
    model = BradleyTerry().fit(battles)
    assert model.status_ == (Status.RANKED, Status.RANKED)
    assert model.ratings_[0] - model.ratings_[1] == pytest.approx(400 * math.log10(240))


def one_by_one(wins):
    triads = transitive = 0
    for members in combinations(range(len(wins)), 3):
        leads = [(i, j) for i in members for j in members if wins[i, j] > wins[j, i]]
        triads += len(leads) == 3
        transitive += len(leads) == 3 and len({winner for winner, _ in leads}) == 2
    return Transitivity(triads, transitive)


@given(MATRICES)
def test_it_is_the_count_one_by_one(wins):
    assert transitivity(wins) == one_by_one(wins)


def test_a_cycle_and_an_order():
    cycle = Battles.from_arrays([0, 1, 2], [1, 2, 0], [1, 1, 1]).wins()
    order = Battles.from_arrays([0, 1, 0], [1, 2, 2], [1, 1, 1]).wins()
    assert transitivity(cycle).share == 0
    assert transitivity(order).share == 1


def test_without_triads_the_share_is_unknown():
    assert math.isnan(transitivity(np.zeros((0, 0))).share)
    assert math.isnan(transitivity(np.ones((3, 3))).share)


def test_a_lead_by_rounding_is_not_a_majority():
    wins = np.array([[0, 0.1 + 0.2, 1], [0.3, 0, 1], [0, 0, 0]])
    assert transitivity(wins).triads == 0


@pytest.mark.parametrize(
    ("wins", "message"),
    [
        (np.zeros((2, 3)), "of shape"),
        (np.zeros(4), "of shape"),
        ([[0, -1], [1, 0]], "not negative"),
        ([[0, math.nan], [1, 0]], "finite"),
    ],
)
def test_other_matrices_are_refused(wins, message):
    with pytest.raises(ValueError, match=f"wins must be .*{message}"):
        transitivity(wins)


@pytest.mark.data
def test_a_crowd(crowd):
    found = transitivity(Battles.from_arrays(crowd.left, crowd.right, crowd.score).wins())
    assert (found.transitive, found.triads, round(found.share, 4)) == (4739, 5249, 0.9028)
