"""The combined board's promise, by simulation: its coverage, and a width within people's own."""

import pytest

from benchmarks.simulations.prediction_powered import DESIGNS, JUDGES, simulate


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("judge_kind", JUDGES)
def test_intervals_cover_the_truth_whatever_the_judge(judge_kind, design):
    found = simulate(judge_kind, n_repeats=1000, seed=2, design=design)
    assert 0.93 <= found["coverage"] <= 0.97
    assert found["width_ratio"] <= 1.02
    if judge_kind == "good":
        assert found["width_ratio"] < 0.9
    if judge_kind == "useless":
        assert found["mean_lambda"] < 0.1


def test_a_seed_means_the_same_repeats():
    assert simulate("good", 3, seed=1) == simulate("good", 3, seed=1)
    assert simulate("good", 3, seed=1) != simulate("good", 3, seed=2)


@pytest.mark.parametrize(("judge_kind", "design"), [("wise", "votes"), ("good", "raters")])
def test_unknown_kinds_are_refused(judge_kind, design):
    with pytest.raises(ValueError, match="judge_kind is one of"):
        simulate(judge_kind, 1, 0, design)
