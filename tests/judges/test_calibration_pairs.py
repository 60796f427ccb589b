"""The report on a judge of pairs, compared with figures counted one by one."""

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from judges.core.calibration.items import PairItem
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


def majority(labels):
    counts = Counter(labels)
    best = [label for label in counts if counts[label] == max(counts.values())]
    return best if len(best) == 1 else []


def turn(said):
    return {"left": "right", "right": "left"}.get(said, said)


def unanimous(labels):
    return labels[:1] if len(labels) > 1 and len(set(labels)) == 1 else []


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_each_agreement_is_counted_label_by_label(items):
    found = report(items)
    for agreement, choose in [
        (found.against_all, list),
        (found.against_majority, majority),
        (found.where_all_agree, unanimous),
    ]:
        met = [(i.verdict, said) for i in items if i.verdict for said in choose(three_way(i))]
        assert_share(agreement.three_way, [a == b for a, b in met])
        assert_share(agreement.decisive, [a == b for a, b in met if {a, b} <= set(SIDES)])
        if {said for both in met for said in both} - {"tie"}:
            both_ways = met + [(turn(a), turn(b)) for a, b in met]
            codes = [
                [OUTCOMES.index(said) for said in side] for side in zip(*both_ways, strict=True)
            ]
            assert agreement.kappa.value == pytest.approx(clustered_kappa(*codes).value)
        else:
            assert agreement.kappa.value is None


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_people_are_compared_on_items_the_judge_settled(items):
    found = report(items)
    for people, everywhere in [(found.people, False), (found.people_everywhere, True)]:
        three, two = [], []
        for item in items:
            if item.verdict or everywhere:
                three += [a == b for a, b in combinations(three_way(item), 2)]
            if item.verdict in SIDES or everywhere:
                sides = [said for said in three_way(item) if said in SIDES]
                two += [a == b for a, b in combinations(sides, 2)]
        assert_share(people.three_way, three)
        assert_share(people.decisive, two)


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_the_longer_answer_is_a_judge_of_its_own(items):
    found = report(items).longer
    labels = [(item, said) for item in items for said in three_way(item)]
    assert_share(found.three_way, [longer(item) == said for item, said in labels])
    sided = [(i, said) for i, said in labels if said in SIDES and longer(i) in SIDES]
    assert_share(found.decisive, [longer(item) == said for item, said in sided])
    ours = [(i, said) for i, said in sided if i.verdict in SIDES]
    assert_lift(found.lift_decisive, ours)
    assert_lift(found.lift_three_way, [(i, said) for i, said in labels if i.verdict])
    hits = [
        (on_side(i.verdict, said), on_side(longer(i), said)) for i, said in labels if said in SIDES
    ]
    gain = [judge - length for judge, length in hits]
    assert found.lift_on_all.n == len(gain)
    assert found.lift_on_all.value == (pytest.approx(sum(gain) / len(gain)) if gain else None)


def on_side(verdict, said):
    """A tie or no verdict counts half."""
    return float(verdict == said) if verdict in SIDES else 0.5


def assert_lift(found, met):
    gain = [(item.verdict == said) - (longer(item) == said) for item, said in met]
    assert found.n == len(gain)
    assert found.value == (pytest.approx(sum(gain) / len(gain)) if gain else None)


@settings(deadline=None, max_examples=60)
@given(pair_items())
def test_counts_are_plain_counts(items):
    found = report(items)
    assert found.n_items == len(items) == sum(found.states.values())
    assert found.n_labels == sum(len(item.labels) for item in items)
    assert all(found.states[item.state] for item in items)
    cells = Counter((said, i.verdict or "none") for i in items for said in three_way(i))
    assert all(found.confusion[row][column] == times for (row, column), times in cells.items())
    assert sum(sum(row.values()) for row in found.confusion.values()) == found.n_labels


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
def test_swapping_the_sides_of_any_items_changes_no_figure_but_the_confusion(items, data):
    turned = report([swapped(item) if data.draw(st.booleans()) else item for item in items])
    found = report(items)
    assert set(vars(found)) - {"confusion"} == set(vars(turned)) - {"confusion"}
    for name in set(vars(found)) - {"confusion", "level", "states"}:
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
    if isinstance(part, tuple):
        return [number for inner in part for number in values(inner)]
    return [number for inner in vars(part).values() for number in values(inner)]


