"""Votes are checked and folded without losing any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.stats import arrays
from ranking.stats.battles import Battles
from tests.ranking.stats.helpers import SOFT, votes


def test_equal_votes_are_folded_whichever_side_they_were_on():
    battles = Battles.from_arrays([0, 1, 0, 1], [1, 0, 1, 0], [1, 0, 0.5, 1])
    assert battles.first.tolist() == [0, 0, 0]
    assert battles.second.tolist() == [1, 1, 1]
    assert battles.score.tolist() == [0, 0.5, 1]
    assert battles.count.tolist() == [1, 1, 2]
    assert battles.n_votes == battles.n_clusters == 4


def test_the_win_matrix_counts_ties_as_halves():
    battles = Battles.from_arrays([0, 0, 2], [1, 1, 0], [1, 0.5, 0.5])
    assert battles.wins().tolist() == [[0, 1.5, 0.5], [0.5, 0, 0], [0.5, 0, 0]]


def test_a_soft_score_is_the_score_and_not_a_weight():
    assert Battles.from_arrays([0], [1], [0.8]).wins()[0, 1] == 0.8


def test_votes_of_two_clusters_stay_apart():
    battles = Battles.from_arrays([0, 0, 0], [1, 1, 1], [1, 1, 1], cluster=[-7, 50, 50])
    assert battles.cluster.tolist() == [0, 1]
    assert battles.count.tolist() == [1, 2]
    assert battles.n_clusters == 2


def test_votes_without_weight_or_count_are_no_votes():
    battles = Battles.from_arrays(
        [0, 0, 0], [1, 1, 1], [1, 0, 0], weight=[1, 0, 2], count=[3, 1, 0], cluster=[1, 2, 3]
    )
    assert battles.wins().tolist() == [[0, 3], [0, 0]]
    assert battles.n_clusters == 1


def test_no_votes_are_fine_when_the_candidates_are_counted():
    battles = Battles.from_arrays([], [], [], n_candidates=3)
    assert battles.n_votes == 0
    assert battles.wins().shape == (3, 3)
    assert battles.votes_per_candidate().tolist() == [0, 0, 0]


def test_empty_columns_with_weights_and_clusters_are_fine():
    battles = Battles.from_arrays([], [], [], weight=[], cluster=[], n_candidates=2)
    assert battles.n_votes == battles.n_clusters == 0


def test_more_codes_than_fit_a_number_leave_the_votes_unfolded():
    n = 2**13
    rng = np.random.default_rng(0)
    left, score, weight = np.arange(n), rng.random(n), rng.random(n) + 1
    battles = Battles.from_arrays(
        left, left + 1, score, weight, cluster=np.arange(n), n_candidates=2**13 + 1
    )
    assert battles.n_votes == n
    assert battles.n_clusters == n
    assert np.allclose(battles.score, score)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_any_integer_type_will_do(dtype):
    left = np.array([0, 120, 3], dtype)
    right = np.array([1, 5, 120], dtype)
    same = Battles.from_arrays(left.astype(int), right.astype(int), [1, 0, 1]).wins()
    assert (Battles.from_arrays(left, right, [1, 0, 1]).wins() == same).all()


BAD = [
    ("left", {"left": [0, -1]}, "row 1 is -1"),
    ("left", {"left": [0, 9]}, "row 1 is 9"),
    ("left", {"left": [0.0, 1.0]}, "integers"),
    ("left", {"left": [[0, 1]]}, "one-dimensional"),
    ("left", {"left": [[0], [0, 1]]}, "one-dimensional"),
    ("left", {"left": ["a", "b"]}, "integers"),
    ("right", {"right": [1]}, "1 entries where left has 2"),
    ("right", {"right": [1, 3]}, "row 1 is 3"),
    ("left and right", {"right": [1, 1]}, "row 1 is 1"),
    ("score", {"score": [1]}, "1 entries"),
    ("score", {"score": [1, np.nan]}, "row 1 is nan"),
    ("score", {"score": [np.inf, 1]}, "row 0 is inf"),
    ("score", {"score": [1, 1.5]}, "row 1 is 1.5"),
    ("score", {"score": [1, 2.0]}, "row 1 is 2.0"),
    ("score", {"score": [-0.5, 1]}, "row 0 is -0.5"),
    ("score", {"score": [None, 1]}, "numbers"),
    ("score", {"score": ["1", "0"]}, "numbers"),
    ("weight", {"weight": [1, -1]}, "row 1 is -1"),
    ("weight", {"weight": [1, np.nan]}, "row 1 is nan"),
    ("weight", {"weight": [np.inf, 1]}, "row 0 is inf"),
    ("weight", {"weight": [1]}, "1 entries"),
    ("cluster", {"cluster": [0.5, 1]}, "integers"),
    ("cluster", {"cluster": [1]}, "1 entries"),
    ("count", {"count": [1, -2]}, "row 1 is -2"),
    ("n_candidates", {"n_candidates": -1}, "0 or more"),
    ("n_candidates", {"left": [], "right": [], "score": [], "n_candidates": None}, "no votes"),
]


@pytest.mark.parametrize(("argument", "change", "words"), BAD)
def test_bad_input_is_refused_by_name(argument, change, words):
    good = {"left": [0, 1], "right": [1, 2], "score": [1, 0.5], "n_candidates": 3}
    with pytest.raises(ValueError, match=f"^{argument} ") as caught:
        Battles.from_arrays(**good | change)
    assert words in str(caught.value)


def by_hand(v):
    wins = np.zeros((v.n, v.n))
    for a, b, score in zip(v.left, v.right, v.score, strict=True):
        wins[a, b] += score
        wins[b, a] += 1 - score
    return wins


@given(votes(connected=False))
def test_the_fast_fold_and_the_general_one_agree(v):
    fast = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    general = Battles.from_arrays(
        v.left, v.right, v.score, weight=np.ones(len(v.left)), n_candidates=v.n
    )
    for name in ("first", "second", "score", "weight", "count"):
        assert np.array_equal(getattr(fast, name), getattr(general, name)), name


@given(votes(scores=SOFT, connected=False))
def test_wins_are_what_counting_by_hand_gives(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    assert np.allclose(battles.wins(), by_hand(v), atol=1e-12)


@given(votes(scores=SOFT, connected=False), st.data())
def test_counts_equal_repeated_rows(v, data):
    n = len(v.left)
    times = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), int)
    cluster = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), int)
    told = Battles.from_arrays(
        v.left, v.right, v.score, cluster=cluster, count=times, n_candidates=v.n
    )
    columns = [np.repeat(column, times) for column in (v.left, v.right, v.score)]
    repeated = Battles.from_arrays(*columns, cluster=np.repeat(cluster, times), n_candidates=v.n)
    for name in ("first", "second", "score", "count", "cluster"):
        assert np.array_equal(getattr(told, name), getattr(repeated, name)), name


def test_clusters_of_a_candidate_are_those_that_it_has_votes_in():
    left, right, cluster = [0, 0, 1, 2, 0], [1, 1, 2, 1, 2], [7, 7, 9, 3, 9]
    votes = Battles.from_arrays(left, right, [1, 1, 0, 0.5, 1], None, cluster, 4)
    assert votes.clusters_per_candidate().tolist() == [2, 3, 2, 0]
    alone = Battles.from_arrays(left, right, [1, 1, 0, 0.5, 1], None, None, 4)
    assert alone.clusters_per_candidate().tolist() == alone.votes_per_candidate().tolist()
    none = Battles.from_arrays([], [], [], None, [], 2)
    assert none.clusters_per_candidate().tolist() == [0, 0]


@given(votes(), st.integers(0, 5))
def test_a_part_keeps_the_votes_inside_it(v, dropped):
    chosen = np.arange(v.n) != dropped
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    inside = battles.among(chosen)
    assert np.array_equal(inside.wins(), by_hand(v)[np.ix_(chosen, chosen)])


def test_chunks_of_a_large_input_add_up():
    rng = np.random.default_rng(3)
    left = rng.integers(0, 5, 300_000)
    right = (left + rng.integers(1, 5, 300_000)) % 5
    score = rng.integers(0, 3, 300_000) / 2
    wins = Battles.from_arrays(left, right, score).wins()
    expected = np.zeros((5, 5))
    np.add.at(expected, (left, right), score)
    np.add.at(expected, (right, left), 1 - score)
    assert np.array_equal(wins, expected)


def test_a_fault_in_the_last_chunk_is_found():
    left, right, score = np.zeros(300_000, int), np.ones(300_000, int), np.ones(300_000)
    score[-1] = np.nan
    with pytest.raises(ValueError, match="score must be from 0 to 1; row 299999 is nan"):
        Battles.from_arrays(left, right, score)


@given(votes(connected=False, max_candidates=4), st.integers(0, 2**40))
def test_many_clusters_are_folded_like_few(v, stride):
    """A code too wide to count into is sorted instead; the rows are the same."""
    few = np.arange(len(v.left)) % 3
    rows = [
        Battles.from_arrays(v.left, v.right, v.score, cluster=cluster, n_candidates=v.n)
        for cluster in (few, few * stride + few)
    ]
    for name in ("first", "second", "score", "count", "cluster"):
        assert np.array_equal(*(getattr(battles, name) for battles in rows))


@pytest.mark.parametrize("size", [50, 10**9])
def test_distinct_codes_are_the_same_whether_counted_or_sorted(size: int) -> None:
    codes = np.random.default_rng(1).integers(0, 50, 30)
    assert arrays.distinct(codes, size).tolist() == sorted(set(codes.tolist()))
    assert arrays.distinct(codes[:0], size).tolist() == []
