"""Weighted juries and cascades, compared with an oracle that knows their errors."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from judges.core.calibration.panels import (
    FEWEST_ITEMS,
    PanelItem,
    PanelOption,
    fit_weights,
    measure_panel,
    most,
    panel_items,
    weigh,
)
from tests.judges.helpers import pair_item

ACCURACY = {"chat": (0.88, 0.62), "code": (0.74, 0.82), "maths": (0.62, 0.85)}
COPIES = 0.9  # how often the third judge repeats the first
DECIDES = 0.9
OTHER = {"left": "right", "right": "left"}


def simulate(n: int, seed: int) -> list[PanelItem]:
    """Two judges that are good at different things, and a third that mostly repeats the first."""
    random = np.random.default_rng(seed)
    items = []
    for number in range(n):
        category = sorted(ACCURACY)[number % 3]
        truth = ("left", "right")[random.integers(2)]
        first, second = (
            truth if random.random() < accuracy else OTHER[truth] for accuracy in ACCURACY[category]
        )
        third = first if random.random() < COPIES else ("left", "right")[random.integers(2)]
        verdicts = tuple(
            verdict if random.random() < DECIDES else None for verdict in (first, second, third)
        )
        lefts = int(truth == "left")
        items.append(PanelItem(f"prompt {number // 3}", category, lefts, 1, verdicts))
    return items


def likelihood(category: str, truth: str, verdicts: tuple[str | None, ...]) -> float:
    """The probability of these verdicts, by the numbers of the simulation."""
    total = 0.0
    for first, second, third in product(OTHER, repeat=3):
        chance = 1.0
        for said, accuracy in zip((first, second), ACCURACY[category], strict=True):
            chance *= accuracy if said == truth else 1 - accuracy
        chance *= COPIES * (third == first) + (1 - COPIES) / 2
        for said, shown in zip((first, second, third), verdicts, strict=True):
            chance *= 1 - DECIDES if shown is None else DECIDES * (shown == said)
        total += chance
    return total


def share_right(items: list[PanelItem], verdicts: list[str | None]) -> float:
    hits = [
        0.5 if verdict not in OTHER else float((verdict == "left") == bool(item.lefts))
        for item, verdict in zip(items, verdicts, strict=True)
    ]
    return sum(hits) / len(hits)


def dawid_skene(train: list[PanelItem], item: PanelItem) -> str | None:
    """Weights as if errors were independent: the log odds of each judge's accuracy by category."""
    score = 0.0
    for judge, verdict in enumerate(item.verdicts):
        if verdict is None:
            continue
        known = [
            (one.verdicts[judge] == "left") == bool(one.lefts)
            for one in train
            if one.category == item.category and one.verdicts[judge]
        ]
        odds = math.log((sum(known) + 1) / (len(known) - sum(known) + 1))
        score += odds if verdict == "left" else -odds
    return None if not score else "left" if score > 0 else "right"


def test_weights_come_within_a_point_of_the_oracle_where_a_majority_does_not() -> None:
    train, test = simulate(1200, 1), simulate(6000, 2)
    weights = fit_weights(train)
    oracle = [
        max(OTHER, key=lambda truth, item=item: likelihood(item.category, truth, item.verdicts))
        if any(item.verdicts)
        else None
        for item in test
    ]
    best = share_right(test, oracle)
    weighted = share_right(
        test, [weigh(weights.of(item.category), item.verdicts)[0] for item in test]
    )
    independent = share_right(test, [dawid_skene(train, item) for item in test])
    majority = share_right(test, [most(item.verdicts) for item in test])
    singles = [share_right(test, [item.verdicts[judge] for item in test]) for judge in range(3)]
    assert best - weighted < 0.01
    assert weighted > independent + 0.005
    assert weighted > max(majority, *singles) + 0.05


