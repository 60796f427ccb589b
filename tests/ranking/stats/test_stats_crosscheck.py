"""The second opinion sees what the first one got wrong."""

import choix
import numpy as np
import pytest
from hypothesis import given
from stats_strategies import SOFT, votes

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError, largest_difference


@given(votes(scores=SOFT, connected=False))
def test_both_agree(v):
    battles = Battles.from_arrays(v.left, v.right, v.score, n_candidates=v.n)
    assert largest_difference(battles, BradleyTerry().fit(battles)) < 1e-5


def test_a_wrong_rating_is_seen_at_its_size():
    battles = Battles.from_arrays([0, 1, 2], [1, 2, 0], [1, 1, 1])
    model = BradleyTerry().fit(battles)
    model.theta_ = model.theta_ + np.array([0.1, 0, 0])
    assert largest_difference(battles, model) == pytest.approx(0.1 * 400 / np.log(10))


def test_with_nobody_ranked_there_is_nothing_to_differ_on():
    battles = Battles.from_arrays([0], [1], [1])
    assert largest_difference(battles, BradleyTerry().fit(battles)) == 0


def test_a_second_opinion_that_does_not_settle_is_told(monkeypatch):
    def never(*args, **options):
        raise RuntimeError("Did not converge after 1000 iterations")

    monkeypatch.setattr(choix, "ilsr_pairwise_dense", never)
    battles = Battles.from_arrays([0, 1], [1, 0], [1, 1])
    with pytest.raises(NotConvergedError, match="independent check"):
        largest_difference(battles, BradleyTerry().fit(battles))
