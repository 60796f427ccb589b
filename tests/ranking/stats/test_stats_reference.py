"""The reference numbers of a real crowd: 8,931 votes, 59 candidates."""

import numpy as np
import pytest

from ranking.stats.battles import Battles
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.bradley_terry import BradleyTerry, largest_difference
from ranking.stats.elo import Elo
from ranking.stats.intervals import Dependence, Sandwich
from ranking.stats.ranks import rank_intervals

pytestmark = pytest.mark.data

RATINGS = {
    "GPT 4": 1172.13,
    "Platypus-2 Instruct (70B)": 1112.45,
    "command": 1110.17,
    "ReMM SLERP L2 13B": 1099.61,
    "LLaMA-2-Chat (70B)": 1094.64,
    "Claude v1": 1093.81,
    "GPT 3.5 Turbo": 1091.22,
}


def battles(crowd, cluster=None):
    return Battles.from_arrays(crowd.left, crowd.right, crowd.score, cluster=cluster)


def clusters(crowd, by):
    low, high = np.minimum(crowd.left, crowd.right), np.maximum(crowd.left, crowd.right)
    pair = (crowd.prompt * len(crowd.names) + low) * len(crowd.names) + high
    return {"vote": None, "prompt_pair": pair, "rater": crowd.rater, "prompt": crowd.prompt}[by]


def test_bradley_terry(crowd):
    model = BradleyTerry().fit(battles(crowd))
    order = np.argsort(-model.ratings_)
    best = {crowd.names[i]: round(model.ratings_[i], 2) for i in order[:7]}
    assert list(best.items()) == list(RATINGS.items())
    assert crowd.names[order[-1]] == "Dolly v2 (3B)"
    assert round(model.ratings_[order[-1]], 2) == 845.66
    assert round(model.log_likelihood_, 6) == -5743.381724


def test_elo_in_file_order(crowd):
    ratings = Elo().fit(crowd.left, crowd.right, crowd.score).ratings_
    assert round(ratings[crowd.names.index("GPT 4")], 4) == 1095.5935
    assert round(ratings[crowd.names.index("command")], 4) == 1094.5451
    assert ratings.sum() == pytest.approx(59_000)


ERRORS = [("vote", 27.86), ("prompt_pair", 31.17), ("rater", 35.28), ("prompt", 37.78)]


@pytest.mark.parametrize(("by", "error"), ERRORS)
def test_the_standard_error_of_gpt_4(crowd, by, error):
    fit = Sandwich().fit(battles(crowd, clusters(crowd, by)))
    assert round(fit.standard_errors_[crowd.names.index("GPT 4")], 2) == error


@pytest.mark.parametrize(("by", "error"), ERRORS)
def test_the_bootstrap_agrees_with_it(crowd, by, error):
    fit = Bootstrap().fit(battles(crowd, clusters(crowd, by)))
    assert fit.standard_errors_[crowd.names.index("GPT 4")] == pytest.approx(error, rel=0.06)


@pytest.mark.parametrize(("simultaneous", "worst"), [(False, 7), (True, 31)])
def test_the_rank_of_gpt_4(crowd, simultaneous, worst):
    fit = Sandwich().fit(battles(crowd, clusters(crowd, "prompt_pair")))
    low, high = rank_intervals(fit.model_.theta_, fit.covariance_, simultaneous)
    gpt_4 = crowd.names.index("GPT 4")
    assert (low[gpt_4], high[gpt_4]) == (1, worst)


def test_clustering_by_prompt_and_rater_is_least_certain(crowd):
    by_prompt, by_rater = (battles(crowd, clusters(crowd, by)) for by in ("prompt", "rater"))
    found = Dependence.choose(by_prompt, by_rater, battles(crowd))
    assert found.effective == {"prompts": 13, "raters": 40}
    fit = Sandwich().fit(*found.groupings)
    error = fit.standard_errors_[crowd.names.index("GPT 4")]
    assert round(error, 2) == 41.67
    assert 37.78 < error < (37.78**2 + 35.28**2) ** 0.5


def test_choix_agrees(crowd):
    votes = battles(crowd)
    assert largest_difference(votes, BradleyTerry().fit(votes)) < 1e-6
