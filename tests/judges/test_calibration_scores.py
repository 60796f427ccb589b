"""The report on a judge that scores, compared with figures computed one by one."""

import json
import time
from dataclasses import replace
from itertools import combinations, permutations
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
def test_every_label_is_correlated_with_the_score(items):
    found = report(items)
    done = [item for item in items if item.score is not None]
    assert_follows(found.against_all, [(i.score, s) for i in done for _, s in i.labels])
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


@settings(deadline=None, max_examples=60)
@given(score_items())
def test_yardsticks_are_compared_with_the_judge_on_the_same_pairs(items):
    found = report(items)
    done = [item for item in items if item.score is not None]
    of_people = [
        (item.score, one, other)
        for item in done
        for one, other in permutations([label for _, label in item.labels], 2)
    ]
    of_judge = [
        (label, one, other)
        for item in items
        for _, label in item.labels
        for one, other in permutations([s for s in (item.score, *item.repeats) if s is not None], 2)
    ]
    for yardstick, rows in ((found.people, of_people), (found.itself, of_judge)):
        assert yardstick.pearson.n == len(rows) // 2
        sides = list(zip(*rows, strict=True))
        if not rows or any(len(set(side)) == 1 for side in sides):
            continue
        alone = correlation(sides[1], sides[2])
        assert yardstick.pearson.value == pytest.approx(alone, abs=1e-9)
        gap = correlation(sides[0], sides[2]) - alone
        assert yardstick.difference.value == pytest.approx(gap, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(score_items())
def test_length_is_held_against_a_judge_only_where_people_say_otherwise(items):
    found = report(items).against_length
    rows = [(i.length, s, i.score) for i in items if i.score is not None for _, s in i.labels]
    middle = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    hits = []
    for row in rows:
        length, people, judge = (value - mid for value, mid in zip(row, middle, strict=True))
        if length * people < 0:
            hits.append(0.5 if judge == 0 else float(judge * people > 0))
    assert found.n == len(hits)
    assert found.value == (pytest.approx(sum(hits) / len(hits)) if hits else None)


def test_scores_that_follow_length_are_on_its_side_against_people():
    right = [score_item(i, [i % 5], float(i % 5), length=i * 7 % 11) for i in range(55)]
    wordy = [replace(item, score=float(item.length)) for item in right]
    assert report(right).against_length.value == 1
    assert report(wordy).against_length.value == 0


def test_one_score_per_item_leaves_people_unknown():
    found = report([score_item(i, [i % 5], float(i % 4)) for i in range(40)])
    assert found.people.pearson.reason.startswith("No item that the judge has scored has scores")
    assert found.itself.pearson.reason == "No labelled item was scored twice by the judge."


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
