"""A judge's habits, regardless of the answers."""

import pytest
from hypothesis import given, settings

from judges.core.calibration.pairs import calibrate_pairs
from ranking.stats.agreement import krippendorff_alpha
from tests.judges.helpers import OUTCOMES, pair_item, pair_items

SIDES = ("left", "right")


def report(items):
    return calibrate_pairs(items, n_resamples=20)


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_flips_and_first_places_are_plain_counts(items):
    found = report(items)
    both = [(i.forward, i.reverse) for i in items if i.forward and i.reverse]
    assert found.flips.n == len(both)
    assert found.flips.value == (
        pytest.approx(sum(a != b for a, b in both) / len(both)) if both else None
    )
    first = [i.forward == "left" for i in items if i.forward in SIDES]
    first += [i.reverse == "right" for i in items if i.reverse in SIDES]
    assert found.first_position.n == len(first)
    assert found.first_position.value == (pytest.approx(sum(first) / len(first)) if first else None)


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_length_preference_uses_the_same_labels_for_both(items):
    found = report(items)
    for preference, mark in [
        (found.picks_longer, lambda item: item.longer),
        (found.own_family, lambda item: item.own_family),
    ]:
        met = [
            (item.verdict == mark(item), said == mark(item))
            for item in items
            for _, said in item.labels
            if {item.verdict, said, mark(item)} <= set(SIDES)
        ]
        judge, people = (sum(side) for side in zip(*met, strict=True)) if met else (0, 0)
        n = len(met)
        assert preference.judge.n == preference.people.n == n
        if not n:
            assert preference.judge.value is None
            continue
        assert preference.judge.value == pytest.approx(judge / n)
        assert preference.people.value == pytest.approx(people / n)


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_repeats_count_with_the_verdict_itself(items):
    found = report(items).repeats
    runs = [[said for said in (i.verdict, *i.repeats) if said] for i in items]
    runs = [run for run in runs if len(run) > 1]
    assert (found.n_items, found.n_values) == (len(runs), sum(map(len, runs)))
    runs += [[{"left": "right", "right": "left"}.get(said, said) for said in run] for run in runs]
    unit = [i for i, run in enumerate(runs) for _ in run]
    value = [OUTCOMES.index(said) for run in runs for said in run]
    if len(set(value)) > 1:
        assert found.value == pytest.approx(krippendorff_alpha(unit, value))
    else:
        assert found.value is None
        assert found.reason


def test_a_judge_that_always_takes_the_first_flips_every_time():
    items = [pair_item(i, "l", None, forward="left", reverse="right") for i in range(30)]
    found = report(items)
    assert (found.flips.value, found.first_position.value) == (1, 1)
    assert found.first_position.low > 0.85
    assert found.first_position.n == 60


def test_preference_for_own_family_exceeds_that_of_people():
    items = [pair_item(i, "lr", "left", own_family="left") for i in range(20)]
    items += [pair_item(f"r{i}", "lr", "left", own_family="right") for i in range(5)]
    found = report(items).own_family
    assert found.judge.value == pytest.approx(0.8)
    assert found.people.value == pytest.approx(0.5)
    assert report([pair_item(0)]).own_family.judge.reason.endswith("person both choose a side.")


def test_runs_that_all_agree_say_that_chance_cannot_be_told():
    found = report([pair_item(i, "t", "tie", repeats=("tie", "tie")) for i in range(4)]).repeats
    assert (found.value, found.n_items, found.n_values) == (None, 4, 12)
    assert found.reason.startswith("All values are the same")
