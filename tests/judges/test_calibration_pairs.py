"""The report on a judge of pairs, compared with figures counted one by one."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from judges.core.calibration.pairs import calibrate_pairs, paired_difference
from ranking.stats.agreement import clustered_kappa
from tests.judges.helpers import OUTCOMES, pair_item, pair_items

SIDES = ("left", "right")


def report(items, **how):
    return calibrate_pairs(items, **{"n_resamples": 20} | how)


def assert_share(found, hits):
    """An estimate is the mean of the hits, and gives a reason for a missing value or interval."""
    assert found.n == len(hits)
    assert found.value == (pytest.approx(sum(hits) / len(hits)) if hits else None)
    assert bool(found.reason) == (found.low is None) == (found.high is None)


def three_way(item):
    return ["tie" if outcome == "both_bad" else outcome for _, outcome in item.labels]


def longer(item):
    gap = item.length_left - item.length_right
    return "tie" if not gap else SIDES[gap < 0]


def turn(said):
    return {"left": "right", "right": "left"}.get(said, said)


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_each_agreement_is_counted_label_by_label(items):
    found = report(items)
    agreement = found.against_all
    met = [(i.verdict, said) for i in items if i.verdict for said in three_way(i)]
    assert_share(agreement.three_way, [a == b for a, b in met])
    assert_share(agreement.decisive, [a == b for a, b in met if {a, b} <= set(SIDES)])
    if {said for both in met for said in both} - {"tie"}:
        both_ways = met + [(turn(a), turn(b)) for a, b in met]
        codes = [[OUTCOMES.index(said) for said in side] for side in zip(*both_ways, strict=True)]
        assert agreement.kappa.value == pytest.approx(clustered_kappa(*codes).value)
    else:
        assert agreement.kappa.value is None


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_people_are_compared_with_one_another(items):
    found = report(items).people
    sides = [[said for said in three_way(item) if said in SIDES] for item in items]
    assert_share(
        found.three_way, [a == b for item in items for a, b in combinations(three_way(item), 2)]
    )
    assert_share(found.decisive, [a == b for labels in sides for a, b in combinations(labels, 2)])


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_only_labels_against_length_say_whether_a_judge_goes_by_it(items):
    found = report(items)
    sided = [
        (item, said)
        for item in items
        for said in three_way(item)
        if said in SIDES and longer(item) in SIDES
    ]
    assert_share(found.by_length, [longer(item) == said for item, said in sided])
    against = [(item, said) for item, said in sided if said != longer(item)]
    hits = [float(i.verdict == said) if i.verdict in SIDES else 0.5 for i, said in against]
    assert found.against_length.n == len(hits)
    expected = pytest.approx(sum(hits) / len(hits)) if hits else None
    assert found.against_length.value == expected


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_counts_are_plain_counts(items):
    found = report(items)
    assert found.n_items == len(items) == sum(found.states.values())
    assert found.n_labels == sum(len(item.labels) for item in items)
    assert all(found.states[item.state] for item in items)
    sided = [i.verdict for i in items for said in three_way(i) if said in SIDES]
    assert found.undecided == sum(verdict not in SIDES for verdict in sided)


@settings(deadline=None, max_examples=40)
@given(pair_items())
def test_a_category_is_a_report_of_its_own_items(items):
    found = report(items)
    assert [row.category for row in found.categories] == sorted({i.category for i in items})
    for row in found.categories:
        own = report([item for item in items if item.category == row.category])
        assert (row.n_items, row.n_labels) == (own.n_items, own.n_labels)
        assert (row.decisive, row.three_way) == (
            own.against_all.decisive,
            own.against_all.three_way,
        )


@settings(deadline=None, max_examples=30)
@given(pair_items(), st.data())
def test_swapping_the_sides_of_any_items_changes_no_figure(items, data):
    turned = report([swapped(item) if data.draw(st.booleans()) else item for item in items])
    found = report(items)
    for name in set(vars(found)) - {"level", "states"}:
        assert values(getattr(turned, name)) == pytest.approx(values(getattr(found, name))), name


def test_kappa_of_two_ways_round_is_that_of_a_coin_toss_without_ties():
    """Sides are arbitrary, so chance agreement on left and right is one half."""
    found = report([pair_item(i, "l", "left" if i < 9 else "right") for i in range(12)])
    kappa = found.against_all.kappa
    assert (kappa.value, kappa.n) == (pytest.approx((9 / 12 - 0.5) / 0.5), 12)


def swapped(item):
    """The same item with left and right exchanged, the readings' orders too."""
    other = {"left": "right", "right": "left"}
    return replace(
        item,
        labels=tuple((rater, other.get(said, said)) for rater, said in item.labels),
        verdict=other.get(item.verdict, item.verdict),
        forward=other.get(item.reverse, item.reverse),
        reverse=other.get(item.forward, item.forward),
        length_left=item.length_right,
        length_right=item.length_left,
        own_family=other.get(item.own_family),
        repeats=tuple(other.get(said, said) for said in item.repeats),
    )


