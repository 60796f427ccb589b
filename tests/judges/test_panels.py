"""Weighted juries, compared with an oracle that knows their errors."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from judges.core.calibration.panels import (
    PanelItem,
    Weights,
    fit_weights,
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


def weights_in(weights: Weights, category: str) -> tuple[float, ...]:
    return tuple(weights.categories.get(category, weights.general))


def most(verdicts: tuple[str | None, ...]) -> str | None:
    """The outcome of more than half of the verdicts, of which there is a quorum."""
    given = [verdict for verdict in verdicts if verdict]
    enough = 2 * len(given) > len(verdicts)
    return next((side for side in OTHER if enough and 2 * given.count(side) > len(given)), None)


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
        test, [weigh(weights_in(weights, item.category), item.verdicts)[0] for item in test]
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
        found = weigh(weights_in(weights, category), verdicts)[1]
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
        assert weights_in(weights, name) == pytest.approx(found[:3] + apart, abs=1e-4)


@given(st.lists(st.sampled_from(["left", "right", "tie", None]), min_size=3, max_size=3))
def test_sides_are_alike(verdicts: list[str | None]) -> None:
    weights = (1.2, 0.7, 0.4)
    outcome, left = weigh(weights, verdicts)
    turned, right = weigh(weights, [OTHER.get(v or "", v) for v in verdicts])
    assert OTHER.get(outcome or "", outcome) == turned
    assert left + right == pytest.approx(1)
    assert (outcome is None) == (set(verdicts) == {None})


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
