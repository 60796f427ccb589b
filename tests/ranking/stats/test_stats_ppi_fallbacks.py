"""The combined board and the human one: one estimand, and the fallback if a judge does not help."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.connectivity import Status
from ranking.stats.intervals import NoInterval, Sandwich
from ranking.stats.judged import Labelled, Unlabelled
from ranking.stats.ppi import NoGain, PredictionPowered
from tests.ranking.stats.helpers import K, fit_combined, judged_votes, without_weights


def test_weights_of_next_to_nothing_do_no_harm():
    people, judge = judged_votes()
    light = judge | {"weight": np.where(judge["left"] == 2, 1e-200, judge["weight"])}
    model = fit_combined(people, light)
    assert model.no_gain_ is None
    assert np.isfinite(model.low_).all()


@pytest.mark.parametrize("plain", [True, False])
def test_a_lambda_of_0_is_the_board_of_human_votes_alone(plain):
    people, judge = map(without_weights, judged_votes()) if plain else judged_votes()
    model = fit_combined(people, judge, tuning=0.0)
    battles = Labelled.from_arrays(**people, n_candidates=K).battles
    alone, ratings = Sandwich().fit(battles), BradleyTerry().fit(battles).ratings_
    assert model.ratings_ == pytest.approx(ratings, abs=1e-9)
    for name in ("low_", "high_", "standard_errors_", "covariance_"):
        assert getattr(model, name) == pytest.approx(getattr(alone, name), abs=1e-9), name
    assert (model.lambda_, model.gain_, model.no_gain_) == (0.0, 1.0, None)


def test_the_covariance_runs_into_that_of_human_votes_alone():
    people, judge = judged_votes()
    model = fit_combined(people, judge, tuning=1e-9)
    assert model.lambda_ == 1e-9
    assert model.standard_errors_ == pytest.approx(model.people_.standard_errors_, rel=1e-7)


def test_judge_only_pairs_and_candidates_change_nothing():
    people, judge = map(without_weights, judged_votes())
    known = (people["left"] != 4) & (people["right"] != 4)
    people = {key: value[known] for key, value in people.items()}
    outside = (judge["left"] == 4) | (judge["right"] == 4)
    inside = {key: value[~outside] for key, value in judge.items()}
    assert outside.any()
    both, less = fit_combined(people, judge, tuning=0.5), fit_combined(people, inside, tuning=0.5)
    assert both.status_[4] is Status.NO_VOTES
    assert both.ratings_ == pytest.approx(less.ratings_, nan_ok=True)
    assert both.standard_errors_ == pytest.approx(less.standard_errors_, nan_ok=True)
    assert np.isnan(both.low_[4])


def test_a_bias_of_the_judge_cancels_however_its_pairs_are_drawn():
    """People contradict Bradley-Terry, so the estimate depends on how often each pair counts."""
    rng = np.random.default_rng(8)
    left, right = np.array([0, 0, 1]), np.array([1, 2, 2])
    wins = np.array([0.75, 0.35, 0.6])
    shift = np.zeros(3)
    for _ in range(100):
        pair, other = rng.choice(3, 400, p=[0.6, 0.2, 0.2]), rng.choice(3, 900, p=[0.1, 0.1, 0.8])
        score = (rng.random(400) < wins[pair]) * 1.0
        said = np.where(rng.random(400) < 0.7, score, rng.random(400)) * 0.5 + 0.4 * (pair != 2)
        echo = np.where(rng.random(900) < 0.7, rng.random(900) < wins[other], rng.random(900))
        labelled = Labelled.from_arrays(left[pair], right[pair], score, said)
        unlabelled = Unlabelled.from_arrays(
            left[other], right[other], echo * 0.5 + 0.4 * (other != 2)
        )
        model = PredictionPowered(tuning=0.9).fit(labelled, unlabelled)
        shift += (model.ratings_ - model.people_.ratings_) / 100
    assert np.abs(shift).max() < 3  # Elo; its standard error is about 1


def test_sides_may_be_compared_like_with_like():
    """A judge that reads only one order and prefers left, with other sides than people had."""
    rng = np.random.default_rng(3)
    people_left, judge_left = rng.random(3000) < 0.5, rng.random(9000) < 0.9

    def sample(left):
        return np.where(left, 0, 1), np.where(left, 1, 0), rng.uniform(0.6, 1, len(left))

    score = (rng.random(3000) < 0.5) * 1.0
    a, b, f = sample(people_left)
    labelled = Labelled.from_arrays(a, b, score, f)
    unlabelled = Unlabelled.from_arrays(*sample(judge_left))
    fooled = PredictionPowered(tuning=1.0).fit(labelled, unlabelled)
    fair = PredictionPowered(tuning=1.0, by_side=True).fit(labelled, unlabelled)
    moved = [abs(m.ratings_[0] - m.people_.ratings_[0]) for m in (fooled, fair)]
    assert moved[0] > 30
    assert moved[1] < 5


def test_a_useless_judge_leaves_the_human_board():
    people, judge = map(without_weights, judged_votes())
    rng = np.random.default_rng(4)
    turned = people | {"predicted": 1 - np.where(rng.random(250) < 0.9, people["score"], 0.5)}
    model = fit_combined(
        turned, judge
    )  # it says the opposite, which a lambda of 0 or more cannot use
    assert (model.lambda_, model.no_gain_) == (0.0, NoGain.UNINFORMATIVE)
    assert model.ratings_.tolist() == model.people_.ratings_.tolist()
    assert model.low_ == pytest.approx(model.people_.low_)
    undecided = fit_combined(
        people | {"predicted": np.full(250, 0.5)}, judge | {"predicted": [0.5] * 900}
    )
    assert undecided.no_gain_ is NoGain.UNINFORMATIVE


def test_without_shared_votes_only_peoples_votes_are_used():
    people, judge = map(without_weights, judged_votes())
    model = fit_combined(people | {"predicted": np.full(250, np.nan)}, judge)
    assert model.no_gain_ is NoGain.NOTHING_SHARED
    assert model.high_ == pytest.approx(model.people_.high_)
    empty = {key: [] for key in judge} | {"n_candidates": K}
    assert fit_combined(people, empty).no_gain_ is NoGain.NOTHING_SHARED


def test_a_correction_beyond_all_votes_falls_back_to_people():
    people = {"left": [0] * 20, "right": [1] * 20, "score": [1.0] + [0.0] * 19}
    people["predicted"] = np.linspace(0.7, 1, 20)
    judge = {"left": [0] * 200, "right": [1] * 200, "predicted": np.linspace(0, 0.2, 200)}
    model = PredictionPowered(tuning=1.0).fit(
        Labelled.from_arrays(**people), Unlabelled.from_arrays(**judge)
    )
    assert (model.lambda_, model.no_gain_) == (0.0, NoGain.NO_MAXIMUM)
    assert model.ratings_ == pytest.approx(model.people_.ratings_)


def test_an_anchor_has_no_error():
    people, judge = judged_votes()
    model = fit_combined(people, judge, model=BradleyTerry(anchor=2, center=1500))
    assert model.ratings_[2] == 1500
    assert np.isnan(model.standard_errors_).tolist() == [False, False, True, False, False]
    c, e = model.covariance_, model.standard_errors_
    assert e[0] == pytest.approx((c[0, 0] + c[2, 2] - 2 * c[0, 2]) ** 0.5 * 400 / np.log(10))


def test_where_people_have_no_interval_the_judge_makes_none():
    few = {
        "left": [0, 1, 0],
        "right": [1, 0, 1],
        "score": [1, 1, 0.5],
        "predicted": [0.9, 0.8, 0.5],
    }
    judge = {"left": [0] * 9, "right": [1] * 9, "predicted": np.linspace(0, 1, 9)}
    model = PredictionPowered().fit(Labelled.from_arrays(**few), Unlabelled.from_arrays(**judge))
    assert (model.reason_, model.no_gain_) == (NoInterval.FEW_CLUSTERS, NoGain.NO_INTERVAL)
    assert np.isnan([model.low_, model.high_, model.standard_errors_]).all()
    assert np.isnan(model.gain_)
    assert model.ratings_.sum() == pytest.approx(2000)


@pytest.mark.parametrize(
    ("left", "right", "score", "n", "reason"),
    [
        ([], [], [], 4, NoInterval.NOTHING_RANKED),
        ([], [], [], 1, NoInterval.NOTHING_RANKED),
        ([0] * 9, [1] * 9, [1.0] * 9, 2, NoInterval.NOTHING_RANKED),
        ([0, 1] * 9, [1, 0] * 9, [0.5] * 18, 2, NoInterval.NO_DECISIVE_VOTE),
        ([0, 5, 9, 1, 7], [1, 6, 8, 0, 3], [1.0] * 5, 300, NoInterval.FEW_CLUSTERS),
        ([0, 1] * 10, [1, 0] * 10, [1.0] * 20, 4, NoInterval.NO_VARIATION),
    ],
)
def test_hopeless_votes_come_back_with_the_reason(left, right, score, n, reason):
    cluster = np.arange(len(left)) // 4 if reason is NoInterval.NO_VARIATION else None
    labelled = Labelled.from_arrays(left, right, score, score, None, cluster, n)
    judge = ([0, 1, 1] * 9, [1, 0, 0] * 9, [0.2, 0.7, 0.9] * 9) if n > 1 else ([], [], [])
    theirs = None if cluster is None else np.arange(27)
    unlabelled = Unlabelled.from_arrays(*judge, cluster=theirs, n_candidates=n)
    model = PredictionPowered().fit(labelled, unlabelled)
    assert model.reason_ is reason
    assert model.no_gain_ is NoGain.NO_INTERVAL
    assert model.no_gain_.reason
    assert np.isnan([model.low_, model.high_]).all()
    assert len(model.status_) == n


def test_samples_that_do_not_match_are_refused():
    people, judge = judged_votes()
    with pytest.raises(ValueError, match="cluster must be given for both"):
        fit_combined(people, without_weights(judge))
    with pytest.raises(ValueError, match="unlabelled has 9 candidates where labelled has 5"):
        fit_combined(people, judge | {"n_candidates": 9})
    with pytest.raises(ValueError, match=r"tuning must be from 0 to 1 or None, not 1\.5"):
        fit_combined(people, judge, tuning=1.5)
    with pytest.raises(ValueError, match="tuning must be"):
        fit_combined(people, judge, tuning=float("nan"))
    with pytest.raises(ValueError, match="confidence must be"):
        fit_combined(people, judge, confidence=1.0)


def test_hyperparameters_stay_as_they_were_given():
    model = BradleyTerry(anchor=1)
    estimator = PredictionPowered(confidence=0.9, tuning=0.5, model=model, by_side=True)
    labelled, unlabelled = (dict(c) for c in judged_votes())
    fitted = estimator.fit(Labelled.from_arrays(**labelled), Unlabelled.from_arrays(**unlabelled))
    assert fitted is estimator
    assert (estimator.confidence, estimator.tuning, estimator.by_side) == (0.9, 0.5, True)
    assert estimator.model is model
    assert not hasattr(model, "ratings_")


@example(seed=1403, echo=0.0, factor=0.5625)  # the judge gains nothing
@given(seed=st.integers(0, 10_000), echo=st.floats(-1, 2), factor=st.floats(0.1, 10))
def test_sides_names_order_and_weight_units_change_nothing(seed, echo, factor):
    people, judge = judged_votes(n=60, n_judge=150, seed=seed, echo=echo)
    rng = np.random.default_rng(seed)
    name = rng.permutation(K)

    def other(columns):
        columns = dict(columns)
        order = rng.permutation(len(columns["left"]))
        flip = rng.random(len(order)) < 0.5
        for key in {"score", "predicted"} & set(columns):
            columns[key] = np.where(flip, 1 - columns[key], columns[key])
        a, b = name[columns["left"]], name[columns["right"]]
        columns |= {"left": np.where(flip, b, a), "right": np.where(flip, a, b)}
        columns |= {"weight": columns["weight"] * factor, "cluster": 7 * columns["cluster"] - 3}
        return {key: value[order] for key, value in columns.items()}

    one, two = fit_combined(people, judge), fit_combined(other(people), other(judge))
    assert two.lambda_ == pytest.approx(one.lambda_, abs=1e-6)
    assert two.ratings_[name] == pytest.approx(one.ratings_, abs=1e-4, nan_ok=True)
    assert two.low_[name] == pytest.approx(one.low_, abs=1e-4, nan_ok=True)


@given(seed=st.integers(0, 10_000), echo=st.floats(-2, 3), n=st.integers(5, 60))
def test_the_board_is_never_wider_for_a_judge(seed, echo, n):
    people, judge = judged_votes(n=n, n_judge=100, seed=seed, echo=echo)
    model = fit_combined(people, judge)
    if model.reason_ is None:
        assert model.gain_ >= 1
        assert 0 <= model.lambda_ <= 1
        assert (model.high_ - model.low_)[model.ranked_].min() > 0
    assert (model.lambda_ > 0) == (model.no_gain_ is None)
