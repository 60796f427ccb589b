"""Places of candidates without a finite score, and which may be called number one."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.intervals import Sandwich, measurable
from ranking.stats.ranks import (
    Places,
    clear_leader,
    clear_number_one,
    direct_wins,
    independent_groups,
    place,
)

Rows = list[tuple[int, int, int, int]]  # winner, loser, votes won, votes lost; each on a prompt


def battles_of(rows: Rows, n_candidates: int) -> Battles:
    left, right, score, prompt = [], [], [], []
    for winner, loser, won, lost in rows:
        for turn in range(won + lost):
            left.append(winner)
            right.append(loser)
            score.append(1.0 if turn < won else 0.0)
            prompt.append(turn)
    return Battles.from_arrays(left, right, score, None, prompt, n_candidates)


def placed(battles: Battles, active: Any = None) -> tuple[Places, int | None]:
    """The places, and the clear number one."""
    sandwich = Sandwich().fit(battles)
    known = measurable(battles)
    theta = np.where(known, sandwich.model_.theta_, np.nan)
    low, high = (np.where(known, ends, np.nan) for ends in (sandwich.low_, sandwich.high_))
    n_clusters = sandwich.n_clusters_ if sandwich.n_clusters_ > 1 else None
    scored = clear_leader(theta, sandwich.covariance_, n_clusters=n_clusters)
    met = battles.clusters_per_candidate()
    places = place(battles.wins(), sandwich.model_.ratings_, met, low, high)
    return places, clear_number_one(places, scored, direct_wins(battles), active)


def ranks_of(rows: Rows, n_candidates: int) -> list[float | None]:
    found = placed(battles_of(rows, n_candidates))[0].rank.tolist()
    return [None if math.isnan(rank) else rank for rank in found]


def test_where_all_have_scores_ranks_are_theirs() -> None:
    places, _ = placed(battles_of([(0, 1, 20, 10), (1, 2, 20, 10), (0, 2, 22, 8)], 3))
    assert places.rank.tolist() == [1, 2, 3]
    assert np.isnan(places.low).all()
    assert places.n_above == 0


def test_possible_ranks_contain_the_rank_below_a_score_without_an_interval() -> None:
    places, _ = placed(battles_of([(0, 1, 20, 10), (1, 2, 20, 10), (3, 1, 3, 2)], 4))
    assert places.rank.tolist() == [1, 3, 4, 2]
    measured = [np.array([1.0, 1, 3, np.nan]), np.array([2.0, 2, 3, np.nan])]
    best, worst = (ends.tolist()[:3] for ends in places.among_all(*measured))
    assert (best, worst) == ([1, 1, 3], [2, 3, 4])


def test_the_unbeaten_is_above_and_the_winless_below() -> None:
    rows = [(0, 1, 10, 0), (1, 2, 20, 10), (2, 3, 9, 0)]
    places, _ = placed(battles_of(rows, 4))
    assert places.rank.tolist() == [1, 2, 3, 4]
    assert np.isnan(places.low).tolist() == [False, True, True, True]
    assert np.isnan(places.high).tolist() == [True, True, True, False]


@pytest.mark.parametrize(("won", "rank"), [(7, None), (8, 1)])
def test_it_takes_eight_prompts_to_be_placed(won: int, rank: float | None) -> None:
    assert ranks_of([(0, 1, won, 0), (1, 2, 20, 10)], 3)[0] == rank


def test_a_chain_through_few_votes_places_nobody() -> None:
    rows = [(0, 1, 20, 0), (1, 2, 3, 0), (2, 3, 20, 0)]
    assert ranks_of(rows, 4) == [None] * 4


def test_of_two_orders_without_scores_the_one_with_more_votes_is_shown() -> None:
    assert ranks_of([(0, 1, 20, 0), (2, 3, 25, 0)], 4) == [None, None, 1, 2]
    assert ranks_of([(0, 1, 20, 0), (2, 3, 20, 0)], 4) == [None] * 4


def test_the_bound_is_where_so_many_wins_have_a_chance_of_5_percent() -> None:
    wins = np.array([[0.0, 20, 0], [0, 0, 30], [0, 10, 0]])
    ratings = np.array([np.nan, 1050, 950])
    low, high = ratings - 30, ratings + 30
    places = place(wins, ratings, np.array([20, 40, 40]), low, high)
    share = 0.05 ** (1 / 20)
    assert places.low[0] == pytest.approx(1020 + 400 * math.log10(share / (1 - share)))
    fewer_prompts = place(wins, ratings, np.array([10, 40, 40]), low, high)
    share = 0.05 ** (1 / 10)
    assert fewer_prompts.low[0] == pytest.approx(1020 + 400 * math.log10(share / (1 - share)))


def test_ranges_leave_open_what_the_votes_leave_open() -> None:
    """The unbeaten candidate has only met the last one, so the first of the scored may be
    better."""
    wins = np.array([[0.0, 0, 8], [0, 0, 38], [0, 2, 0]])
    ratings = np.array([np.nan, 1250, 750])
    places = place(wins, ratings, np.array([8, 40, 40]), ratings - 90, ratings + 90)
    assert places.rank.tolist() == [1, 2, 3]
    assert (places.best[0], places.worst[0]) == (1, 2)
    best, worst = places.among_all(np.array([np.nan, 1, 2]), np.array([np.nan, 1, 2]))
    assert best.tolist() == [1, 1, 3]
    assert worst.tolist() == [2, 2, 3]
    assert places.leader(1) is None


def test_a_candidate_possibly_second_is_not_number_one() -> None:
    """The winless has met one candidate below the scored alone, so it may be the best."""
    wins = np.array([[0.0, 38, 12, 0], [2, 0, 0, 0], [0, 0, 0, 8], [0, 0, 0, 0]])
    ratings = np.array([1250, 750, np.nan, np.nan])
    places = place(wins, ratings, np.array([40, 40, 20, 8]), ratings - 90, ratings + 90)
    worst = places.among_all(np.array([1.0, 2, np.nan, np.nan]), np.array([1.0, 2, np.nan, np.nan]))
    assert worst[1].tolist() == [2, 4, 3, 4]
    assert places.leader(0) is None


def test_prompts_are_counted_where_they_are_known() -> None:
    met = independent_groups(
        np.array([0, 0, 0, 2]), np.array([1, 1, 2, 3]), np.array([5, 5, 6, -1]), np.full(4, 9)
    )
    assert met.tolist() == [2, 1, 9, 9]


def test_a_direct_win_is_a_t_test_over_prompts() -> None:
    generator = np.random.default_rng(3)
    prompt = np.repeat(np.arange(30), 2)
    for share in (0.5, 0.62, 0.7, 0.9):
        score = (generator.random(60) < share).astype(float)
        battles = Battles.from_arrays(np.zeros(60, int), np.ones(60, int), score, None, prompt)
        means = score.reshape(30, 2).mean(axis=1) - 0.5
        test = ttest_1samp(means, 0)
        expected = bool(test.pvalue < 0.05 and means.mean() > 0)
        assert direct_wins(battles).tolist() == [[False, expected], [False, False]]


def test_verdicts_that_agree_but_for_rounding_say_nothing_about_chance() -> None:
    prompt = np.repeat(np.arange(6), [1, 3, 3, 1, 3, 3])
    same = np.zeros(len(prompt), int)
    battles = Battles.from_arrays(same, same + 1, same + 0.9, None, prompt)
    assert not direct_wins(battles).any()  # six prompts are not eight


def test_a_candidate_that_lost_directly_is_not_number_one() -> None:
    """Stronger against the field, but beaten by the second in 19 of 20."""
    rows = [(0, 2, 38, 2), (0, 3, 38, 2), (1, 2, 20, 20), (1, 3, 20, 20), (1, 0, 19, 1)]
    battles = battles_of(rows, 4)
    theta = BradleyTerry().fit(battles).theta_
    assert theta.argmax() == 0
    assert placed(battles)[1] is None


def test_nobody_is_number_one_below_a_higher_score_of_few_votes() -> None:
    places, leader = placed(battles_of([(2, 3, 25, 2), (0, 2, 3, 1)], 4))
    assert places.rank[0] == 1
    assert leader is None


def test_nobody_is_number_one_beside_an_equal_score_of_few_votes() -> None:
    places, leader = placed(battles_of([(0, 2, 28, 3), (0, 1, 1, 1)], 3))
    assert places.rank.tolist() == [1, 1, 3]
    assert leader is None


@pytest.mark.parametrize(("won", "leader"), [(3, 0), (30, None)])
def test_a_group_apart_with_as_much_evidence_leaves_no_number_one(
    won: int, leader: int | None
) -> None:
    """The most candidates have scores, but nothing says that they are better than the other two."""
    rows = [(0, 1, 38, 2), (0, 2, 38, 2), (1, 2, 20, 20), (3, 4, won, min(won, 10))]
    places, found = placed(battles_of(rows, 5))
    assert places.rank.tolist()[:1] == [1]
    assert np.isnan(places.rank[3:]).all()
    assert found == leader
    archived = np.array([True, True, True, False, False])
    assert placed(battles_of(rows, 5), archived)[1] == 0
    assert placed(battles_of(rows, 5), np.arange(5) > 0)[1] is None


@pytest.mark.parametrize(("won", "leader"), [(4, 1), (5, None)])
def test_nobody_leads_whom_a_candidate_without_a_place_beats_each_time(
    won: int, leader: int | None
) -> None:
    """Without prompts, each of five raters may have preferred it 40 times."""
    assert placed(battles_of([(0, 1, won, 0), (1, 2, 38, 2)], 3))[1] == leader


def test_where_nobody_has_a_score_two_orders_leave_no_number_one() -> None:
    assert placed(battles_of([(0, 1, 20, 0)], 2))[1] == 0
    assert placed(battles_of([(0, 1, 20, 0), (2, 3, 20, 0)], 4))[1] is None


PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (3, 4)]
BOARDS = st.lists(
    st.tuples(st.sampled_from(PAIRS), st.integers(0, 30), st.sampled_from([0, 0, 1, 2, 5, 20])),
    min_size=1,
    max_size=7,
    unique_by=lambda row: row[0],
)


@settings(max_examples=150, deadline=None)
@given(BOARDS, st.lists(st.booleans(), min_size=5, max_size=5))
def test_a_candidate_beaten_by_another_does_not_lead(
    board: list[tuple[tuple[int, int], int, int]], archived: list[bool]
) -> None:
    battles = battles_of([(*pair, won, lost) for pair, won, lost in board], 5)
    places, leader = placed(battles, ~np.array(archived))
    if leader is None:
        return
    assert places.rank[leader] == 1
    assert not archived[leader]
    prompts = battles.clusters_per_candidate()
    apart = np.isnan(places.rank) & (prompts >= 8) & ~np.array(archived)
    assert not apart.any()
    for (first, second), won, lost in board:
        if leader not in (first, second):
            continue
        mine, theirs = (won, lost) if leader == first else (lost, won)
        assert not (mine == 0 and theirs >= 8)
        points = np.repeat([0.5, -0.5], [theirs, mine])
        if len(points) >= 5 and points.std() > 0:
            test = ttest_1samp(points, 0)
            assert not (test.statistic > 0 and test.pvalue < 0.05)


@settings(max_examples=60, deadline=None)
@given(BOARDS)
def test_ranks_hold_possible_ranks(board: list[tuple[tuple[int, int], int, int]]) -> None:
    places, _ = placed(battles_of([(*pair, won, lost) for pair, won, lost in board], 5))
    free = ~np.isnan(places.best)
    assert (places.best[free] <= places.rank[free]).all()
    assert (places.rank[free] <= places.worst[free]).all()
    assert np.nanmin(places.rank, initial=1) == 1
