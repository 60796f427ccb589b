"""Which pairs come next: the value of a vote, settled candidates, and newcomers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.pairing import PRIOR, pair_weights
from tests.ranking.stats.helpers import SOFT, votes

ELO = 400 / np.log(10)


def fitted(wins):
    first, second = np.nonzero(wins)
    battles = Battles.from_arrays(
        first,
        second,
        np.ones(len(first)),
        count=wins[first, second].astype(int),
        n_candidates=len(wins),
    )
    return BradleyTerry().fit(battles)


def played(n_votes, truth, seed=0):
    rng = np.random.default_rng(seed)
    wins = np.zeros((len(truth), len(truth)))
    vote(wins, truth, np.ones_like(wins), n_votes, rng)
    return wins


def vote(wins, truth, weights, n_votes, rng):
    first, second = np.triu_indices(len(truth), 1)
    chance = weights[first, second] / weights[first, second].sum()
    for pair in rng.choice(len(first), n_votes, p=chance):
        i, j = first[pair], second[pair]
        won = rng.random() < 1 / (1 + np.exp(truth[j] - truth[i]))
        wins[i, j] += won
        wins[j, i] += not won


def is_a_draw(weights):
    off = ~np.eye(len(weights), dtype=bool)
    assert np.array_equal(weights, weights.T)
    assert (weights[off] > 0).all()
    assert not weights.diagonal().any()
    assert np.triu(weights).sum() == pytest.approx(1)


def test_among_the_settled_only_the_votes_so_far_matter():
    wins = played(2000, [0.5, 0.2, 0, -0.3])
    counts = wins + wins.T
    model = fitted(wins)
    weights = pair_weights(model.theta_, model.covariance_, counts, target_error=1000)
    is_a_draw(weights)
    off = ~np.eye(4, dtype=bool)
    assert np.ptp((weights * np.sqrt(counts + 1))[off]) < 1e-12


def test_weights_are_proportional_to_variance_reduction():
    truth = np.array([0.9, 0.4, 0, -0.3, -1.0])
    wins = played(400, truth)
    wins[4] = wins[:, 4] = 0
    wins[4, [0, 3]] = wins[[0, 3], 4] = 2
    model = fitted(wins)
    errors = np.sqrt(model.covariance_.diagonal()) * ELO
    unsettled = errors > 60
    assert unsettled.tolist() == [False] * 4 + [True]
    weights = pair_weights(
        model.theta_, model.covariance_, wins + wins.T, 60, exploration=0, most_ratio=1e9
    )
    information = np.linalg.pinv(model.covariance_)
    p = 1 / (1 + np.exp(model.theta_[None, :] - model.theta_[:, None]))
    taken = np.zeros((5, 5))
    for i, j in zip(*np.triu_indices(5, 1), strict=True):
        d = np.eye(5)[i] - np.eye(5)[j]
        after = np.linalg.pinv(information + p[i, j] * (1 - p[i, j]) * np.outer(d, d))
        taken[i, j] = taken[j, i] = (model.covariance_ - after).diagonal()[unsettled].sum()
    assert weights == pytest.approx(2 * taken / taken.sum(), rel=1e-6)


def test_a_share_goes_everywhere_and_the_ratio_is_capped():
    wins = played(3000, np.zeros(6))
    wins[5] = wins[:, 5] = 0
    wins[5, 0] = wins[0, 5] = 1
    model = fitted(wins)
    arguments = model.theta_, model.covariance_, wins + wins.T, 60
    off = ~np.eye(6, dtype=bool)
    near_uniform = pair_weights(*arguments, exploration=1)
    told = pair_weights(*arguments, exploration=0)
    for exploration in (0.05, 0.3, 0.8):
        weights = pair_weights(*arguments, exploration=exploration)
        is_a_draw(weights)
        mixed = exploration * near_uniform + (1 - exploration) * told
        assert weights == pytest.approx(mixed, abs=0.001)
    assert near_uniform[:5, :5].sum() > 10 * told[:5, :5].sum()
    capped = pair_weights(*arguments, exploration=0, most_ratio=5)[off]
    assert capped.max() / capped.min() == pytest.approx(5)
    assert np.ptp(pair_weights(*arguments, most_ratio=1)[off]) < 1e-12


def test_a_newcomer_without_votes_is_asked_about_first():
    wins = np.pad(played(4000, [0.5, 0.2, 0, -0.3]), (0, 1))
    model = fitted(wins)
    assert np.isnan(model.theta_[4])
    weights = pair_weights(model.theta_, model.covariance_, wins + wins.T, target_error=40)
    is_a_draw(weights)
    assert weights[4].sum() > 0.9


def test_an_undefeated_one_is_sent_to_the_strong():
    wins = np.pad(played(4000, [1.5, 0.5, -0.5, -1.5]), (0, 1))
    wins[4, :4] = 5
    model = fitted(wins)
    arguments = model.theta_, model.covariance_, wins + wins.T, 40
    told = pair_weights(*arguments, wins=wins)[4, :4]
    assert (np.diff(told) < 0).all()
    middle = pair_weights(*arguments)[4, :4]  # told nothing of its wins
    assert told[0] / told[3] > 2 * middle[0] / middle[3]


def test_the_unranked_stand_where_prior_and_votes_balance(monkeypatch):
    from ranking.stats import pairing

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
    from ranking.stats import pairing

    known = np.full((3, 3), np.nan)
    known[:2, :2] = [[0.1, -0.1], [-0.1, 0.1]]
    votes = np.array([[0, 9, 6], [9, 0, 2], [6, 2, 0.0]])
    found = pairing._complete_covariance(known, np.zeros(3), votes)
    # A proper normal in place of the singular one, and the textbook's inverse.
    start = np.zeros((3, 3))
    start[:2, :2], start[2, 2] = known[:2, :2] + 1e-9 * np.eye(2), PRIOR**2
    met = np.array([[6, 0, -6], [0, 2, -2], [-6, -2, 8.0]]) / 4
    assert found == pytest.approx(np.linalg.inv(np.linalg.inv(start) + met), abs=1e-6)


@given(votes(scores=SOFT, connected=False), st.floats(1, 500))
def test_every_pair_can_be_drawn_for_any_ranking(v, target):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    model = BradleyTerry().fit(battles)
    wins = battles.wins()
    weights = pair_weights(model.theta_, model.covariance_, wins + wins.T, target, wins)
    is_a_draw(weights)
    off = weights[~np.eye(v.n, dtype=bool)]
    assert off.max() <= 1000.001 * off.min()
    # Names do not matter: the candidates in reverse order have the weights in reverse order.
    back = slice(None, None, -1)
    turned = pair_weights(
        model.theta_[back],
        model.covariance_[back, back],
        (wins + wins.T)[back, back],
        target,
        wins[back, back],
    )
    assert turned[back, back] == pytest.approx(weights, rel=1e-6)


def errors_after(adaptive, seed):
    """The standard error of one newcomer to 20 candidates after 200 votes, in Elo."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=21) * 0.5
    wins = np.pad(played(4000, truth[:20], seed), (0, 1))
    for _ in range(10):
        weights = np.ones((21, 21))
        if adaptive:
            model = fitted(wins)
            weights = pair_weights(model.theta_, model.covariance_, wins + wins.T, 20, wins)
        vote(wins, truth, weights, 20, rng)
    return np.sqrt(fitted(wins).covariance_[20, 20]) * ELO


