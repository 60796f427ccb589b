"""The report on a judge that scores, compared with figures computed one by one."""

import json
import time
from dataclasses import replace
from itertools import combinations
from statistics import correlation, mean

import pytest
from hypothesis import given, settings

from judges.core.calibration.scores import calibrate_scores, rescale
from ranking.stats.agreement import krippendorff_alpha
from tests.judges.helpers import score_item, score_items


def report(items, **how):
    return calibrate_scores(items, **{"n_resamples": 20} | how)


def assert_follows(found, rows):
    """Correlations of (one, other) rows; None with a reason where one side is constant."""
    assert found.n == len(rows)
    varied = all(len(set(side)) > 1 for side in zip(*rows, strict=True)) if rows else False
    if varied:
        assert found.pearson.value == pytest.approx(correlation(*zip(*rows, strict=True)), abs=1e-9)
    else:
        assert (found.pearson.value, found.spearman, found.kendall) == (None, None, None)
        assert found.pearson.reason
    error = mean(abs(a - b) for a, b in rows) if rows else None
    assert found.mean_absolute_error == (None if error is None else pytest.approx(error))


@settings(deadline=None, max_examples=60)
@given(score_items())
def test_all_raters_their_mean_and_agreed_items_are_reported(items):
    found = report(items)
    done = [item for item in items if item.score is not None]
    assert_follows(found.against_all, [(i.score, s) for i in done for _, s in i.labels])
    averaged = [(i.score, mean(s for _, s in i.labels)) for i in done if i.labels]
    assert_follows(found.against_average, averaged)
    agreed = [i for i in done if len(i.labels) > 1 and len({s for _, s in i.labels}) == 1]
    assert_follows(found.where_all_agree, [(i.score, i.labels[0][1]) for i in agreed])
    assert_follows(
        found.categories[0].against_all if items else found.against_all,
        [(i.score, s) for i in done for _, s in i.labels],
    )


@settings(deadline=None, max_examples=60)
@given(score_items())
def test_people_are_compared_with_one_another_both_ways_round(items):
    found = report(items).people
    told = [[s for _, s in i.labels] for i in items if i.score is not None]
    rows = [both for labels in told for both in combinations(labels, 2)]
    assert found.pearson.n == len(rows)
    either = rows + [(b, a) for a, b in rows]
    if len({a for a, _ in either}) > 1:
        expected = correlation(*zip(*either, strict=True))
        assert found.pearson.value == pytest.approx(expected, abs=1e-9)
        assert found.mean_absolute_difference == pytest.approx(mean(abs(a - b) for a, b in rows))
    else:
        assert found.pearson.value is None
        assert found.pearson.reason


@settings(deadline=None, max_examples=60)
@given(score_items())
def test_alpha_over_runs_counts_the_score_itself(items):
    found = report(items).repeats
    runs = [[s for s in (i.score, *i.repeats) if s is not None] for i in items]
    unit = [i for i, run in enumerate(runs) if len(run) > 1 for _ in run]
    value = [s for run in runs if len(run) > 1 for s in run]
    for level in ("nominal", "ordinal", "interval"):
        alpha = getattr(found, level)
        assert alpha.n_values == len(value)
        if len(set(value)) > 1:
            assert alpha.value == pytest.approx(krippendorff_alpha(unit, value, level))
        else:
            assert alpha.value is None


@settings(deadline=None, max_examples=40)
@given(score_items())
def test_every_report_is_json_without_nan(items):
    found = report(items)
    again = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert again["n_items"] == len(items) == sum(found.states.values())
    assert found.missing.value == (
        pytest.approx(mean(i.score is None for i in items)) if items else None
    )


def test_a_report_with_nan_is_not_written():
    broken = replace(report([]), level=float("nan"))
    with pytest.raises(ValueError, match="A report must not hold nan"):
        broken.to_json()


@pytest.mark.slow
def test_five_thousand_items_take_less_than_two_seconds():
    items = [score_item(i, [i % 5, i % 3], float(i % 4), length=i % 17) for i in range(5000)]
    start = time.process_time()
    calibrate_scores(items)
    assert time.process_time() - start < 2


def test_keeping_only_what_people_agree_on_flatters_the_judge():
    agreed = [score_item(i, [i % 5, i % 5], float(i % 5), cluster=str(i)) for i in range(20)]
    hard = [score_item(f"h{i}", [i % 5, (i + 3) % 5], float((i + 1) % 5)) for i in range(20)]
    found = report(agreed + hard)
    assert found.where_all_agree.pearson.value == pytest.approx(1)
    assert found.against_all.pearson.value < found.against_average.pearson.value < 1


def test_length_is_a_baseline_that_the_judge_is_held_against():
    wordy = [score_item(i, [i % 5], float(i % 5), length=100 * (i % 5) + i) for i in range(40)]
    found = report(wordy, n_resamples=200)
    assert found.length.pearson.value > 0.99
    assert found.length.lift.value == pytest.approx(1 - found.length.pearson.value)
    assert found.length.lift.n == 40
    equal = report([score_item(i, [i % 5], float(i % 4)) for i in range(40)])
    assert equal.length.pearson.value is None
    assert equal.length.lift.value == pytest.approx(equal.against_all.pearson.value)


def test_one_score_per_item_leaves_people_unknown():
    found = report([score_item(i, [i % 5], float(i % 4)) for i in range(40)])
    assert found.people.pearson.reason.startswith("No item that the judge has scored has scores")
    assert found.people.mean_absolute_difference is None
    assert found.where_all_agree.pearson.value is None


BAD = [
    (lambda: score_item("x", [1], None, state="done"), "Item x must have a verdict if"),
    (
        lambda: score_item("x", [1], 2.0, state="voted"),
        "Item x: the state 'voted' is not one of done",
    ),
    (lambda: score_item("x", [1], float("nan")), "Item x: a score must be a finite number"),
    (lambda: score_item("x", [float("inf")], 1.0), "Item x: a score must be a finite number"),
    (lambda: score_item("x", [1], 1.0, length=-1), "Item x: a length"),
    (lambda: calibrate_scores([score_item("x", [1], 1.0)] * 2), "Item x occurs more than once"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_items_are_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_scores_are_converted_to_the_scale_of_people():
    items = [
        score_item(i, [1.0 + i % 4], 10.0 * (i % 4) / 3, repeats=(None, 5.0)) for i in range(8)
    ]
    plain = report(items)
    found = report(rescale(items, (0.0, 10.0), (1.0, 4.0)))
    assert found.against_all.mean_absolute_error == pytest.approx(0)
    assert plain.against_all.mean_absolute_error > 2
    assert found.against_all.pearson.value == pytest.approx(plain.against_all.pearson.value)
    assert rescale(items, (0.0, 10.0), (1.0, 4.0))[0].repeats == (None, 2.5)
    assert rescale([score_item(1, [2.0], None)], (0.0, 10.0), (1.0, 4.0))[0].score is None