def values(part):
    """All numbers of a part of a report, None as a number too."""
    if part is None or isinstance(part, bool | int | float):
        return [-9.0 if part is None else part]
    if isinstance(part, str):
        return []
    if isinstance(part, tuple | dict):
        inner_parts = part.values() if isinstance(part, dict) else part
        return [number for inner in inner_parts for number in values(inner)]
    return [number for inner in vars(part).values() for number in values(inner)]


@settings(deadline=None, max_examples=40)
@given(pair_items())
def test_every_report_is_json_without_nan(items):
    found = report(items)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["against_all"]["decisive"]["n"] == found.against_all.decisive.n


def test_every_label_counts():
    items = [
        pair_item(0, "lll"),
        pair_item(1, "llr"),
        pair_item(2, "rrl"),
        pair_item(3, "lr"),
        pair_item(4, "l"),
    ]
    found = report(items)
    assert found.against_all.decisive.value == pytest.approx(8 / 12)
    assert found.against_all.decisive.n == 12
    assert found.people.decisive.value == pytest.approx((3 + 1 + 1 + 0) / (3 + 3 + 3 + 1))


def test_both_bad_is_a_tie_three_ways_and_never_a_side():
    found = report([pair_item(0, "b", "tie"), pair_item(1, "b", "left"), pair_item(2, "bt", "tie")])
    assert found.against_all.decisive.n == 0
    assert found.against_all.three_way.value == pytest.approx(3 / 4)


def test_a_missing_verdict_is_neither_a_tie_nor_a_miss():
    states = ["abstained", "unreadable", "refused", "too_long", "failed"]
    none = [pair_item(i, "t", None, state=state) for i, state in enumerate(states)]
    found = report([*none, pair_item("x", "l")])
    assert found.against_all.three_way.n == 1
    assert dict(found.states) == dict.fromkeys(["voted", *states], 1)


def test_one_label_per_item_leaves_people_unknown():
    found = report([pair_item(i) for i in range(20)])
    assert found.people.decisive.value is None
    assert found.people.decisive.reason.startswith("No item that counts here has two people")
    assert found.against_all.decisive.low == pytest.approx(0.025 ** (1 / 20))


def test_nothing_at_all_is_a_report_of_reasons():
    found = report([])
    assert found.against_all.decisive.reason.startswith("There is no label where both")
    assert found.flips.reason == "No item has a verdict in both orders."
    assert found.repeats.reason == "No item was asked about twice."
    assert found.categories == ()