@settings(deadline=None, max_examples=40)
@given(pair_items())
def test_every_report_is_json_without_nan(items):
    found = report(items)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["against_all"]["decisive"]["n"] == found.against_all.decisive.n


def test_three_readings_of_people_side_by_side():
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
    assert found.against_majority.decisive.value == pytest.approx(3 / 4)  # item 3 has no majority
    assert (found.where_all_agree.decisive.value, found.where_all_agree.decisive.n) == (1, 1)
    assert found.people.decisive.value == pytest.approx((3 + 1 + 1 + 0) / (3 + 3 + 3 + 1))


def test_both_bad_is_a_tie_three_ways_and_never_a_side():
    found = report([pair_item(0, "b", "tie"), pair_item(1, "b", "left"), pair_item(2, "bt", "tie")])
    assert found.against_all.decisive.n == 0
    assert found.against_all.three_way.value == pytest.approx(3 / 4)
    assert found.where_all_agree.three_way.value == 1
    assert found.confusion["tie"] == {"left": 1, "right": 0, "tie": 3, "none": 0}


def test_a_missing_verdict_is_neither_a_tie_nor_a_miss():
    states = ["abstained", "unreadable", "refused", "too_long", "failed"]
    none = [pair_item(i, "t", None, state=state) for i, state in enumerate(states)]
    found = report([*none, pair_item("x", "l")])
    assert found.against_all.three_way.n == 1
    assert found.confusion["tie"]["none"] == 5
    assert dict(found.states) == dict.fromkeys(["voted", *states], 1)


def test_one_label_per_item_leaves_people_unknown():
    found = report([pair_item(i) for i in range(20)])
    assert found.people.decisive.value is None
    assert found.people.decisive.reason.startswith("No item that counts here has two people")
    assert found.where_all_agree.decisive.value is None
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


BAD = [
    (lambda: pair_item("x", "l", "both_bad"), "Item x: the verdict 'both_bad' is not one of"),
    (lambda: pair_item("x", state="skipped"), "Item x: the state 'skipped' is not one of"),
    (lambda: pair_item("x", state="failed"), "Item x must have a verdict if, and only if"),
    (lambda: pair_item("x", "l", None, state="voted"), "Item x must have a verdict if"),
    (lambda: pair_item("x", forward="A"), "Item x: the verdict 'A'"),
    (lambda: pair_item("x", own_family="tie"), "Item x: own_family"),
    (lambda: pair_item("x", length_left=-1), "Item x: a length"),
    (lambda: labelled(("a", "best")), "Item x: the label 'best' is not one of"),
    (lambda: labelled(("a", "left"), ("a", "tie")), "Item x: one rater labelled it more than once"),
    (lambda: calibrate_pairs([pair_item("x"), pair_item("x")]), "Item x occurs more than once"),
    (lambda: calibrate_pairs([], level=2), "confidence must be between"),
]