def test_a_newcomer_is_known_sooner_than_by_uniform_pairs():
    adaptive = np.mean([errors_after(True, seed) for seed in range(6)])
    uniform = np.mean([errors_after(False, seed) for seed in range(6)])
    assert adaptive < 30
    assert adaptive < 0.5 * uniform


@pytest.mark.parametrize("n", [0, 1])
def test_without_a_pair_there_are_no_weights(n):
    weights = pair_weights(np.zeros(n), np.eye(n), np.zeros((n, n)), 30)
    assert weights.tolist() == np.zeros((n, n)).tolist()


def test_nobody_has_a_vote_and_every_pair_is_alike():
    unknown = np.full((4, 4), np.nan)
    weights = pair_weights(np.full(4, np.nan), unknown, np.zeros((4, 4)), 30)
    assert weights == pytest.approx((1 - np.eye(4)) / 6)


def test_extreme_strengths_overflow_nothing():
    weights = pair_weights([900, 0, -900], 1e6 * np.eye(3), np.zeros((3, 3)), 30, exploration=0)
    is_a_draw(weights)


HALF = np.array([[1, np.nan], [np.nan, 1]])


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("theta", {"theta": [0, np.inf]}),
        ("covariance", {"covariance": np.eye(3)}),
        ("covariance", {"covariance": HALF}),
        ("counts", {"counts": np.zeros((3, 3))}),
        ("counts", {"counts": [[0, -1], [-1, 0]]}),
        ("counts", {"counts": [[0, np.nan], [np.nan, 0]]}),
        ("counts", {"counts": [[0, 1], [2, 0]]}),
        ("wins", {"wins": np.zeros(2)}),
        ("wins", {"wins": [[0, np.inf], [0, 0]]}),
        ("target_error", {"target_error": 0}),
        ("target_error", {"target_error": np.nan}),
        ("scale", {"scale": -1}),
        ("exploration", {"exploration": 1.1}),
        ("most_ratio", {"most_ratio": 0.5}),
    ],
)
def test_bad_input_is_refused_by_name(argument, change):
    good = {"theta": [0, 1], "covariance": np.eye(2), "counts": np.zeros((2, 2))}
    with pytest.raises(ValueError, match=rf"^{argument} must be"):
        pair_weights(**{**good, "target_error": 30, **change})
