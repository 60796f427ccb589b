"""Triads with three majorities, counted one by one."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.stats.battles import Battles
from ranking.stats.connectivity import Transitivity, transitivity

MATRICES = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, 2), min_size=n, max_size=n), min_size=n, max_size=n
    ).map(np.array)
)


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


def test_a_lead_by_rounding_is_no_majority():
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
