"""What comes in from people and from a judge is checked, and errors name the argument."""

import numpy as np
import pytest

from ranking.stats.ppi import Labelled, Unlabelled, draw_weights

GOOD = {"left": [0, 1], "right": [1, 2], "score": [1, 0.5], "predicted": [0.3, np.nan]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"left": [0, 1, 2]}, "right has 2 entries where left has 3"),
        ({"left": [0, -1]}, "left must be from 0 to 2; row 1 is -1"),
        ({"right": [1, 1]}, "left and right must be different candidates; row 1"),
        ({"right": [1.0, 2.0]}, "right must hold integers"),
        ({"score": [1, 1.1]}, "score must be from 0 to 1; row 1"),
        ({"score": [np.nan, 1]}, "score must be from 0 to 1; row 0"),
        ({"predicted": [0.1, 1.5]}, "predicted must be from 0 to 1 or NaN; row 1"),
        ({"predicted": [-np.inf, 0.5]}, "predicted must be from 0 to 1 or NaN; row 0"),
        ({"predicted": [0.1]}, "predicted has 1 entries where left has 2"),
        ({"weight": [1, -1]}, "weight must be finite and not negative; row 1"),
        ({"weight": [np.inf, 1]}, "weight must be finite and not negative; row 0"),
        ({"cluster": [0.5, 1]}, "cluster must hold integers"),
        ({"cluster": [0]}, "cluster has 1 entries where left has 2"),
        ({"n_candidates": 2}, "right must be from 0 to 1; row 1 is 2"),
        ({"left": [], "right": [], "score": [], "predicted": []}, "n_candidates must be given"),
    ],
)
def test_errors_name_the_argument_and_the_row(wrong, message):
    arguments = GOOD | wrong
    with pytest.raises(ValueError, match=message):
        Labelled.from_arrays(**arguments)
    arguments.pop("score")
    if "score" not in wrong:
        with pytest.raises(ValueError, match=message):
            Unlabelled.from_arrays(**arguments)


def test_votes_of_no_weight_and_verdicts_that_are_none_are_left_out():
    assert len(Labelled.from_arrays(**GOOD, weight=[0, 1])) == 1
    assert len(Labelled.from_arrays(**GOOD)) == 2
    assert len(Unlabelled.from_arrays(GOOD["left"], GOOD["right"], GOOD["predicted"])) == 1


def test_equal_weights_are_the_votes_as_they_are():
    battles = Labelled.from_arrays(**GOOD, weight=[3, 3]).battles
    assert battles.weight.tolist() == [1, 1]
    assert battles.n_votes == 2


def test_draw_weights_undo_the_draw():
    rng = np.random.default_rng(0)
    chance = np.array([0.1, 0.2, 0.3, 0.4])
    pair = rng.choice(4, 20_000, p=chance)
    weight = draw_weights(chance[pair])
    assert weight.mean() == pytest.approx(1)
    assert np.bincount(pair, weight) / 20_000 == pytest.approx(0.25, abs=0.02)


def test_a_pair_that_was_hardly_ever_drawn_does_not_speak_for_all():
    weight = draw_weights([0.5, 0.5, 0.5, 1e-300], largest=4)
    assert weight / weight[0] == pytest.approx([1, 1, 1, 4])
    assert len(draw_weights([])) == 0


@pytest.mark.parametrize("chance", [0.0, -0.1, 1.1, np.nan, np.inf])
def test_what_is_no_probability_of_a_draw_is_refused(chance):
    with pytest.raises(ValueError, match="probability must be above 0 and up to 1; row 1 is"):
        draw_weights([0.5, chance])


@pytest.mark.parametrize("largest", [0.5, np.nan, np.inf])
def test_the_largest_weight_is_finite_and_no_cut_below_the_median(largest):
    with pytest.raises(ValueError, match="largest must be a finite number from 1"):
        draw_weights([0.5], largest)
