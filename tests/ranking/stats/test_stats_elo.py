"""Online Elo and its interval."""

import numpy as np
import pytest
from hypothesis import given

from ranking.stats.elo import Elo
from ranking.stats.intervals import NoInterval
from tests.ranking.stats.helpers import SOFT, votes


def test_the_first_win_moves_half_of_k():
    assert Elo(k=4).fit([0], [1], [1]).ratings_.tolist() == [1002, 998]


def test_the_second_win_moves_less():
    expected = 1 / (1 + 10 ** (-4 / 400))
    assert Elo(k=4).fit([0, 0], [1, 1], [1, 1]).ratings_[0] == pytest.approx(
        1002 + 4 * (1 - expected)
    )


def test_order_matters_here():
    left, right, score = np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([1.0, 1, 1])
    forth = Elo().fit(left, right, score).ratings_
    assert not np.allclose(forth, Elo().fit(left[::-1], right[::-1], score[::-1]).ratings_)


@given(votes(scores=SOFT, connected=False))
def test_no_points_are_made_or_lost(v):
    assert Elo(k=32).fit(v.left, v.right, v.score, v.n).ratings_.sum() == pytest.approx(1000 * v.n)


@given(votes(scores=SOFT))
def test_it_is_the_textbook_s_loop(v):
    ratings = np.full(v.n, 1000.0)
    for a, b, score in zip(v.left, v.right, v.score, strict=True):
        move = 8 * (score - 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / 400)))
        ratings[a] += move
        ratings[b] -= move
    assert Elo(k=8).fit(v.left, v.right, v.score, v.n).ratings_ == pytest.approx(ratings)


def test_chunks_follow_on_each_other():
    rng = np.random.default_rng(0)
    left = rng.integers(0, 3, 70_000)
    right, score = (left + 1) % 3, rng.random(70_000)
    ratings = [1000.0] * 3
    for a, b, s in zip(left, right, score, strict=True):
        move = 4 * (s - 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / 400)))
        ratings[a] += move
        ratings[b] -= move
    assert Elo().fit(left, right, score).ratings_ == pytest.approx(ratings, abs=1e-8)


def test_no_votes_leave_everybody_at_the_start():
    model = Elo(start=1500).fit([], [], [], 2)
    assert model.ratings_.tolist() == [1500, 1500]
    assert model.votes_.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "value"), [("k", 0), ("k", 500), ("k", np.nan), ("scale", 0), ("start", np.inf)]
)
def test_hyperparameters_without_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Elo(**{name: value}).fit([0], [1], [1])


@pytest.mark.parametrize(
    ("argument", "votes"),
    [("score", ([0], [1], [np.nan])), ("right", ([0], [1, 2], [1])), ("left", ([5], [1], [1]))],
)
def test_bad_votes_are_refused_by_name(argument, votes):
    with pytest.raises(ValueError, match=f"^{argument} "):
        Elo().fit(*votes, 3)


def many():
    rng = np.random.default_rng(4)
    left = rng.integers(0, 3, 400)
    return left, (left + rng.integers(1, 3, 400)) % 3, rng.choice([0, 0.5, 1], 400), left * 0


def test_the_interval_surrounds_the_rating_and_obeys_its_seed():
    left, right, score, _ = many()
    model = Elo(k=16)
    found = model.interval(left, right, score, random_state=3)
    assert found.reason is None
    assert (found.low < model.ratings_).all()
    assert (model.ratings_ < found.high).all()
    assert found.samples.shape == (100, 3)
    again = model.interval(left, right, score, random_state=3)
    assert np.array_equal(found.samples, again.samples)
    assert not np.array_equal(found.samples, model.interval(left, right, score).samples)


def test_every_replicate_conserves_the_total():
    assert Elo().interval(*many()[:3]).samples.sum(axis=1) == pytest.approx(3000)


def test_votes_of_one_cluster_are_drawn_together():
    # Ten clusters of ten equal votes say as little as ten votes: the interval is wider.
    rng = np.random.default_rng(1)
    score = np.repeat(rng.choice([0.0, 1.0], 10), 10)
    left, right, cluster = np.zeros(100, int), np.ones(100, int), np.repeat(np.arange(10), 10)
    together = Elo().interval(left, right, score, cluster)
    apart = Elo().interval(left, right, score)
    assert np.ptp([together.low[0], together.high[0]]) > 1.5 * np.ptp([apart.low[0], apart.high[0]])


def test_replicates_are_shuffled_so_that_no_order_is_favoured():
    # Left wins first and right wins later: in this order left always ends far behind.
    left, right, score = [0] * 200, [1] * 200, [1.0] * 100 + [0.0] * 100
    model = Elo(k=32)
    samples = model.interval(left, right, score).samples[:, 0]
    assert model.ratings_[0] < 800
    assert np.median(samples) == pytest.approx(1000, abs=30)


@pytest.mark.parametrize(
    ("votes", "cluster", "reason"),
    [
        (([0] * 6, [1] * 6, [0.5] * 6), None, NoInterval.NO_DECISIVE_VOTE),
        (([0] * 6, [1] * 6, [1] * 6), [1, 1, 1, 2, 3, 4], NoInterval.FEW_CLUSTERS),
        (([], [], []), None, NoInterval.NOTHING_RANKED),
    ],
)
def test_where_chance_cannot_be_measured_there_is_no_interval(votes, cluster, reason):
    found = Elo().interval(*votes, cluster, 2)
    assert found.reason is reason
    assert np.isnan([found.low, found.high]).all()


def test_a_candidate_without_votes_has_no_interval():
    left, right, score, _ = many()
    found = Elo().interval(left, right, score, n_candidates=4)
    assert np.isnan(found.low).tolist() == [False] * 3 + [True]
