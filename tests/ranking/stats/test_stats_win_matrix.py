"""The win matrix: what was seen, and what a fit expects."""

import math

import numpy as np
import pytest
from hypothesis import given
from stats_strategies import SOFT, votes

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, observed_shares, predicted_shares


def test_shares_and_votes_of_three():
    battles = Battles.from_arrays([0, 1, 0, 0], [1, 0, 1, 2], [1, 1, 0.5, 1], [1, 1, 2, 3])
    seen = observed_shares(battles)
    expected = [[math.nan, 0.5, 1], [0.5, math.nan, math.nan], [0, math.nan, math.nan]]
    assert seen.share == pytest.approx(np.array(expected), nan_ok=True)
    assert seen.votes.tolist() == [[0, 3, 1], [3, 0, 0], [1, 0, 0]]


@given(votes(scores=SOFT, connected=False))
def test_both_sides_of_a_pair_add_up(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    seen = observed_shares(battles)
    assert (seen.votes.sum(), (seen.votes == seen.votes.T).all()) == (2 * len(v.left), True)
    assert (np.isnan(seen.share) == (seen.votes == 0)).all()
    assert np.nansum(seen.share * seen.votes) == pytest.approx(len(v.left))


@given(votes(scores=SOFT))
def test_a_fit_expects_of_each_candidate_what_it_scored(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    seen = observed_shares(battles)
    expected = predicted_shares(BradleyTerry().fit(battles).theta_)
    scored = np.nansum(seen.share * seen.votes, axis=1)
    assert np.nansum(expected * seen.votes, axis=1) == pytest.approx(scored, abs=1e-6)


def test_with_a_tie_parameter_it_is_a_win_and_half_a_tie():
    win, loss = (1 / (1 + math.exp(eta - 0.7)) for eta in (1, -1))
    assert predicted_shares([0.7, 0.0], 1)[0, 1] == pytest.approx(win + (loss - win) / 2)


def test_the_unranked_are_unknown():
    share = predicted_shares([0.0, math.nan, 1.0])
    assert np.isnan(share[1]).all()
    assert np.isnan(share[:, 1]).all()
    assert share[2, 0] == pytest.approx(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: predicted_shares([[0.0]]), "theta must be one-dim"),
        (lambda: predicted_shares([math.inf, 0]), "theta must be finite"),
        (lambda: predicted_shares([0.0, 1], -1), "eta must be 0 or more"),
        (lambda: predicted_shares([0.0, 1], math.nan), "eta must be 0 or more"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
