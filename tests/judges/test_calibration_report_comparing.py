"""Two sets of verdicts on the same labels."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from judges.core.calibration.pairs import paired_difference
from tests.judges.helpers import OUTCOMES, pair_item, pair_items

SIDES = {"left", "right"}


@settings(deadline=None, max_examples=60)
@given(pair_items(), st.data())
def test_differences_are_counted_on_the_labels_that_both_settled(items, data):
    others = [rejudged(item, data.draw(st.sampled_from([*OUTCOMES, None]))) for item in items]
    found = paired_difference(items, others, n_resamples=20)
    met = [
        (one.verdict, other.verdict, said)
        for one, other in zip(items, others, strict=True)
        for said in one.people
        if one.verdict and other.verdict
    ]
    assert_difference(found.three_way, met)
    assert_difference(found.decisive, [row for row in met if set(row) <= SIDES])
    json.dumps(found.to_json(), allow_nan=False)


def rejudged(item, verdict):
    return replace(item, verdict=verdict, state="voted" if verdict else "failed")


def assert_difference(found, met):
    gain = [(one == said) - (other == said) for one, other, said in met]
    assert found.n == len(gain)
    assert found.value == (pytest.approx(sum(gain) / len(gain)) if gain else None)


def test_mcnemar_counts_items_by_their_majority():
    first = [pair_item(i, "llr", "left") for i in range(12)] + [pair_item("a", "llr", "right")]
    second = [pair_item(i, "llr", "right") for i in range(12)] + [pair_item("a", "llr", "left")]
    first += [
        pair_item("b", "lr", "left"),
        pair_item("c", "l", "left"),
    ]  # no majority; the other abstains
    second += [pair_item("b", "lr", "right"), pair_item("c", "l", None)]
    found = paired_difference(first, second)
    assert (found.only_first_right, found.only_second_right) == (12, 1)
    assert found.p == pytest.approx(binomtest(1, 13).pvalue)
    assert (found.only_first_decides, found.only_second_decides) == (1, 0)
    # labels: 12 items gain one of three, one loses one of three, one is even
    assert found.decisive.value == pytest.approx((12 - 1) / 41)
    assert found.decisive.low > 0


def test_items_of_one_set_alone_are_counted_and_left_out():
    found = paired_difference(
        [pair_item(0), pair_item(1)], [pair_item(1), pair_item(2), pair_item(3)]
    )
    assert (found.n_items, found.left_out) == (1, 3)


def test_nothing_in_common_is_said_in_words():
    found = paired_difference([], [])
    assert found.p == 1
    assert found.decisive.reason.startswith("There is no label where both judges")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([pair_item(0, "l")], [pair_item(0, "r")], "Item 0: its labels or its prompt differ"),
        ([pair_item(0)], [pair_item(0, cluster="x")], "Item 0: its labels or its prompt differ"),
        ([pair_item(0), pair_item(0)], [], "Item 0 occurs more than once"),
        ([], [pair_item(0), pair_item(0)], "Item 0 occurs more than once"),
    ],
)
def test_sets_that_do_not_match_are_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(first, second)