def labelled(*labels: tuple[str, str]) -> PairItem:
    return replace(pair_item("x"), labels=labels)


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_items_are_refused_with_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_report_on_pairs_does_not_load_what_only_scores_need():
    code = (
        "import sys; from judges.core.calibration.pairs import calibrate_pairs;"
        "calibrate_pairs([]);"
        "assert not {'scipy.stats', 'django'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
    assert_difference(found.decisive, [row for row in met if set(row) <= set(SIDES)])
    every = [
        (one.verdict, other.verdict, said)
        for one, other in zip(items, others, strict=True)
        for said in one.people
        if said in SIDES
    ]
    assert_difference(found.strict, every)
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
    assert found.p == pytest.approx(binomtest(1, 13).pvalue)
    # labels: 12 items gain one of three, one loses one of three, one is even
    assert found.decisive.value == pytest.approx((12 - 1) / 41)
    assert found.decisive.low > 0


def test_a_tie_of_scores_between_unequal_labels_is_wrong():
    """Direct2Pair: scores that tie on half of the pairs, and pairwise verdicts that are right."""
    scored = [pair_item(i, "l", "tie" if i % 2 else "left") for i in range(20)]
    compared = [pair_item(i, "l", "left" if i % 5 else "right") for i in range(20)]
    found = paired_difference(scored, compared)
    assert found.decisive.value == pytest.approx(0.2)  # of the ten pairs that both decide
    assert found.strict.value == pytest.approx(0.5 - 0.8)


def test_direct2pair_is_the_difference_of_two_accuracies():
    """Scores right on 46.7 % of the pairs with unequal labels and verdicts on 80.0 %: -33.3."""
    scored = [pair_item(i, "lt", "left" if i < 14 else "tie") for i in range(30)]
    compared = [pair_item(i, "lt", "left" if i >= 6 else None) for i in range(30)]
    compared[0] = pair_item(0, "lt", "right")  # so on the pairs that both decide, scores are ahead
    found = paired_difference(scored, compared)
    assert found.decisive.value == pytest.approx(1 / 9)
    figures = (found.strict_first.value, found.strict_second.value, found.strict.value)
    assert [f"{100 * figure:+.1f}" for figure in figures] == ["+46.7", "+80.0", "-33.3"]
    assert found.strict_first.n == found.strict.n == 30  # the ties of people are not unequal labels


def test_benchmarks_count_readings_over_all_items():
    items = [
        pair_item(0, "l", "left"),
        pair_item(1, "l", None, forward="left", reverse="right"),
        pair_item(2, "t", "tie"),
        pair_item(3, "r", "tie", forward="tie", reverse="tie"),
        pair_item(4, "l", None, forward="left", reverse=None, state="unreadable"),
        pair_item(5, "r", "right", forward=None, reverse=None),  # asked once
        pair_item(6, "r", None, forward=None, reverse=None, state="failed"),
    ]
    found = calibrate_pairs(items).benchmarks
    assert found.single.with_ties.value == pytest.approx((1 + 0.5 + 1 + 0 + 0.5 + 1 + 0) / 7)
    assert found.single.without_ties.value == pytest.approx((1 + 0.5 + 0 + 0.5 + 1 + 0) / 6)
    assert found.both.with_ties.value == pytest.approx(3 / 7)
    assert found.both.without_ties.value == pytest.approx(2 / 6)
    assert found.verdict.with_ties.value == pytest.approx(3 / 7)
    assert found.verdict.without_ties.value == pytest.approx(2 / 6)
    assert (found.verdict.with_ties.n, found.verdict.without_ties.n) == (7, 6)


def test_each_person_is_left_out_in_turn():
    """Of three labels, the odd one out agrees with nobody, the others with one of two."""
    items = [pair_item(i, "llr", "left") for i in range(30)] + [pair_item(30, "l", "right")]
    items += [pair_item(31, "lr", None)]
    found = calibrate_pairs(items).left_out
    rows = 30 * 3 + 2
    assert found.people.n == found.judge.n == found.difference.n == rows
    assert found.people.value == pytest.approx(30 * (0.5 + 0.5 + 0) / rows)
    assert found.judge.value == pytest.approx(30 * (0.5 + 0.5 + 1) / rows)
    assert found.difference.value == pytest.approx(30 / rows)
    assert found.annotators.n_people == 3
    assert found.annotators.advantage == pytest.approx((31 / 31 + 31 / 31 + 1) / 3)


def test_items_of_one_set_alone_are_counted_and_left_out():
    found = paired_difference(
        [pair_item(0), pair_item(1)], [pair_item(1), pair_item(2), pair_item(3)]
    )
    assert (found.n_items, found.left_out) == (1, 3)


def test_nothing_in_common_is_reported():
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