def test_probabilities_are_near_those_of_the_oracle() -> None:
    weights = fit_weights(simulate(20_000, 3))
    off = total = 0.0
    for category, verdicts in product(ACCURACY, product(("left", "right", None), repeat=3)):
        left, right = (likelihood(category, truth, verdicts) for truth in OTHER)
        found = weigh(weights.of(category), verdicts)[1]
        off += (left + right) * abs(found - left / (left + right))
        total += left + right
    assert total == pytest.approx(2 * len(ACCURACY))
    assert off / total < 0.03


def test_independent_judges_weigh_their_log_odds() -> None:
    random = np.random.default_rng(4)
    accuracies = (0.9, 0.7, 0.55)
    items = [
        PanelItem(
            str(i), "", 1, 1, tuple(("right", "left")[random.random() < a] for a in accuracies)
        )
        for i in range(20_000)
    ]
    turned = [
        PanelItem(f"{i.cluster}t", "", 0, 1, tuple(OTHER[v or ""] for v in i.verdicts))
        for i in items
    ]
    weights = fit_weights(items + turned)
    assert weights.categories == {}
    expected = [math.log(a / (1 - a)) for a in accuracies]
    assert weights.general == pytest.approx(expected, abs=0.06)


def test_the_fit_is_the_maximum_that_another_method_finds() -> None:
    items = simulate(300, 5)
    names = sorted(ACCURACY)
    signs = np.array(
        [[{"left": 1, "right": -1}.get(v or "", 0) for v in i.verdicts] for i in items]
    )
    of = np.array([names.index(item.category) for item in items])
    lefts = np.array([item.lefts for item in items])

    def loss(flat: np.ndarray) -> float:
        general, apart = flat[:3], flat[3:].reshape(3, 3)
        score = np.sum(signs * (general + apart[of]), axis=1)
        loglik = lefts * score - np.logaddexp(0, score)
        return float(-loglik.sum() + 0.05 * general @ general + 2.0 * np.sum(apart**2))

    found = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-9}).x
    weights = fit_weights(items)
    assert weights.general == pytest.approx(found[:3], abs=1e-4)
    for place, name in enumerate(names):
        apart = found[3 + 3 * place : 6 + 3 * place]
        assert weights.of(name) == pytest.approx(found[:3] + apart, abs=1e-4)
    assert weights.of("another") == weights.general


@given(st.lists(st.sampled_from(["left", "right", "tie", None]), min_size=3, max_size=3))
def test_sides_are_alike(verdicts: list[str | None]) -> None:
    weights = (1.2, 0.7, 0.4)
    outcome, left = weigh(weights, verdicts)
    turned, right = weigh(weights, [OTHER.get(v or "", v) for v in verdicts])
    assert OTHER.get(outcome or "", outcome) == turned
    assert left + right == pytest.approx(1)
    assert (outcome is None) == (set(verdicts) == {None})


def options_of(
    items: list[PanelItem], *costs: float
) -> dict[tuple[str, tuple[int, ...]], PanelOption]:
    report = measure_panel(items, costs, n_resamples=100)
    assert report is not None
    assert report.n_items == len(items)
    return {(option.kind, option.members): option for option in report.options}


def test_a_cascade_pays_the_second_judge_only_where_the_first_has_no_verdict() -> None:
    items = [
        PanelItem(str(i), "", 1, 1, ("left" if i % 4 else None, "left" if i % 10 else "right"))
        for i in range(80)
    ]
    options = options_of(items, 10**6, 10**7)
    cheap, strong = options["judge", (0,)], options["judge", (1,)]
    cascade = options["cascade", (0, 1)]
    assert ("cascade", (1, 0)) not in options
    assert (cheap.cost, strong.cost) == (10**9, 10**10)
    assert cascade.cost == pytest.approx(10**9 + 0.25 * 10**10)
    assert cheap.agreement.value == pytest.approx(0.75 + 0.25 / 2)
    wrong = sum(i % 4 == 0 and i % 10 == 0 for i in range(80))
    assert cascade.agreement.value == pytest.approx(1 - wrong / 80)
    assert (cheap.offered, cascade.offered, strong.offered) == (True, True, False)
    assert cascade.gain is not None
    points = 100 * (cascade.agreement.value - cheap.agreement.value)
    assert 100 * cascade.gain.value == pytest.approx(points)
    assert cascade.per_dollar == pytest.approx(points / 2.5)