def test_items_of_one_prompt_are_not_independent():
    items = [pair_item(i, "l" if i % 3 else "r") for i in range(60)]
    apart = report(items, n_resamples=500).against_all.decisive
    together = [
        replace(item, cluster=str(i // 6 % 2 * 5 + i // 12)) for i, item in enumerate(items)
    ]
    by_prompt = report(together, n_resamples=500).against_all.decisive
    assert apart.value == by_prompt.value
    assert (apart.n_clusters, by_prompt.n_clusters) == (60, 10)
    assert report([replace(item, cluster="one") for item in items]).against_all.decisive.low is None


def test_the_level_widens_every_interval():
    items = [pair_item(i, "l" if i % 3 else "r") for i in range(60)]
    wide, narrow = (report(items, level=level, n_resamples=500) for level in (0.99, 0.8))
    assert wide.level == 0.99
    assert wide.against_all.decisive.low < narrow.against_all.decisive.low
    assert wide.against_all.kappa.reason == narrow.against_all.kappa.reason


@pytest.mark.slow
def test_ten_times_as_many_items_take_at_most_twenty_times_as_long():
    few, many = (min(seconds(graded_items(n)) for _ in range(3)) for n in (500, 5000))
    assert many < 20 * few


def graded_items(n):
    letters = ["lll", "llr", "rrt", "b", "rl"]
    return [
        pair_item(
            i,
            letters[i % 5],
            OUTCOMES[i % 7 % 3],
            category=f"c{i % 8}",
            length_left=i % 13,
            repeats=("left",),
            own_family="left",
        )
        for i in range(n)
    ]


def seconds(items):
    start = time.process_time()
    calibrate_pairs(items)
    return time.process_time() - start


def test_a_report_on_pairs_does_not_load_what_only_scores_need():
    code = (
        "import sys; from judges.core.calibration.pairs import calibrate_pairs;"
        "calibrate_pairs([]);"
        "assert not {'scipy.stats', 'django'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@settings(deadline=None, max_examples=60)
@given(pair_items(), st.data())
def test_two_sets_of_verdicts_are_compared_label_by_label(items, data):
    others = [rejudged(item, data.draw(st.sampled_from([*OUTCOMES, None]))) for item in items]
    found = paired_difference(items, others, n_resamples=20)
    every = [
        (one.verdict, other.verdict, said)
        for one, other in zip(items, others, strict=True)
        for said in three_way(one)
    ]
    sided = [row for row in every if row[2] in SIDES]
    assert_difference(found.difference, sided)
    for place, accuracy in enumerate((found.first, found.second)):
        assert_share(accuracy.with_ties, [row[place] == row[2] for row in every])
        assert_share(accuracy.without_ties, [row[place] == row[2] for row in sided])
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
    first += [pair_item("b", "lr", "left"), pair_item("c", "l", "left")]
    second += [pair_item("b", "lr", "right"), pair_item("c", "l", None)]
    found = paired_difference(first, second)  # "b" has no majority, and on "c" none is wrong
    assert found.p == pytest.approx(binomtest(1, 14).pvalue)
    # labels: 12 items gain one of three, one loses one of three, one is even, one gains one
    assert found.difference.value == pytest.approx((12 - 1 + 1) / 42)
    assert found.difference.low > 0


def test_direct2pair_is_the_difference_of_two_accuracies():
    """Scores right on 46.7 % of the pairs with unequal labels and verdicts on 80.0 %: -33.3."""
    scored = [pair_item(i, "lt", "left" if i < 14 else "tie") for i in range(30)]
    compared = [pair_item(i, "lt", "left" if i >= 6 else None) for i in range(30)]
    found = paired_difference(scored, compared)
    one, other = found.first.without_ties, found.second.without_ties
    figures = (one.value, other.value, found.difference.value)
    assert [f"{100 * figure:+.1f}" for figure in figures] == ["+46.7", "+80.0", "-33.3"]
    assert one.n == found.difference.n == 30  # the ties of people are not unequal labels


def test_accuracy_counts_all_items():
    items = [
        pair_item(0, "l", "left"),
        pair_item(1, "l", None, forward="left", reverse="right"),
        pair_item(2, "t", "tie"),
        pair_item(3, "r", "tie"),
        pair_item(4, "r", "right"),
        pair_item(5, "r", None, forward=None, reverse=None, state="failed"),
    ]
    found = calibrate_pairs(items).benchmarks["verdict"]
    assert found.with_ties.value == pytest.approx(3 / 6)
    assert found.without_ties.value == pytest.approx(2 / 5)
    assert (found.with_ties.n, found.without_ties.n) == (6, 5)


def test_only_items_of_both_sets_are_compared():
    found = paired_difference([pair_item(0), pair_item(1)], [pair_item(1), pair_item(2)])
    assert found.n_items == 1
    # People may vote while the second set is read.
    later = paired_difference([pair_item(0, "l")], [pair_item(0, "lr", "right")])
    assert (later.difference.value, later.difference.n) == (1, 1)
    nothing = paired_difference([], [])
    assert (nothing.n_items, nothing.p, nothing.difference.value) == (0, 1, None)