def test_weighing_is_offered_where_it_gains_and_not_where_it_does_not() -> None:
    gains = options_of(simulate(600, 6), 10**6, 10**6, 10**6)["weighted", (0, 1, 2)]
    assert gains.offered
    assert gains.gain is not None
    assert gains.gain.low > 0
    copies = [
        PanelItem(one.cluster, one.category, one.lefts, 1, one.verdicts[:1] * 3)
        for one in simulate(600, 7)
    ]
    nothing = options_of(copies, 10**6, 10**6, 10**6)
    assert not nothing["weighted", (0, 1, 2)].offered
    assert not nothing["majority", (0, 1, 2)].offered
    assert sum(option.offered for option in nothing.values()) == 1


@pytest.mark.parametrize(("cheap_wrong", "offered"), [(20, False), (35, True)])
def test_a_dearer_judge_is_offered_only_if_its_gain_is_more_than_chance(
    cheap_wrong: int, offered: bool
) -> None:
    """The strong judge is wrong on 18 other pairs of 100."""
    sides = ("right", "left")
    items = [
        PanelItem(str(i), "", 1, 1, (sides[i >= cheap_wrong], sides[i < 82])) for i in range(100)
    ]
    strong = options_of(items, 10**6, 10**7)["judge", (1,)]
    assert strong.agreement.value == pytest.approx(0.82)
    assert (strong.offered, strong.gain is not None) == (offered, offered)


def test_a_judge_that_is_no_better_than_a_coin_is_not_offered_however_cheap() -> None:
    items = [
        PanelItem(str(i), "", i % 2, 1, ("left", ("right", "left")[(i + (i % 10 == 0)) % 2]))
        for i in range(80)
    ]
    options = options_of(items, 10**5, 10**6)
    assert [options["judge", (judge,)].offered for judge in (0, 1)] == [False, True]
    assert options["judge", (1,)].per_dollar is None


def test_a_jury_is_not_measured_on_the_prompts_that_it_was_fitted_on() -> None:
    """Judges that guess: weights fitted to chance must not look good."""
    random = np.random.default_rng(8)
    items = [
        PanelItem(
            str(i), str(i % 2), int(random.integers(2)), 1,
            tuple(("left", "right")[random.integers(2)] for _ in range(5)),
        )
        for i in range(120)
    ]  # fmt: skip
    measured = options_of(items, *[1.0] * 5)["weighted", (0, 1, 2, 3, 4)].agreement.value
    weights = fit_weights(items)
    on_its_own = share_right(
        items, [weigh(weights.of(item.category), item.verdicts)[0] for item in items]
    )
    assert measured is not None
    assert measured < 0.6 < on_its_own + 0.02
    assert measured < on_its_own - 0.04


def test_too_little_is_not_measured() -> None:
    items = simulate(FEWEST_ITEMS, 9)
    assert measure_panel(items[1:], [1, 1, 1]) is None
    assert measure_panel([], [1]) is None
    assert measure_panel(items, [1, 1, 1], n_resamples=50) is not None


def test_only_what_all_were_asked_and_people_decided_counts() -> None:
    def items(verdicts: dict[str, str | None]) -> list:
        return [
            pair_item(key, "t" if key == "d" else "lr", verdict)
            for key, verdict in verdicts.items()
        ]

    found = panel_items(
        [items({"a": "left", "b": None, "d": "left"}), items({"b": "tie", "d": "tie"})]
    )
    assert [(one.lefts, one.n_labels, one.verdicts) for one in found] == [(1, 2, (None, "tie"))]
    assert panel_items([]) == []
